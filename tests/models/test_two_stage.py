"""The two-stage detector: RoI align, anchors, proposals and losses by hand; attacks on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.models.architectures import build_detector
from gauntlet.models.architectures.dense import all_locations
from gauntlet.models.architectures.detector import Targets
from gauntlet.models.architectures.faster_rcnn import FasterRCNN, TwoStageOutputs, levels
from gauntlet.models.architectures.proposals import Proposed, all_anchors, choose, match, proposal_losses
from gauntlet.models.architectures.roi_align import roi_align
from gauntlet.samples import Boxes

CPU = torch.device("cpu")
STRIDES = (4, 8, 16)
Corners = tuple[float, float, float, float]


def pyramid(height: int, width: int, batch: int = 1, channels: int = 1) -> list[torch.Tensor]:
    return [torch.zeros(batch, channels, height // stride, width // stride) for stride in STRIDES]


def targets(*corners: Corners, classes: Sequence[int] | None = None, crowd: Sequence[bool] | None = None) -> Targets:
    numbers = np.array(classes if classes is not None else [0] * len(corners), np.int64)
    flags = None if crowd is None else np.array(crowd)
    return Targets.of([Boxes(np.array(corners, np.float32).reshape(-1, 4), numbers, crowd=flags)], 3, CPU)


# -- RoI align


def test_roi_align_by_hand() -> None:
    cells = torch.arange(16.0).view(1, 1, 4, 4)
    level = torch.zeros(1, 1, dtype=torch.int64)
    # Rows and columns 4 to 12 in pixels are cells 1 to 3: its four bins are the cells (1, 1), (1, 2), (2, 1), (2, 2),
    # for a map that is linear between their centres.
    middle = torch.tensor([[[4.0, 4, 12, 12]]])
    assert roi_align([cells], (4,), middle, level, 2).flatten().tolist() == pytest.approx([5, 6, 9, 10])
    # The whole map as one bin: points at 0.5 and 2.5 in x and in y, that is 0.5 + 2, 2.5 + 2, 0.5 + 10, 2.5 + 10.
    whole = torch.tensor([[[0.0, 0, 16, 16]]])
    assert roi_align([cells], (4,), whole, level, 1).item() == pytest.approx((2.5 + 4.5 + 10.5 + 12.5) / 4)
    # The first cell as one bin: points at -0.25 and 0.25, of which the former has the value at the edge, 0.
    corner = torch.tensor([[[0.0, 0, 4, 4]]])
    assert roi_align([cells], (4,), corner, level, 1).item() == pytest.approx((0 + 0.25 + 1 + 1.25) / 4)


def plain_roi_align(cells: torch.Tensor, box: torch.Tensor, stride: int, bins: int) -> torch.Tensor:
    """One box on one map (C, h, w), point by point."""
    height, width = cells.shape[-2:]
    result = torch.zeros(len(cells), bins, bins, dtype=torch.float64)
    x0, y0, x1, y1 = (value / stride for value in box.tolist())
    for row, column, down, across in np.ndindex(bins, bins, 2, 2):
        y = y0 + (y1 - y0) * (row + (down + 0.5) / 2) / bins - 0.5
        x = x0 + (x1 - x0) * (column + (across + 0.5) / 2) / bins - 0.5
        y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
        for i, j in np.ndindex(height, width):
            weight = max(0.0, 1 - abs(y - i)) * max(0.0, 1 - abs(x - j))
            result[:, row, column] += weight * cells[:, i, j] / 4
    return result


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 2),
    count=st.integers(1, 3),
    channels=st.integers(1, 3),
    bins=st.integers(1, 3),
    size=st.tuples(st.integers(1, 2), st.integers(1, 3)),
)
def test_roi_align_is_the_mean_of_its_points(
    seed: int, batch: int, count: int, channels: int, bins: int, size: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    height, width = 16 * size[0], 16 * size[1]
    maps = [torch.rand(each.shape, generator=generator, dtype=torch.float64)
            for each in pyramid(height, width, batch, channels)]  # fmt: skip
    limits = torch.tensor([width, height], dtype=torch.float64)
    ends = torch.rand(2, batch, count, 2, generator=generator, dtype=torch.float64) * limits
    boxes = torch.cat((ends.amin(dim=0), ends.amax(dim=0)), dim=-1)
    chosen = torch.randint(0, 3, (batch, count), generator=generator)
    seen = roi_align(maps, STRIDES, boxes, chosen, bins)
    assert seen.shape == (batch, count, channels, bins, bins)
    for image, box in np.ndindex(batch, count):
        level = int(chosen[image, box])
        expected = plain_roi_align(maps[level][image], boxes[image, box], STRIDES[level], bins)
        assert torch.allclose(seen[image, box], expected, atol=1e-12)


def test_roi_align_is_differentiable_to_maps_and_boxes() -> None:
    generator = torch.Generator().manual_seed(3)
    maps = [
        torch.rand(each.shape, generator=generator, dtype=torch.float64).requires_grad_() for each in pyramid(16, 16)
    ]
    boxes = torch.tensor([[[1.3, 2.1, 9.7, 11.2], [3.9, 1.7, 14.1, 14.3]]], dtype=torch.float64, requires_grad=True)
    chosen = torch.tensor([[0, 1]])

    def seen(*given: torch.Tensor) -> torch.Tensor:
        return roi_align(given[:3], STRIDES, given[3], chosen, 2)

    assert torch.autograd.gradcheck(seen, (*maps, boxes), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_roi_align_of_maps_in_half_precision(dtype: torch.dtype) -> None:
    maps = [torch.rand(each.shape, generator=torch.Generator().manual_seed(3)) for each in pyramid(16, 16)]
    boxes, chosen = torch.tensor([[[1.3, 2.1, 9.7, 11.2]]]), torch.zeros(1, 1, dtype=torch.int64)
    halves = [each.to(dtype) for each in maps]
    seen = roi_align(halves, STRIDES, boxes, chosen, 2)
    assert seen.dtype == dtype
    assert torch.allclose(seen.float(), roi_align(maps, STRIDES, boxes, chosen, 2), atol=0.01)


def test_boxes_read_the_level_of_their_size() -> None:
    sides = torch.tensor([3.0, 12, 16, 18, 24, 33, 35, 48, 200])
    corners = torch.stack((torch.zeros(9), torch.zeros(9), sides, sides), dim=-1)
    assert levels(corners).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]  # the borders are 12 and 24 times the root of two


# -- the first stage


def test_anchors_by_hand() -> None:
    anchors = all_anchors(all_locations(pyramid(16, 32)))
    assert anchors.shape == (3 * (4 * 8 + 2 * 4 + 1 * 2), 4)
    long, short = 6 * math.sqrt(2), 3 * math.sqrt(2)  # halves of sides whose product is 12 * 12
    expected = [[2 - long, 2 - short, 2 + long, 2 + short], [-4, -4, 8, 8], [2 - short, 2 - long, 2 + short, 2 + long]]
    assert torch.allclose(anchors[:3], torch.tensor(expected))
    assert anchors[3 * 32 + 1].tolist() == [4 - 12, 4 - 12, 4 + 12, 4 + 12]
    assert anchors[-2].tolist() == [24 - 24, 8 - 24, 24 + 24, 8 + 24]


def proposed(objectness: Sequence[float], *corners: Corners) -> Proposed:
    boxes = torch.tensor(corners, dtype=torch.float32)
    return Proposed(boxes, torch.tensor([list(objectness)]), boxes[None])


def test_proposals_are_the_best_that_differ() -> None:
    stage = proposed([1.0, 4.0, 3.0, 2.0], (40, 0, 50, 10), (0, 0, 10, 10), (0, 0, 10, 9), (20, 0, 30, 10))
    assert choose(stage, 3).tolist() == [[1, 3, 0]]  # the third overlaps the second by 0.9
    assert choose(stage, 4).tolist() == [[1, 3, 0, 2]]  # and fills up


def test_boxes_belong_to_the_object_that_they_overlap_most() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 6], [0, 0, 10, 4.9], [30, 0, 34, 10], [50, 50, 60, 60]])
    objects = targets((0, 0, 10, 10), (0, 0, 10, 5), (30, 0, 40, 10))
    plain = match(boxes, objects, every_object=False)
    # The second box overlaps the first two objects by 0.6 and 5/6, the fourth the third by only 0.4.
    assert plain.index.tolist() == [[0, 1, 1, -1, -1]]
    assert plain.overlap[0].tolist() == pytest.approx([1, 5 / 6, 0.98, 0.4, 0])
    assert match(boxes, objects, every_object=True).index.tolist() == [[0, 1, 1, 2, -1]]
    crowd = targets((0, 0, 10, 10), crowd=[True])
    assert match(boxes, crowd, every_object=True).index.tolist() == [[-1] * 5]


def test_the_loss_of_proposals_by_hand() -> None:
    corners: tuple[Corners, ...] = ((0, 0, 10, 10), (0, 0, 10, 4.5), (50, 50, 60, 60), (0, 0, 10, 20))
    stage = proposed([0.0] * 4, *corners)
    right, wrong = 0.25 * 0.25 * math.log(2), 0.75 * 0.25 * math.log(2)
    # The first is the object, the second (IoU 0.45) counts for nothing, the third is background, the fourth (IoU 0.5)
    # the object's again with a GIoU of 0.5.
    loss = proposal_losses(stage, targets((0, 0, 10, 10)))
    assert loss.item() == pytest.approx((2 * right + wrong + 2 * 0.5) / 2, rel=1e-5)
    nobody = proposal_losses(stage, targets())
    assert nobody.item() == pytest.approx(4 * wrong, rel=1e-5)
    crowd = proposal_losses(stage, targets((40, 40, 70, 70), crowd=[True]))
    assert crowd.item() == pytest.approx(3 * wrong, rel=1e-5)


# -- the second stage


def network(**options: object) -> FasterRCNN:
    torch.manual_seed(0)
    small = {"widths": (8, 8, 8, 8), "top_width": 8, "width": 16, "hidden": 16, "proposals": 20}
    built = build_detector("faster-rcnn", 3, **{**small, **options})
    assert isinstance(built, FasterRCNN)
    return built.eval()


def test_the_loss_of_the_second_stage_by_hand() -> None:
    silent = proposed([-100.0], (200, 200, 210, 210))
    proposals = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 8], [50, 50, 60, 60], [80, 80, 90, 90]]])
    logits = torch.zeros(1, 4, 4)
    logits[0, 0, 2] = math.log(3)  # says its class with 3 of 6
    outputs = TwoStageOutputs(silent, proposals, logits, proposals)
    objects = targets((0, 0, 10, 10), (75, 75, 95, 95), classes=(2, 1), crowd=[False, True])
    # The last proposal lies in the crowd. 1 - GIoU is 0 for the first and 0.2 for the second.
    classified = (math.log(2) + 2 * math.log(4)) / 3
    losses = network().losses(outputs, objects)
    assert losses.item() == pytest.approx(2 * classified + 2 * 0.2 / 2, rel=1e-5)


def test_scores_are_over_the_background_and_confidences_are_probabilities() -> None:
    silent = proposed([-100.0], (200, 200, 210, 210))
    logits = torch.tensor([[[1.0, 2.0, 0.0, 3.0]]])
    outputs = TwoStageOutputs(silent, torch.zeros(1, 1, 4), logits, torch.zeros(1, 1, 4))
    model = network()
    candidates = model.candidates(outputs)
    assert candidates.scores.tolist() == [[[-2, -1, -3]]]
    confidences = model.confidences(outputs)
    total = math.exp(1) + math.exp(2) + 1 + math.exp(3)
    assert confidences.flatten().tolist() == pytest.approx([math.exp(1) / total, math.exp(2) / total, 1 / total])
    # The objectness is the logit of anything but the background.
    assert candidates.objectness.sigmoid().item() == pytest.approx(confidences.sum().item())


@settings(deadline=None, max_examples=8)
@given(size=st.tuples(st.integers(1, 3), st.integers(1, 4)), batch=st.integers(1, 2), wanted=st.integers(1, 90))
def test_shapes(size: tuple[int, int], batch: int, wanted: int) -> None:
    model = network(proposals=wanted)
    height, width = 16 * size[0], 16 * size[1]
    images = torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(1))
    anchors = 3 * sum(math.prod(each.shape[2:]) for each in pyramid(height, width))
    outputs = model(images)
    count = min(wanted, anchors)
    assert outputs.proposed.boxes.shape == (batch, anchors, 4)
    assert outputs.proposals.shape == outputs.boxes.shape == (batch, count, 4)
    assert outputs.logits.shape == (batch, count, 4)
    assert (outputs.proposals >= 0).all()
    assert (outputs.proposals[..., 2:] <= torch.tensor([width, height])).all()


def test_attacks_get_the_gradient_of_the_first_stage_and_training_does_not() -> None:
    model = network().requires_grad_(False)
    torch.nn.init.normal_(model.proposal_head.boxes.weight, std=0.1)
    weight = model.proposal_head.boxes.weight.requires_grad_()
    images = torch.rand(1, 3, 32, 48, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(model(images).logits.square().sum(), weight)
    assert gradient.abs().max() > 0
    model.train()
    outputs = model(images)
    assert not outputs.logits.requires_grad
    assert outputs.proposed.boxes.requires_grad
