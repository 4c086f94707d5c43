"""Settings that every corruption has: where its random numbers come from, what it sees of an image and its depth."""

from __future__ import annotations

from typing import Literal, get_args

from gauntlet.errors import unknown_name

Stream = Literal["fast", "legacy"]
Channels = Literal["rgb", "bgr"]
DepthRule = Literal["metric", "estimated"]


def check_settings(stream: object = "fast", channels: object = "rgb", depth_rule: object = "metric") -> None:
    """An error for anything but a random stream, an order of channels, a way to read depth."""
    for kind, value, known in (
        ("random stream", stream, get_args(Stream)),
        ("channel order", channels, get_args(Channels)),
        ("depth rule", depth_rule, get_args(DepthRule)),
    ):
        if value not in known:
            raise unknown_name(kind, str(value), known)
