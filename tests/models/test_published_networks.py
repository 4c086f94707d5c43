from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models import architectures
from gauntlet.models.architectures.base import renamed
from gauntlet.models.architectures.published.catalogue import ALIASES, NETWORKS
from gauntlet.models.architectures.published.cost import cost, mebibytes
from gauntlet.models.architectures.published.dilated import reflected
from gauntlet.models.architectures.published.fcn import bilinear_kernel
from gauntlet.models.architectures.published.network import PublishedNetwork
from gauntlet.models.architectures.published.pspnet import Divided
from reference_networks import PARTS, draw, fill, image, numbered, reference, statistics, watch

DOCS = Path(__file__).resolve().parents[2] / "docs" / "models.md"
REFERENCE = sorted(reference()["architectures"])
# Small enough that filling, running and comparing takes about two seconds.
QUICK = {
    "bisenetv1_x39_torchseg",
    "bisenetv2",
    "ddrnet23_slim",
    "enet_caffe",
    "enet_davidtvs",
    "icnet_ptsemseg",
    "mm_pspnet_r18",
    "pidnet_s",
    "vainf_deeplabv3_mobilenet",
    "vainf_deeplabv3plus_mobilenet",
}


def large_ones_slow(names: Iterable[str]) -> list[Any]:
    """Names as parameters of a test, those of large networks behind the mark `slow`."""
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


# A network that begins with another one, whose tensors have the same numbers: both outputs come from one pass.
FIRST_PARTS = {"dilated8_context_voc": "dilated_frontend_voc"}
LIMIT = 1e-8  # of the largest logit, as the reference's "tolerance" says
STATISTIC_LIMIT = 2e-6  # module statistics carry seven digits


@contextmanager
def no_first_weights() -> Iterator[None]:
    """Tensors of the meta device have no values: drawing them would be two thirds of building a network."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("kaiming_normal_", "kaiming_uniform_", "normal_", "uniform_", "trunc_normal_", "ones_", "zeros_"):
            patch.setattr(nn.init, name, lambda tensor, *_, **__: tensor)
        yield


@cache
def build(name: str, num_classes: int) -> PublishedNetwork:
    """On the meta device, with auxiliary heads; the reference's images have the margin of the dilated networks."""
    options = {"margin": 0} if name.startswith("dilat") else {}
    with torch.device("meta"), no_first_weights():
        return PublishedNetwork(num_classes, network=name, auxiliary=True, **options)


@cache
def translation(name: str) -> dict[str, str]:
    """Public names of all tensors to ours, dead weights left out."""
    row = NETWORKS[name]
    result = {}
    for _, _, _, key, tensor in numbered(reference()["architectures"][name]):
        public = f"{key}.{tensor}" if tensor else key
        if not any(re.search(pattern, public) for pattern in row.unused):
            (result[public],) = renamed({public: torch.empty(0)}, row.names)
    return result


