from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from gauntlet.errors import GauntletError
from gauntlet.models import architectures
from gauntlet.models.architectures.enet import UpsamplingBottleneck
from gauntlet.models.architectures.layers import PReLU
from gauntlet.models.wrapping import wrap_model

REAL_DATA = Path(__file__).resolve().parents[2] / "../shared/realdata"

SMALL: list[tuple[str, dict[str, Any]]] = [
    ("enet", {}),
    ("enet", {"pooling": 3, "decoder_activation": "relu"}),
    ("cgnet", {"blocks3": 3}),
    ("espnet", {}),
    ("segformer", {"variant": "tiny"}),
    ("segformer", {"variant": "small"}),
    ("segformer", {"variant": "b0"}),
    ("pspnet", {"output_stride": 4}),
    ("pspnet", {"output_stride": 8, "skip": True}),
]


def parameters(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "num_classes", "count"),
    [
        ("enet", 12, 359_780),  # davidtvs/PyTorch-ENet with 12 outputs
        ("cgnet", 11, 494_258),  # M3N21
        ("espnet", 12, 354_517),  # p=2, q=8
        ("segformer", 150, 3_752_694),  # nvidia/segformer-b0-finetuned-ade-512-512
    ],
)
def test_published_networks_have_the_published_number_of_parameters(name: str, num_classes: int, count: int) -> None:
    assert parameters(architectures.build(name, num_classes)) == count


def test_small_variants_stay_small_enough_to_ship() -> None:
    for variant in ("tiny", "small"):
        assert 500_000 <= parameters(architectures.build("segformer", 11, variant=variant)) <= 1_200_000
    assert 500_000 <= parameters(architectures.build("pspnet", 11)) <= 1_500_000


