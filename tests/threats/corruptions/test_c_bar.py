"""The ten corruptions of ImageNet-C-bar against the reference values of docs/specs/beyond.md, 9."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from corruption_patterns import PATTERNS, Image, blocks

from gauntlet.analysis import mpc
from gauntlet.analysis.scoring.benchmark_sets import C_BAR as MEMBERS
from gauntlet.threats import suites
from gauntlet.threats.corruptions import C_BAR, corrupt, names
from gauntlet.threats.corruptions.settings import Stream
from paths import DATA

CELLS: dict[str, dict[str, Any]] = json.loads((DATA / "beyond_reference_9.json").read_text())["cells"]
IMAGES = {name: PATTERNS[name]() for name in ("S1", "S2")}


def figures(out: Image, image: Image) -> list[float]:
    """Mean of every channel, standard deviation, mean error, PSNR, roughness, as the table has them."""
    levels, difference = out.astype(np.float64), out.astype(np.float64) - image
    psnr = 10 * math.log10(255**2 / np.square(difference).mean())
    rough = np.abs(np.diff(levels, axis=1)).mean()
    return [*levels.mean(axis=(0, 1)), levels.std(), np.abs(difference).mean(), psnr, rough]


def test_the_ten() -> None:
    assert tuple(names("c-bar")) == C_BAR == MEMBERS
    assert {key.split("|")[1] for key in CELLS} == set(C_BAR)
    assert len(suites.build("c-bar")) == 1 + 10 * 5


@pytest.mark.parametrize("name", C_BAR)
def test_the_legacy_stream_gives_the_reference_of_seed_0(name: str) -> None:
    for key, cell in CELLS.items():
        image_name, corruption, severity = key.split("|")
        if corruption == name:
            image = IMAGES[image_name]
            measured = figures(corrupt(image, name, int(severity), 0, stream="legacy"), image)
            np.testing.assert_allclose(measured, cell["seed0"], rtol=0, atol=0.05, err_msg=key)


@pytest.mark.parametrize("name", C_BAR)
def test_the_fast_stream_has_the_statistics_of_the_reference(name: str) -> None:
    cell, image, seeds = CELLS[f"S1|{name}|3"], IMAGES["S1"], 6
    errors = [figures(corrupt(image, name, 3, seed), image)[4] for seed in range(seeds)]
    spread = cell["se_mae"] * math.sqrt(cell["n"])
    tolerance = 4 * math.hypot(cell["se_mae"], spread / math.sqrt(seeds)) + 0.05
    assert np.mean(errors) == pytest.approx(cell["mean"][4], abs=tolerance)


@pytest.mark.parametrize("stream", ["fast", "legacy"])
@pytest.mark.parametrize("name", C_BAR)
def test_any_size(name: str, stream: Stream) -> None:
    for image in (blocks(), blocks()[:33, :35], blocks()[:64, :33], blocks()[:33, :160]):
        before = image.copy()
        out = corrupt(image, name, 4, 3, stream=stream)
        assert out.shape == image.shape
        assert out.dtype == np.uint8
        assert (image == before).all()
        assert (out == corrupt(image, name, 4, 3, stream=stream)).all()
        assert (out != image).any()


@pytest.mark.parametrize("name", C_BAR)
def test_a_flat_image_has_the_same_statistics_when_it_is_not_square(name: str) -> None:
    square, wide = (np.full((*size, 3), 120, np.uint8) for size in ((64, 64), (44, 93)))
    outs = [[corrupt(image, name, 3, seed).astype(float) for seed in range(24)] for image in (square, wide)]
    if name not in ("caustic_refraction", "sparkles", "inverse_sparkles"):  # what is round meets the border
        errors = [np.abs(np.stack(each) - 120).mean() for each in outs]
        assert errors[1] == pytest.approx(errors[0], rel=0.15)
    assert len({out.tobytes() for out in outs[0]}) == 24


def test_their_mean() -> None:
    rows = [
        {"kind": "corruption", "threat": f"{name} {severity}", "value": 0.5 + 0.01 * severity,
         "description": json.dumps({"corruption": {"name": name, "severity": severity}})}
        for name in C_BAR for severity in (1, 2, 3, 4, 5)
    ]  # fmt: skip
    rows.append({"kind": "clean", "threat": "clean", "value": 0.8, "description": json.dumps({"clean": {}})})
    shared = {"model": "a", "dataset": "d", "task": "segmentation", "metric": "mIoU", "view": "all", "class_name": ""}
    table = mpc(pd.DataFrame([{**shared, **row} for row in rows]), corruptions=C_BAR)
    assert list(table.iloc[0][["mPC", "rPC"]]) == pytest.approx([0.53, 0.53 / 0.8])
    assert table.loc[0, "cells"] == "50 of 50"
