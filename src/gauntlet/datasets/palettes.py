"""Colours of classes."""

from __future__ import annotations

from gauntlet.datasets.contract import Color


def voc_palette(count: int, *, skip: int = 0) -> tuple[Color, ...]:
    """The colours of PASCAL VOC's label images: the bits of the index, dealt to red, green and blue in turn.

    >>> voc_palette(3)
    ((0, 0, 0), (128, 0, 0), (0, 128, 0))

    Args:
        count: how many.
        skip: how many to leave out at the beginning (1: without the black of the background).
    """
    return tuple(_voc_color(index) for index in range(skip, count + skip))


def _voc_color(index: int) -> Color:
    channels = [0, 0, 0]
    for shift in range(7, -1, -1):
        for channel in range(3):
            channels[channel] |= ((index >> channel) & 1) << shift
        index >>= 3
    return channels[0], channels[1], channels[2]