@pytest.mark.parametrize(("name", "options"), SMALL)
@pytest.mark.parametrize("size", [(64, 96), (61, 83)])
def test_logits_have_the_inputs_size_and_every_pixel_has_a_gradient(
    name: str, options: dict[str, Any], size: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    network = architectures.build(name, 7, **options)
    model = wrap_model(network, num_classes=7, stride=network.stride)
    images = torch.rand(2, 3, *size, requires_grad=True)
    logits = model(images)
    assert logits.shape == (2, 7, *size)
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert (gradient.abs().sum(1) > 0).float().mean() > 0.99


@pytest.mark.parametrize(("name", "options"), SMALL)
def test_an_image_is_judged_alike_alone_and_in_company(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = architectures.build(name, 5, **options).eval()
    images = torch.rand(3, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(network(images)[1:2], network(images[1:2]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "options"), SMALL)
def test_encoder_and_decoder_make_up_the_network(name: str, options: dict[str, Any]) -> None:
    network = architectures.build(name, 5, **options)
    inside = parameters(network.encoder) + parameters(network.decoder)
    assert inside == parameters(network)


def test_state_survives_a_round_trip_through_load_published() -> None:
    first, second = architectures.build("enet", 4), architectures.build("enet", 4)
    architectures.load_published(second, {f"module.{key}": value for key, value in first.state_dict().items()})
    for key, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[key])


def test_enet_unpools_to_where_the_maxima_were() -> None:
    block = UpsamplingBottleneck(64, 16, 0.0, prelu=True).eval()
    torch.nn.init.zeros_(block.get_parameter("expansion.0.weight"))
    features = torch.rand(1, 64, 2, 2)
    indices = torch.tensor([[[[0, 3], [8, 11]]]]).expand(1, 16, 2, 2).contiguous()
    with torch.no_grad():
        result = block(features, indices)[0, 0]
    corners = torch.zeros(4, 4, dtype=torch.bool)
    corners[[0, 0, 2, 2], [0, 3, 0, 3]] = True
    assert (result[corners] != 0).all()
    assert (result[~corners] == 0).all()


@pytest.mark.parametrize("slopes", [1, 6])
@pytest.mark.parametrize("frozen", [True, False])
def test_our_prelu_has_the_values_and_gradients_of_torchs(slopes: int, frozen: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, 6, 5, 4, generator=generator, dtype=torch.float64)
    values[0, 0, 0, 0] = 0
    gradient = torch.randn(2, 6, 5, 4, generator=generator, dtype=torch.float64)
    results = []
    for kind in (PReLU, torch.nn.PReLU):
        layer = kind(slopes).double().requires_grad_(not frozen)
        inputs = values.clone().requires_grad_()
        outputs = layer(inputs)
        outputs.backward(gradient)
        results.append((outputs.detach(), inputs.grad, torch.zeros(1) if frozen else layer.weight.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_bad_names_and_options_are_said_in_one_sentence() -> None:
    with pytest.raises(GauntletError, match="did you mean 'enet'"):
        architectures.build("ennet", 3)
    with pytest.raises(GauntletError, match=r"'enet' does not take these options.*depth"):
        architectures.build("enet", 3, depth=4)
    with pytest.raises(GauntletError, match="num_classes must be at least 1"):
        architectures.build("enet", 0)
    with pytest.raises(GauntletError, match="pooling must be 2 or 3"):
        architectures.build("enet", 3, pooling=4)
    with pytest.raises(GauntletError, match="output_stride must be 4, 8 or 16"):
        architectures.build("pspnet", 3, output_stride=32)
    with pytest.raises(GauntletError, match="unknown variant of segformer 'b9'"):
        architectures.build("segformer", 3, variant="b9")
    with pytest.raises(GauntletError, match="at least 5 classes"):
        architectures.build("espnet", 3)


def test_weights_of_another_network_are_refused() -> None:
    network = architectures.build("enet", 4)
    with pytest.raises(GauntletError, match="do not fit ENet"):
        architectures.load_published(network, architectures.build("enet", 5).state_dict())
    with pytest.raises(GauntletError, match="tensors are missing"):
        architectures.load_published(network, architectures.build("cgnet", 4).state_dict())


@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs ../shared/realdata")
def test_the_public_camvid_enet_has_slopes_in_its_decoder() -> None:
    """The specification's ReLU is that of the code of 2019; this file is older and would not load."""
    state = torch.load(REAL_DATA / "checkpoints/enet_camvid.pth", map_location="cpu", weights_only=True)
    decoder = [key for key in state if key.startswith(("upsample", "regular4", "regular5"))]
    assert len([key for key in decoder if key.endswith((".2.weight", ".out_prelu.weight"))]) == 5 * 4
    options = architectures.architectures["enet"].published_options
    architectures.load_published(architectures.build("enet", 12, **options), state)
    with pytest.raises(GauntletError, match="20 are unknown"):
        architectures.load_published(architectures.build("enet", 12, **options, decoder_activation="relu"), state)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs ../shared/realdata")
@pytest.mark.parametrize(
    ("name", "logits", "miou", "accuracy"),
    [("enet", 12, 50.77, 85.04), ("cgnet", 11, 62.42, 90.31), ("espnet", 12, 54.44, 87.96)],
)
def test_public_camvid_weights_give_their_scores(name: str, logits: int, miou: float, accuracy: float) -> None:
    """Every 20th test image; the whole split gives 53.01, 65.41 and 57.12 mIoU as in realdata/README.md."""
    facts = json.loads((REAL_DATA / "checkpoints/models.json").read_text())["models"][f"{name}_camvid"]
    network = architectures.build(name, logits, **architectures.architectures[name].published_options)
    state = torch.load(REAL_DATA / "checkpoints" / facts["state_dict"], map_location="cpu", weights_only=True)
    architectures.load_published(network, state.get("model", state))
    model = wrap_model(
        network,
        num_classes=11,
        mean=facts["mean"],
        std=facts["std"],
        channel_order=facts["channel_order"],
        stride=network.stride,
    )
    counts = np.zeros((11, 11), dtype=np.int64)
    for line in (REAL_DATA / "camvid/test.txt").read_text().split("\n")[:233:20]:
        image_path, label_path = line.split()
        image = cv2.cvtColor(cv2.imread(str(REAL_DATA / "camvid" / image_path)), cv2.COLOR_BGR2RGB)
        labels = cv2.imread(str(REAL_DATA / "camvid" / label_path), cv2.IMREAD_UNCHANGED).astype(np.int64)
        tensor = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
        with torch.no_grad():
            predicted = model(tensor).argmax(1)[0].numpy()
        seen = labels < 11
        counts += np.bincount(11 * labels[seen] + predicted[seen], minlength=121).reshape(11, 11)
    hits = np.diag(counts)
    assert 100 * np.mean(hits / (counts.sum(0) + counts.sum(1) - hits)) == pytest.approx(miou, abs=0.05)
    assert 100 * hits.sum() / counts.sum() == pytest.approx(accuracy, abs=0.05)
