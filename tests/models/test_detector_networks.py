from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.errors import GauntletError
from gauntlet.models.architectures import WrappedDetector, build, build_detector
from gauntlet.models.architectures.decoder import SamplingAttention
from gauntlet.models.architectures.dense import DenseOutputs, all_locations, assign, dense_losses, focal_loss
from gauntlet.models.architectures.detector import Targets
from gauntlet.models.architectures.detr import peaks
from gauntlet.models.architectures.geometry import corrected, generalised_iou, iou, suppress
from gauntlet.models.architectures.pspnet import Encoder
from gauntlet.models.architectures.set_loss import match, matching_costs, set_losses
from gauntlet.samples import Boxes

CPU = torch.device("cpu")
SMALL: dict[str, dict[str, Any]] = {
    "faster-rcnn": {"widths": (8, 8, 8, 8), "top_width": 8, "width": 8, "hidden": 16, "proposals": 20},
    "fcos": {"widths": (8, 8, 8, 8), "top_width": 8, "width": 8},
    "detr": {"widths": (8, 8, 8, 8), "top_width": 8, "width": 16, "heads": 4, "queries": 12, "layers": 2},
}


def boxes(*corners: tuple[float, float, float, float], classes: tuple[int, ...] | None = None) -> Boxes:
    numbers = classes if classes is not None else (0,) * len(corners)
    return Boxes(np.array(corners, np.float32).reshape(-1, 4), np.array(numbers, np.int64))


def crowded(*corners: tuple[float, float, float, float]) -> Boxes:
    plain = boxes(*corners)
    return Boxes(plain.xyxy, plain.classes, crowd=np.ones(len(plain), bool))


def detector(name: str, num_classes: int = 3) -> WrappedDetector:
    torch.manual_seed(0)
    network = build_detector(name, num_classes, **SMALL[name])
    model = WrappedDetector(network, num_classes=num_classes, mean=[0.5] * 3, std=[0.25] * 3)
    model.freeze()
    return model


def pyramid(height: int, width: int) -> list[torch.Tensor]:
    return [torch.zeros(1, 1, height // stride, width // stride) for stride in (4, 8, 16)]


def images(count: int, height: int = 48, width: int = 64) -> torch.Tensor:
    return torch.rand(count, 3, height, width, generator=torch.Generator().manual_seed(2))


# -- geometry and losses by hand


def test_overlaps_by_hand() -> None:
    first = torch.tensor([[0.0, 0, 2, 2], [0, 0, 1, 1], [1, 2, 3, 4]])
    second = torch.tensor([[1.0, 1, 3, 3], [2, 0, 3, 1], [1, 2, 3, 4]])
    assert iou(first, second).tolist() == pytest.approx([1 / 7, 0, 1])
    # Two squares of four in a hull of nine; two of one that leave a third of theirs empty; the same box.
    assert generalised_iou(first, second).tolist() == pytest.approx([1 / 7 - 2 / 9, -1 / 3, 1])


def test_the_focal_loss_by_hand() -> None:
    logits = torch.tensor([0.0, 0.0, math.log(3)])
    truth = torch.tensor([1.0, 0.0, 1.0])
    expected = [0.25 * 0.25 * math.log(2), 0.75 * 0.25 * math.log(2), 0.25 * 0.0625 * math.log(4 / 3)]
    assert focal_loss(logits, truth).tolist() == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**31), count=st.integers(0, 25), threshold=st.sampled_from([0.2, 0.5, 0.7]))