def parameters(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_the_fill_is_the_reference_rule() -> None:
    facts = reference()["fill_test"]
    first = [int(draw(0, k, k + 1)) for k in (0, 1, 2, 3, 100000)]
    assert first == facts["n=0, k=0,1,2,3,100000 -> t"]
    assert [int(draw(7, k, k + 1)) for k in (0, 5)] == facts["n=7, k=0,5 -> t"]


def test_every_network_of_the_reference_is_in_the_catalogue() -> None:
    assert set(REFERENCE) <= set(NETWORKS)
    assert set(ALIASES.values()) <= set(NETWORKS)
    assert not set(ALIASES) & set(NETWORKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE)
def test_the_authors_names_are_ours_one_to_one(name: str) -> None:
    entry = reference()["architectures"][name]
    ours = translation(name)
    expected = build(name, entry["classes"]).state_dict()
    wanted = {key for key in expected if not key.endswith("num_batches_tracked")}
    assert len(set(ours.values())) == len(ours)
    assert set(ours.values()) == wanted
    shapes = {key: shape for part in PARTS for _, key, shape, *_ in entry.get(part, [])}
    for public, own in ours.items():
        key, _, tensor = public.rpartition(".")
        if tensor == "weight":
            assert list(expected[own].shape) == shapes[key], public


@pytest.mark.parametrize("name", large_ones_slow(REFERENCE))
@pytest.mark.parametrize("num_classes", [19, pytest.param(21, marks=pytest.mark.slow)])
def test_networks_have_the_published_number_of_parameters(name: str, num_classes: int) -> None:
    entry = reference()["architectures"][name]
    counts = entry["parameters"][str(num_classes)]
    network = build(name, num_classes)
    dead = any(re.search(p, key) for p in network.row.unused for _, key, *_ in entry.get("unused_modules", []))
    assert parameters(network) == counts["all"] - (counts["unused"] if dead else 0)
    # ICNet's public code runs its auxiliary classifiers in eval mode too.
    run = [key for _, key, *_ in entry["modules"]]
    ours = translation(name)
    also_run = {own.rpartition(".")[0] for public, own in ours.items() if public.rpartition(".")[0] in run}
    heads = [network.get_submodule(own) for own in also_run if own.startswith("auxiliary.")]
    assert parameters(network.encoder, network.decoder, *heads) == counts["main"]


def compare(output: torch.Tensor, expected: dict[str, Any]) -> None:
    assert list(output.shape) == expected["shape"]
    limit = LIMIT * max(abs(expected["min"]), abs(expected["max"]))
    mean, deviation = statistics(output)
    found = {"mean": mean, "std": deviation, "min": output.min().item(), "max": output.max().item()}
    for figure, value in found.items():
        assert value == pytest.approx(expected[figure], abs=limit, rel=0), figure
    for channel, row, column, value in expected.get("points", []):
        assert output[0, channel, row, column].item() == pytest.approx(value, abs=limit, rel=0)
    if "argmax_counts" in expected:
        counts = output[0].argmax(0).flatten().bincount(minlength=output.shape[1])
        assert (counts - torch.tensor(expected["argmax_counts"])).abs().max() <= 2


@pytest.mark.parametrize("name", large_ones_slow(name for name in REFERENCE if name not in FIRST_PARTS.values()))
def test_outputs_and_module_statistics_are_those_of_the_public_code(name: str) -> None:
    entry = reference()["architectures"][name]
    network = deepcopy(build(name, entry["classes"])).double().to_empty(device="cpu").eval()
    state, ours = network.state_dict(), translation(name)
    seen: dict[str, tuple[list[int], float, float]] = {}
    for number, _, kind, key, tensor in numbered(entry):
        public = f"{key}.{tensor}" if tensor else key
        if public in ours:
            fill(state[ours[public]], number, kind, tensor)
            if tensor == "weight":
                watch(network.get_submodule(ours[public].rpartition(".")[0]), seen, key)
    with torch.no_grad():
        encoded = network.encoder(image(entry["input"]))
        output = network.decoder(encoded)
        auxiliary = network.auxiliary_logits(encoded)
        for module in network.modules():
            if isinstance(module, Divided):  # the public code runs all three heads and returns the first
                module.branches(encoded[network.decoder.tap])
    for kind, key, _, _, *expected in entry["modules"]:
        if kind == "scale":
            continue
        shape, mean, deviation = seen[key]
        limit = STATISTIC_LIMIT * max(abs(expected[1]), abs(expected[2]))
        # Layer norm of maps is computed with the channels last here and first there.
        assert sorted(shape) == sorted(expected[0]), key
        assert (mean, deviation) == pytest.approx((expected[1], expected[2]), abs=limit, rel=0), key
    compare(output, entry["output"])
    if name in FIRST_PARTS:
        first = reference()["architectures"][FIRST_PARTS[name]]
        assert first["modules"] == entry["modules"][: len(first["modules"])]
        with torch.no_grad():
            scored = network.decoder.get_submodule("fully_connected")(encoded[0])
            compare(network.decoder.get_submodule("scores")(scored), first["output"])
    if "aux_outputs" in entry:
        assert len(auxiliary) == len(entry["aux_outputs"])
        for logits, expected in zip(auxiliary, entry["aux_outputs"], strict=True):
            compare(logits, expected)


@pytest.mark.parametrize(
    ("variant", "encoder", "decoder"),
    [("b0", 3.4, 0.4), ("b1", 13.1, 0.6), ("b2", 24.2, 3.3), ("b3", 44.0, 3.3), ("b4", 60.8, 3.3), ("b5", 81.4, 3.3)],
)
def test_segformers_have_the_sizes_of_the_papers_table_1(variant: str, encoder: float, decoder: float) -> None:
    network = build(f"segformer_{variant}", 150)
    assert parameters(network.encoder) / 1e6 == pytest.approx(encoder, abs=0.1)
    assert parameters(network.decoder) / 1e6 == pytest.approx(decoder, abs=0.05)


def test_fcn8s_on_resnet101_has_the_size_of_arnabs_table_6() -> None:
    assert parameters(build("fcn8s_resnet101", 21)) == 42_702_495  # 162.9 MiB


def test_the_public_enet_of_2019_has_relu_in_its_decoder_and_shared_slopes() -> None:
    network = build("enet_davidtvs_2019", 19)
    assert parameters(network) == 358_060  # a slope for each activation; the public code has one for those of a block
    assert not [key for key, module in network.decoder.named_modules() if isinstance(module, nn.PReLU)]


def test_multiplications_of_a_network_are_counted_by_hand() -> None:
    needs = cost("unet", 19, (16, 32))
    pixels = 16 * 32
    total = 0
    before = 3
    for level, width in enumerate((64, 128, 256, 512, 1024)):
        total += (pixels >> 2 * level) * 9 * (before * width + width * width)
        before = width
    for level, width in enumerate((64, 128, 256, 512)):
        total += (pixels >> 2 * level) * (2 * width * width + 9 * (2 * width * width + width * width))
    total += pixels * (9 * 64 * 64 + 64 * 19)
    assert needs.giga_multiplications * 1e9 == pytest.approx(total, rel=1e-12)
    assert needs.parameters == reference()["architectures"]["mm_unet_fcn"]["parameters"]["19"]["main"]


@pytest.mark.parametrize("name", [name for name, row in NETWORKS.items() if row.arnab_mib is not None])
def test_sizes_are_near_those_of_arnabs_table(name: str) -> None:
    printed = NETWORKS[name].arnab_mib
    # Their PSPNet has its auxiliary head, their ICNet unused weights.
    slack = {"pspnet101_caffe": 10.0, "icnet_caffe": 5.0}.get(name, 0.5)
    assert printed is not None
    network = build(name, NETWORKS[name].classes)
    assert mebibytes(network.encoder) + mebibytes(network.decoder) == pytest.approx(printed, abs=slack)


def test_mirrored_borders_are_those_of_numpy() -> None:
    assert reflected(4, 3).tolist() == [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]
    assert reflected(3, 5).tolist() == [1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]
    assert reflected(1, 2).tolist() == [0, 0, 0, 0, 0]


def test_a_fresh_fcn8s_interpolates_bilinearly() -> None:
    kernel = bilinear_kernel(4)
    assert kernel[0].tolist() == [0.0625, 0.1875, 0.1875, 0.0625]
    constant = nn.functional.conv_transpose2d(torch.ones(1, 1, 5, 5), kernel[None, None], stride=2)
    assert torch.equal(constant[0, 0, 2:-2, 2:-2], torch.ones(8, 8))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_table_in_the_docs_is_that_of_the_command(name: str) -> None:
    """Multiplications are compared where the walk is short; the rest of a row everywhere."""
    (line,) = [line for line in DOCS.read_text().splitlines() if line.startswith(f"| `{name}` |")]
    _, _, alias, classes, count, multiplications, size, *_ = (cell.strip() for cell in line.split("|"))
    network = build(name, int(classes))
    assert int(classes) == NETWORKS[name].classes
    assert not alias or ALIASES[alias.strip("`")] == name
    assert int(count.replace(",", "")) == parameters(network.encoder, network.decoder)
    assert size == f"{mebibytes(network.encoder) + mebibytes(network.decoder):.1f}"
    if name in QUICK:
        with no_first_weights():
            assert multiplications == f"{cost(name).giga_multiplications:.1f}"


def test_any_of_them_is_built_by_name_like_our_other_networks() -> None:
    network = architectures.build("published", 5, network="enet_caffe")
    assert network(torch.rand(1, 3, 32, 40)).shape == (1, 5, 32, 40)
    narrow = architectures.build("published", 5, network="ddrnet23_slim", width=8)
    assert parameters(narrow) < parameters(build("ddrnet23_slim", 19)) / 4
    with pytest.raises(GauntletError, match="did you mean 'pidnet_s'"):
        architectures.build("published", 5, network="pidnets")
    with pytest.raises(GauntletError, match="does not take these options"):
        architectures.build("published", 5, network="pidnet_s", colour=3)


@pytest.mark.parametrize("name", ["bisenet_x39", "bisenetv2", "ddrnet23_slim", "pidnet_s", "icnet", "enet_caffe"])
def test_fresh_networks_train_with_their_auxiliary_heads(name: str) -> None:
    torch.manual_seed(0)
    network = PublishedNetwork(5, network=name, auxiliary=True)
    encoded = network.encoder(torch.rand(2, 3, 128, 128))
    logits = [network.decoder(encoded), *network.auxiliary_logits(encoded)]
    assert all(torch.isfinite(each).all() for each in logits)
    sum(each.square().mean() for each in logits).backward()
    without = [key for key, value in network.named_parameters() if value.grad is None]
    assert without == []
