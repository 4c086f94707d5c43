"""Compressed video: the last frame of a short clip of the scene after H.265 (docs/specs/corruptions.md, section 4.6).

The clip is the way of a moving camera, there and back, so that its last frame shows the original view again. It is
written as H.264 first, as the reference's source clips are, and then compressed anew. The same versions of libx264 and
libx265 give the same bytes; other versions may not.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.extras import install_command
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.depth import Depth
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.motion_3d import forwards, frames_of, sideways

FRAMES_PER_SECOND = 25
SOURCE_QUALITY = 23  # libx264's default
QUALITIES = (24, 26, 32, 39, 41)
"""Constant rate factors of h265_crf, by severity."""
DIVISORS = (2, 4, 8, 16, 32)
"""What h265_abr divides the bit rate of the source clip by, by severity."""
CONTAINER = "mp4"
SMALLEST = 64
"""The least height and width of an image: one coding unit of H.265."""
# One thread, so that the same versions give the same bytes. libx264's macroblock tree gives others from run to run even
# then (found by repeating it), so it is off for the source clip, against the writer's defaults.
_X264 = {"crf": str(SOURCE_QUALITY), "threads": "1", "x264-params": "mbtree=0"}
_X265 = {"x265-params": "pools=none:frame-threads=1:log-level=none"}


def h265_crf(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """H.265 at a constant quality. A seed gives all severities the same clip."""
    clip = _source_clip(image, draws, depth)
    return _last_frame(image, _compressed(clip, {"crf": str(QUALITIES[severity - 1]), **_X265}))


def h265_abr(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """H.265 at an average bit rate, a part of the source clip's. A seed gives all severities the same clip."""
    clip = _source_clip(image, draws, depth)
    with _require_av().open(io.BytesIO(clip)) as container:
        rate = max(1000, int(container.bit_rate) // DIVISORS[severity - 1])
    limits = {"b": str(rate), "maxrate": str(rate), "bufsize": str(rate)}
    return _last_frame(image, _compressed(clip, {**limits, **_X265}))


def _require_av() -> Any:
    try:
        import av
    except ImportError:
        raise GauntletError(
            f"the corruptions h265_crf and h265_abr need PyAV; install it with: {install_command('video')}."
        ) from None
    return av


def _source_clip(image: Image, draws: Draws, depth: Depth) -> bytes:
    """60 frames of a moving camera, then back without repeating the turning frame: 119, as H.264."""
    _require_av()
    if min(image.shape[:2]) < SMALLEST:  # libx265 ends the whole process on smaller ones
        size = f"{image.shape[0]}x{image.shape[1]}"
        raise GauntletError(f"H.265 needs images of at least {SMALLEST} pixels in height and width, not {size}.")
    way = sideways(draws) if draws.integer(2) == 0 else forwards(draws)
    there = frames_of(image, depth, way)
    return _encoded([*there, *there[-2::-1]], "libx264", _X264)


def _compressed(clip: bytes, options: Mapping[str, str]) -> bytes:
    """A clip compressed anew as H.265."""
    return _encoded(list(_decoded(clip)), "libx265", options)


def _encoded(frames: Sequence[Image], codec: str, options: Mapping[str, str]) -> bytes:
    """Frames (H, W, 3) as a clip; an odd last row or column is cut off, as the chroma of 4:2:0 needs it."""
    av, buffer = _require_av(), io.BytesIO()
    height, width = (side - side % 2 for side in frames[0].shape[:2])
    with av.open(buffer, "w", format=CONTAINER) as container:
        stream = container.add_stream(codec, rate=FRAMES_PER_SECOND, options=dict(options))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for pixels in frames:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels[:height, :width]), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()


def _decoded(clip: bytes) -> Iterator[Image]:
    """The frames of a clip, uint8 (H, W, 3)."""
    with _require_av().open(io.BytesIO(clip)) as container:
        for frame in container.decode(video=0):
            yield np.array(frame.to_ndarray(format="rgb24"), np.uint8)  # a copy: the frame's memory is used again


def _last_frame(image: Image, clip: bytes) -> Image:
    """The last frame of a clip at the size of the image; a row or column that was cut off repeats its neighbour."""
    *_, last = _decoded(clip)
    missing = [(0, image.shape[axis] - last.shape[axis]) for axis in (0, 1)]
    return np.pad(last, (*missing, (0, 0)), mode="edge")