def test_suppression_is_the_greedy_one(seed: int, count: int, threshold: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    low = 12 * torch.rand(count, 2, generator=generator)
    detected = torch.cat((low, low + 2 + 8 * torch.rand(count, 2, generator=generator)), dim=1)
    classes = torch.randint(0, 2, (count,), generator=generator)
    kept: list[int] = []
    for index in range(count):
        rivals = [other for other in kept if classes[other] == classes[index]]
        if all(iou(detected[other], detected[index]) <= threshold for other in rivals):
            kept.append(index)
    assert suppress(detected, classes, threshold).nonzero().flatten().tolist() == kept


def test_locations_are_assigned_by_level_centre_and_size() -> None:
    locations = all_locations(pyramid(64, 64))
    assert locations.points[:2].tolist() == [[2, 2], [6, 2]]
    fine = 16 * 16
    square, thin, tall = (8.0, 8.0, 24.0, 24.0), (40.2, 40.2, 41.2, 52.0), (32.0, 4.0, 44.0, 44.0)
    index = assign(locations, Targets.of([boxes(square, thin, tall)], 1, CPU))[0]
    # Centre (16, 16): 14 and 18 are less than 6 pixels away in x and y.
    assert (index == 0).nonzero().flatten().tolist() == [3 * 16 + 3, 3 * 16 + 4, 4 * 16 + 3, 4 * 16 + 4]
    # No centre of a cell is inside; the one nearest to (40.7, 46.1) is (42, 46).
    assert (index == 1).nonzero().flatten().tolist() == [11 * 16 + 10]
    # 40 pixels high: stride 8, columns at 36 (44 is outside) and rows 12 pixels around 24.
    assert (index == 2).nonzero().flatten().tolist() == [fine + row * 8 + 4 for row in (2, 3)]
    inner = (12.0, 12.0, 20.0, 20.0)
    index = assign(locations, Targets.of([boxes(square, inner)], 1, CPU))[0]
    assert (index == 1).sum() == 4  # the smaller one takes all four
    assert not (index == 0).any()


def test_a_dense_loss_by_hand() -> None:
    locations = all_locations(pyramid(32, 32))
    count = len(locations.points)
    target = (8.0, 8.0, 24.0, 24.0)
    detected = torch.tensor(target).repeat(1, count, 1)
    outputs = DenseOutputs(torch.zeros(1, count, 2), detected, torch.zeros(1, count), locations)
    loss = dense_losses(outputs, Targets.of([boxes(target, classes=(1,))], 2, CPU))
    wrong, right = 0.75 * 0.25 * math.log(2), 0.25 * 0.25 * math.log(2)
    background, quality = (2 * count - 4) * wrong, math.log(2)
    assert loss.item() == pytest.approx((background + 4 * right) / 4 + 0.5 * quality, rel=1e-5)
    off = detected + torch.tensor([16.0, 0, 16, 0])  # beside it: GIoU 0 - 0, since hull and union are the same
    moved = dense_losses(
        DenseOutputs(outputs.logits, off, outputs.quality, locations), Targets.of([boxes(target)], 2, CPU)
    )
    assert moved.item() == pytest.approx(loss.item() + 2.0, rel=1e-5)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), queries=st.integers(1, 5))
