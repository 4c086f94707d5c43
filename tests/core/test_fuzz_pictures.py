"""Every kind of image file that people have, whole and cut off: taken, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzzing

TAKEN = {
    *("grey", "palette", "1-bit", "grey JPEG", "40,000 wide"),
    *("bomb in more rows than said", "palette image without palette"),
}
"""What is an image and a mask of four classes at once."""


@pytest.mark.parametrize("name", fuzzing.named_pictures())
def test_a_kind_of_picture_is_taken_or_refused(name: str, tmp_path: Path) -> None:
    content = fuzzing.named_pictures()[name]
    fuzzing.read("picture", content[: 2 * len(content) // 3], tmp_path / "cut")
    assert fuzzing.read("picture", content, tmp_path / "whole") == (name in TAKEN)
