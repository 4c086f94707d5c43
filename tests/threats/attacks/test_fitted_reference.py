"""Every value of the sections "universal" and "patch" of tests/data/beyond_reference_6_and_7.json."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from attack_fixture import CLASSES, IMAGES, LABELS, PREDICTIONS, VOID, VOID_LABELS, close, correct, network

from gauntlet.samples import Batch, Sample
from gauntlet.threats.attacks.engine.posing import pose_pixels
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.request import Request
from gauntlet.threats.fitted.patch import PatchRule, fit_loop, pixel_direction
from gauntlet.threats.fitted.patch_losses import (
    DYNAMIC,
    PLAIN,
    Gamma,
    pixel_terms,
    printability,
    smoothness,
)
from gauntlet.threats.fitted.placing import Laid, Placement, paste
from gauntlet.threats.fitted.projecting import homography, project, rectangle, upright_corners
from gauntlet.threats.fitted.tiles import tiled
from gauntlet.threats.fitted.universal import UniversalRule, fit_perturbation
from gauntlet.threats.fitted.universal_targets import PixelAim, without_class
from paths import DATA

REFERENCE: dict[str, Any] = json.loads((DATA / "beyond_reference_6_and_7.json").read_text())
UNIVERSAL, PATCH = REFERENCE["universal"], REFERENCE["patch"]
HIDDEN = 3
ROWS, COLUMNS = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
STATIC = ((ROWS // 4 + COLUMNS // 8) % CLASSES).expand(2, 16, 16)
HIDING = torch.stack([torch.from_numpy(without_class(each.numpy(), HIDDEN)) for each in PREDICTIONS])
INSIDE = (ROWS >= 5) & (ROWS < 9) & (COLUMNS >= 6) & (COLUMNS < 12)


def posed(labels: torch.Tensor) -> Problem:
    return pose_pixels(network, IMAGES, labels, Request(ignore_index=VOID))


def aim_of(mode: str) -> tuple[PixelAim, torch.Tensor]:
    if mode == "static":
        return PixelAim(posed(STATIC), towards=True, sure=0.75), STATIC
    if mode == "untargeted":
        return PixelAim(posed(LABELS), towards=False), LABELS
    weights = torch.where(PREDICTIONS == HIDDEN, 0.9999, 1 - 0.9999).double()
    return PixelAim(posed(HIDING), towards=True, weights=weights, sure=0.75), HIDING


@pytest.mark.parametrize("mode", ["static", "dynamic", "untargeted"])
@pytest.mark.parametrize("tile", [16, 8])
def test_universal_runs(mode: str, tile: int) -> None:
    expected = UNIVERSAL[f"spec_run|{mode}|tile{tile}|20"]
    aim, target = aim_of(mode)
    made = fit_perturbation([aim], UniversalRule(passes=expected["iterations"], tile=(tile, tile)))
    close(made.sum()[None], [expected["sum_xi"]], absolute=1e-6)
    close(made.abs().sum()[None], [expected["l1_xi"]], absolute=1e-6)
    close(made[:, 0, 0], expected["xi_00"], absolute=1e-9)
    seen = network((IMAGES + tiled(made, 16, 16)).clamp(0, 1)).argmax(1)

    def counted(where: torch.Tensor) -> list[int]:
        return where.flatten(1).sum(1).tolist()

    assert counted(seen != PREDICTIONS) == expected["changed_pixels"]
    assert counted(seen == target) == expected["matches_target"]
    assert counted(seen == LABELS) == expected["correct"]
    if mode == "dynamic":
        own = PREDICTIONS == HIDDEN
        assert counted(own & (seen == HIDDEN)) == expected["still_predicted_as_target_class"]
        kept = (~own & (seen == PREDICTIONS)).flatten(1).sum(1) / (~own).flatten(1).sum(1)
        close(kept, expected["background_kept"], absolute=1e-7)


def test_each_image_in_a_batch_of_its_own_gives_the_same() -> None:
    whole, _ = aim_of("untargeted")
    parts = [PixelAim(whole.problem.select(torch.tensor([row])), towards=False) for row in (0, 1)]
    rule = UniversalRule(passes=8)
    assert torch.equal(fit_perturbation([whole], rule), fit_perturbation(parts, rule))


def test_nearest_other_class() -> None:
    expected = UNIVERSAL["nearest_fill_class_9"]
    filled = without_class(np.array(expected["input"]), 9)
    assert filled is not None
    assert filled.tolist() == expected["euclidean"]


@pytest.mark.parametrize(("name", "gamma"), [("gamma 0.8", 0.8), ("gamma -1", DYNAMIC), ("gamma -2", PLAIN)])
def test_loss_composition(name: str, gamma: Gamma) -> None:
    expected = PATCH["loss_composition"][name]
    counted = (VOID_LABELS != VOID) & ~INSIDE
    terms = pixel_terms(network(IMAGES), VOID_LABELS, counted, gamma)
    sums = [expected["loss_still_right"], expected["loss_already_wrong"]]
    close(torch.stack([terms.right, terms.wrong]), sums, absolute=1e-6)
    if gamma == DYNAMIC:  # the peer counts void pixels in the denominator: 464 instead of 416
        assert terms.gamma * int(counted.sum()) == pytest.approx(expected["gamma_used"] * int(2 * (~INSIDE).sum()))
    else:
        assert terms.gamma == expected["gamma_used"]


def test_loss_with_the_area_of_the_patch() -> None:
    expected = PATCH["loss_composition"]["gamma -3"]
    terms = pixel_terms(network(IMAGES), VOID_LABELS, VOID_LABELS != VOID, PLAIN)
    assert float(terms.right) == pytest.approx(expected["loss_still_right"], abs=1e-6)


def test_regularisers() -> None:
    expected = PATCH["regularisers"]
    patch = (0.5 + 0.4 * torch.sin(0.9 * torch.arange(60, dtype=torch.float64))).view(3, 4, 5)
    assert float(smoothness(patch)) == pytest.approx(expected["smoothness"], abs=1e-8)
    printable = printability(patch, torch.tensor(expected["colours"], dtype=torch.float64))
    assert float(printable) == pytest.approx(expected["nps_sum_over_pixels_of_product_over_colours"], abs=1e-8)


FIXED = Placement(corners=((6, 5), (12, 5), (12, 9), (6, 9)), noise=0)
RUNS: dict[str, Gamma] = {
    "patch_run|gamma dynamic|30": DYNAMIC,
    "patch_run|gamma 0.8|30": 0.8,
    "patch_run|gamma -2 (plain CE outside)|30": PLAIN,
}


@pytest.mark.parametrize("name", RUNS)
def test_patch_runs(name: str) -> None:
    expected = PATCH[name]
    samples = [Sample(str(row), np.zeros((16, 16, 3), np.uint8)) for row in range(2)]
    batch = Batch(samples, IMAGES, LABELS)
    rule = PatchRule(steps=expected["steps"], rate=expected["lr"], gamma=RUNS[name], placement=FIXED)
    problem = posed(LABELS)
    told: list[float] = []
    start = torch.full((3, 4, 6), 0.5, dtype=torch.float64)
    made = fit_loop(start, [batch], pixel_direction([problem], rule.gamma), rule, "segmentation", told.append)
    close(made.sum()[None], [expected["patch_sum"]], absolute=1e-6)
    close(made[:, 0, 0], expected["patch_at_00"], absolute=1e-6)
    right, wrong, gamma = zip(*[*expected["first_three_losses"], expected["last_losses"]], strict=True)
    sums = [r if g == 1 else r + w for r, w, g in zip(right, wrong, gamma, strict=True)]
    close(torch.tensor([*told[:3], told[-1]], dtype=torch.float64), sums, absolute=1e-6)
    laid = Laid(np.array(FIXED.corners), None, np.zeros((3, 4, 6), np.float32), 0.0, 1.0)
    for patch, key in ((start, "right_outside_grey_start"), (made, "right_outside_patch")):
        images, masks = paste(IMAGES, patch, [laid, laid])
        assert torch.equal(masks, INSIDE.expand(2, 16, 16))
        assert correct(images, LABELS.masked_fill(INSIDE, VOID)) == expected[key]
    assert correct(IMAGES, LABELS.masked_fill(INSIDE, VOID)) == expected["right_outside_clean"]
    assert (~masks).flatten(1).sum(1).tolist() == expected["valid_outside"]


def test_projection() -> None:
    expected = PATCH["projection"]
    pixels = tuple(expected["patch_pixels"])
    corners = upright_corners(tuple(expected["offset"]), pixels, expected["metres_per_pixel"])
    seen, depth = project(corners, np.array(expected["extrinsic"]), np.array(expected["intrinsic"]))
    assert (depth > 0).all()
    np.testing.assert_allclose(seen, expected["corners_xy"], atol=1e-8)
    made = homography(rectangle(*pixels), seen)
    np.testing.assert_allclose(made, expected["homography_patch_xy_to_image_xy"], atol=1e-6)