def test_matching_is_the_cheapest_of_all(seed: int, queries: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    costs = torch.randn(2, 2, queries, 3, generator=generator)
    present = torch.tensor([[True, False, True], [True, True, True]])
    matched = list(zip(*(each.tolist() for each in match(costs, present)), strict=True))
    for layer, image in itertools.product(range(2), range(2)):
        pairs = [(query, chosen) for each, which, query, chosen in matched if (each, which) == (layer, image)]
        objects = present[image].nonzero().flatten().tolist()
        size = min(queries, len(objects))
        assert len(pairs) == size == len({query for query, _ in pairs}) == len({chosen for _, chosen in pairs})
        table = costs[layer, image]
        cheapest = min(
            sum(table[query, chosen].item() for query, chosen in zip(some, columns, strict=True))
            for some in itertools.permutations(range(queries), size)
            for columns in itertools.combinations(objects, size)
        )
        assert sum(table[pair].item() for pair in pairs) == pytest.approx(cheapest, abs=1e-5)


def test_costs_and_losses_of_sets_by_hand() -> None:
    size = torch.tensor([40.0, 20.0, 40.0, 20.0])
    targets = Targets.of([boxes((0, 0, 10, 10), classes=(1,))], 2, CPU)
    detected = torch.tensor([[[[10.0, 0, 20, 10], [0, 0, 10, 10]]]])
    logits = torch.zeros(1, 1, 2, 2)
    costs = matching_costs(logits, detected, targets, size)[0, 0, :, 0]
    class_cost = 2 * (0.25 - 0.75) * 0.25 * math.log(2)
    assert costs.tolist() == pytest.approx([class_cost + 5 * 0.5 - 0.0, class_cost - 2.0], rel=1e-4)
    losses = set_losses(logits, detected, targets, size)
    expected = 2 * (3 * 0.75 + 0.25) * 0.25 * math.log(2)  # the second query is right, three logits should be low
    assert losses.item() == pytest.approx(expected, rel=1e-4)
    nobody = set_losses(logits, detected, Targets.of([crowded((0, 0, 20, 10))], 2, CPU), size)
    assert nobody.item() == 0.0  # both queries are in a region that counts for nothing


# -- the parts of the transformer


def test_sampling_reads_the_map_where_the_box_is() -> None:
    attention = SamplingAttention(1, 1, heads=1, levels=3, points=2)
    maps = []
    for stride in (4, 8, 16):
        x = (torch.arange(64 // stride) + 0.5) * stride
        maps.append(x.expand(1, 1, 32 // stride, -1))
    torch.nn.init.zeros_(attention.offsets.bias)
    for layer in (attention.value, attention.output):
        torch.nn.init.ones_(layer.weight)
        assert layer.bias is not None
        torch.nn.init.zeros_(layer.bias)
    where = torch.tensor([[[10.0, 5, 20, 15], [30, 2, 40, 30]]])
    seen = attention(torch.zeros(1, 2, 1), where, maps, torch.tensor([64.0, 32, 64, 32]))
    assert seen.flatten().tolist() == pytest.approx([15.0, 35.0])


def test_corrections_move_by_shares_of_the_sides() -> None:
    start = torch.tensor([10.0, 10, 20, 30])
    change = torch.tensor([0.5, -0.5, math.log(2), 0.0])
    assert corrected(start, change).tolist() == pytest.approx([10, 0, 30, 20])


def test_queries_start_at_peaks() -> None:
    locations = all_locations(pyramid(32, 32))
    logits = torch.full((1, len(locations.points), 2), -5.0)
    logits[0, 9, 0], logits[0, 10, 1], logits[0, 30, 1] = 3.0, 2.0, 1.0  # 10 is beside 9
    outputs = DenseOutputs(logits, torch.zeros(1, len(locations.points), 4), torch.zeros(1, 1), locations)
    first = peaks(outputs, 5)[0].tolist()
    assert first[:2] == [9, 30]
    assert 10 not in first


# -- the contract


@pytest.mark.parametrize("name", sorted(SMALL))
def test_losses_are_per_image_and_reach_every_pixel(name: str) -> None:
    model = detector(name)
    batch = images(3).requires_grad_()
    targets = [boxes((4, 4, 20, 30), (30, 8, 44, 16), classes=(0, 2)), boxes(), boxes((10, 10, 60, 45), classes=(1,))]
    losses = model.losses(batch, targets)
    assert losses.shape == (3,)
    (gradient,) = torch.autograd.grad(losses.sum(), batch)
    assert (gradient.abs().sum(dim=1) > 0).float().mean() > 0.99
    for index, target in enumerate(targets):
        alone = model.losses(batch[index : index + 1], [target])
        assert alone.item() == pytest.approx(losses[index].item(), rel=1e-4)
    with pytest.raises(GauntletError, match="3 images came with the boxes of 1"):
        model.losses(batch, targets[:1])
    with pytest.raises(GauntletError, match="a box has the class 3; expected 0 to 2"):
        model.losses(batch[:1], [boxes((0, 0, 9, 9), classes=(3,))])


@pytest.mark.parametrize("name", sorted(SMALL))
def test_crowds_are_neither_objects_nor_background(name: str) -> None:
    model = detector(name)
    batch = images(1)
    everywhere = (-500.0, -500.0, 500.0, 500.0)
    assert model.losses(batch, [crowded(everywhere)]).item() == pytest.approx(0.0, abs=1e-6)
    assert model.losses(batch, [boxes()]).item() > 1e-4
    one = boxes((4, 4, 20, 20), everywhere)
    flagged = np.array([False, True])
    difficult = Boxes(one.xyxy, one.classes, difficult=flagged)
    crowd = Boxes(one.xyxy, one.classes, crowd=flagged)
    assert model.losses(batch, [difficult]).item() == model.losses(batch, [crowd]).item() > 0.1


@pytest.mark.parametrize("name", sorted(SMALL))
@pytest.mark.parametrize("size", [(48, 64), (37, 51)])
def test_detections_are_inside_the_image_best_first(name: str, size: tuple[int, int]) -> None:
    model = detector(name)
    batch = images(2, *size)
    detected = model.predict(batch)
    assert len(detected) == 2
    for each in detected:
        assert 0 < len(each) <= 100
        assert (each.xyxy >= 0).all()
        assert (each.xyxy[:, [0, 2]] <= size[1]).all()
        assert (each.xyxy[:, [1, 3]] <= size[0]).all()
        assert (each.xyxy[:, 2:] > each.xyxy[:, :2]).all()
        assert each.scores is not None
        assert (np.diff(each.scores) <= 0).all()
        assert set(each.classes) <= {0, 1, 2}
    candidates = model.candidates(batch)
    queries = candidates.scores.shape[1]
    assert candidates.boxes.shape == (2, queries, 4)
    assert (candidates.objectness >= candidates.scores.amax(dim=2)).all()
    locations = sum(math.prod(each.shape[2:]) for each in pyramid(48, 64))
    assert queries == {"detr": 12, "faster-rcnn": 20, "fcos": locations}[name]


@pytest.mark.parametrize(
    ("name", "smallest", "largest"), [("faster-rcnn", 1.0e6, 2.0e6), ("fcos", 1.0e6, 2.0e6), ("detr", 1.5e6, 2.5e6)]
)
def test_detectors_are_light_and_start_from_the_encoder_of_pspnet(name: str, smallest: float, largest: float) -> None:
    network = build_detector(name, 4)
    assert smallest <= sum(parameter.numel() for parameter in network.parameters()) <= largest
    network.encoder.load_state_dict(build("pspnet", 11).encoder.state_dict())


def test_the_maps_of_the_encoder_end_with_what_it_gives() -> None:
    encoder = Encoder((8, 8, 12, 16), (1, 2, 2, 2), 8).eval()
    batch = images(1)
    maps = encoder.maps(batch)
    assert [tuple(each.shape[1:]) for each in maps] == [(8, 24, 32), (8, 12, 16), (12, 6, 8), (16, 6, 8)]
    assert torch.equal(maps[-1], encoder(batch)[0])
