"""Networks of the papers train like ours, with their auxiliary heads; what is kept is attacked and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_squares import Squares, recipe

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.models.architectures import build_network
from gauntlet.models.architectures.published import catalogue
from gauntlet.models.architectures.published.network import HardPixels, PublishedNetwork, Supervision
from gauntlet.models.preparation import prepare, same_function
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.report import build_report
from gauntlet.training import train
from gauntlet.training.auxiliary import AuxiliaryHeads, auxiliary_heads, supervision
from gauntlet.training.config import LossConfig
from gauntlet.training.objectives import Objective
from gauntlet.training.pixel_loss import PixelLoss, boundary_loss

QUIET = Silent()
NARROW_FCN = {"width": 8, "normalised": True, "head_width": 16, "head_kernel": 3, "wide_padding": False, "maps": 5}
NARROW_18 = {"depth": 18, "stem_widths": (8, 8, 8), "output_stride": 8, "width": 8}
TINY: dict[str, dict[str, Any]] = {
    "bisenet_x39": {},
    "bisenetv2": {"width": 8, "head_width": 8},
    "ddrnet23_slim": {"width": 4, "head_width": 4, "pyramid_width": 4},
    "pidnet_s": {"width": 4, "head_width": 4, "pyramid_width": 4},
    "icnet": {},
    "mm_pspnet_r18": {"encoder": NARROW_18, "auxiliary_width": 8},
    "mm_deeplabv3_r18": {"encoder": NARROW_18, "width": 8, "auxiliary_width": 8},
    "fcn8s": NARROW_FCN,
    "enet_caffe": {},
    "segformer_b0": {},
}
"""One of each family, small or made small."""
HEAVY: dict[str, dict[str, Any]] = {
    "deeplabv3plus_mobilenet": {},
    "deeplabv2_vgg": {},
    "segnet": {},
    "unet": {},
    "upernet_convnext_t": {},
}
CASES = [
    *(pytest.param(name, options, id=name) for name, options in TINY.items()),
    pytest.param("dilation8", {"width": 4, "head_width": 8}, id="dilation8"),  # its margin makes every image large
    *(pytest.param(name, options, id=name, marks=pytest.mark.slow) for name, options in HEAVY.items()),
]


def wrapped(name: str, **options: Any) -> WrappedSegmentation:
    torch.manual_seed(0)
    network = build_network(f"net:{name}", 3, options)
    return WrappedSegmentation(network, num_classes=3, ignore_index=255, stride=int(getattr(network, "stride", 1)))


def objective(model: WrappedSegmentation, config: LossConfig | None = None) -> Objective:
    losses = supervision(model.module, config or LossConfig())
    criterion = PixelLoss(255, hard=losses.hard)
    return Objective(model, criterion, auxiliary_heads(model.module, losses, criterion)).train()


def batch(size: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    samples = [Squares("train", size=size)[index] for index in range(2)]
    images = torch.stack([torch.from_numpy(sample.image).permute(2, 0, 1) / 255 for sample in samples])
    labels = torch.stack([torch.from_numpy(sample.labels).long() for sample in samples if sample.labels is not None])
    return images, labels


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_family_trains_all_it_has_and_folds(name: str, options: dict[str, Any]) -> None:
    model = wrapped(name, **options)
    whole = objective(model)
    loss = whole(*batch())
    loss.backward()
    assert torch.isfinite(loss)
    assert [key for key, value in whole.named_parameters() if value.grad is None] == []
    model.freeze()
    folded = prepare(model, ("fold",))
    assert not [key for key, layer in folded.named_modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    assert same_function(model, folded, (64, 64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        # With auxiliary heads and without; what differs between the others is in the test above.
        pytest.param(name, options, id=name, marks=() if name in ("ddrnet23_slim", "fcn8s") else pytest.mark.slow)
        for name, options in TINY.items()
    ],
)
def test_a_trained_one_is_attacked_and_reported(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = {"architecture": f"net:{name}", "options": options}
    data = {"options": {"length": 4, "size": 64}, "validation_options": {"length": 2, "size": 64}}
    made = train(
        recipe(model=model, data=data, epochs=None, steps=1, optimiser={"learning_rate": 1e-4}),
        tmp_path / "net",
        progress=QUIET,
    )
    assert not [key for key in made.model.state_dict() if "auxiliary" in key]
    pgd = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1}}
    with gauntlet.open_store(tmp_path / "results.db") as store:
        image = Squares("val", length=1, size=64)
        attacked = gauntlet.evaluate(made, image, pgd, store=store, progress=QUIET, prepare="off")
        assert 0 <= attacked.figures["mIoU"] <= 1
        assert len(build_report(store).parts) == 1


@pytest.mark.slow
def test_a_narrow_network_learns_with_its_heads(tmp_path: Path) -> None:
    model = {
        "architecture": "net:pidnet_s",
        "options": {"width": 8, "head_width": 8, "pyramid_width": 4, "stem_stride": 2},
        "stride": 32,
    }
    result = train(recipe(model=model, epochs=None, steps=60, log_every=20), tmp_path, progress=QUIET)
    assert result.miou > 0.5
    assert result.card["model"]["stride"] == 32


def test_heads_weigh_as_published_or_as_the_recipe_says() -> None:
    model = wrapped("bisenetv2", width=8, head_width=8)
    images, labels = batch()
    whole = objective(model, LossConfig(name="cross_entropy", auxiliary=(0.5, 0.0, 2.0, 1.0))).eval()
    assert isinstance(whole.auxiliary, AuxiliaryHeads)
    with torch.no_grad():
        network = model.module
        assert isinstance(network, PublishedNetwork)
        encoded = network.encoder(images)
        each = [
            whole.criterion(model.fitted(head(encoded), images.shape[-2:]), labels) for head in whole.auxiliary.heads
        ]
        main = whole.criterion(model(images), labels)
        expected = main + 0.5 * each[0] + 2.0 * each[2] + each[3]
        assert whole(images, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_pidnets_loss_is_the_sum_of_four() -> None:
    model = wrapped("pidnet_s", **TINY["pidnet_s"])
    images, labels = batch()
    whole = objective(model).eval()
    assert isinstance(whole.auxiliary, AuxiliaryHeads)
    network = model.module
    assert isinstance(network, PublishedNetwork)
    torch.nn.init.constant_(whole.auxiliary.heads[1].get_parameter("head.5.bias"), 30.0)  # boundaries everywhere
    with torch.no_grad():
        detail, boundary = (
            model.fitted(head(network.encoder(images)), images.shape[-2:]) for head in whole.auxiliary.heads
        )
        main = PixelLoss(255, hard=HardPixels(0.9))(model(images), labels)
        expected = 0.4 * PixelLoss(255)(detail, labels) + 20 * boundary_loss(boundary, labels, 255) + 2 * main
        assert whole(images, labels).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bisenet_r18", Supervision(1.0, HardPixels(0.7, 1 / 16), hard_everywhere=True)),
        ("bisenetv2", Supervision(1.0, HardPixels(0.7, 1 / 16), hard_everywhere=True)),
        ("ddrnet23", Supervision(0.4)),
        ("icnet", Supervision(0.4)),
        ("pspnet50", Supervision(0.4)),
        ("pidnet_l", Supervision((0.4, 20.0), HardPixels(0.9), boundary=1)),
    ],
)
def test_published_losses(name: str, expected: Supervision) -> None:
    assert catalogue.find(name).supervision == expected


@pytest.mark.slow
def test_every_network_has_a_weight_for_each_of_its_heads() -> None:
    for name, row in catalogue.NETWORKS.items():
        with torch.device("meta"):
            heads = PublishedNetwork(3, network=name, auxiliary=True).auxiliary
        assert not isinstance(row.supervision.weight, tuple) or len(row.supervision.weight) == len(heads), name


@pytest.mark.parametrize(
    ("architecture", "loss", "message"),
    [
        ("net:ddrnet23_slim", {"auxiliary": [0.4, 0.4]}, "2 weights, but ddrnet23_slim has 1 auxiliary heads"),
        ("net:enet_caffe", {"auxiliary": [0.4]}, "1 weights, but enet_caffe has 0 auxiliary heads"),
        ("test-net", {"auxiliary": [1]}, "loss.auxiliary is for networks with auxiliary heads"),
        ("test-net", {"threshold": 0.7}, "threshold and share are of the loss 'ohem'"),
        ("net:ddrnet32", {}, "did you mean 'ddrnet23'"),
    ],
)
def test_faults_show_before_anything_is_computed(
    architecture: str, loss: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GauntletError, match=message):
        train(recipe(model={"architecture": architecture}, loss=loss), tmp_path, progress=QUIET)


def test_ddc_at_has_branches_in_place_of_heads(tmp_path: Path) -> None:
    adversarial = {"attack": {"name": "pgd"}, "method": "ddc-at", "share": 0.5}
    model = {"architecture": "net:ddrnet23_slim", "options": TINY["ddrnet23_slim"]}
    with pytest.raises(GauntletError, match="trains no auxiliary heads"):
        train(recipe(model=model, loss={"auxiliary": [0.4]}, adversarial=adversarial), tmp_path, progress=QUIET)


def test_no_heads_where_the_recipe_wants_none_and_hard_pixels_where_it_does() -> None:
    network = build_network("net:bisenetv2", 3, {"width": 8, "head_width": 8})
    losses = supervision(network, LossConfig(auxiliary=(), name="ohem", threshold=0.5))
    assert auxiliary_heads(network, losses, PixelLoss(255)) is None
    assert losses.hard == HardPixels(0.5, 1 / 16)
    assert supervision(network, LossConfig(name="cross_entropy")).hard is None
    assert supervision(torch.nn.Identity(), LossConfig()).hard is None


def test_adversarial_training_keeps_the_heads(tmp_path: Path) -> None:
    model = {"architecture": "net:ddrnet23_slim", "options": TINY["ddrnet23_slim"]}
    adversarial = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1}}
    changes = {"data": {"options": {"length": 4, "size": 64}}, "epochs": None, "steps": 2, "ema": 0.5}
    first = train(recipe(model=model, adversarial=adversarial, **changes), tmp_path / "first", progress=QUIET)
    again = {**model, "initial_weights": str(tmp_path / "first")}
    second = train(recipe(model=again, adversarial=adversarial, **changes), tmp_path / "second", progress=QUIET)
    assert second.card["model"]["parameters"] == first.card["model"]["parameters"]
