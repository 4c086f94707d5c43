from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import renamed
from gauntlet.models.architectures.published.catalogue import NETWORKS
from gauntlet.models.architectures.published.loading import count_logits, fill
from gauntlet.models.architectures.published.network import PublishedNetwork
from reference_networks import numbered, reference

State = dict[str, torch.Tensor]
NET = "bisenetv1_x39_torchseg"
FCN8S = "fcn8s_vgg16_wkentaro"


@cache
def fresh(name: str, logits: int) -> PublishedNetwork:
    torch.manual_seed(0)
    return PublishedNetwork(logits, network=name, auxiliary=True).eval()


def authors_state(name: str, logits: int) -> State:
    """The weights of a fresh network under its authors' names."""
    network = fresh(name, logits)
    state, published = network.state_dict(), {}
    for _, _, _, key, tensor in numbered(reference()["architectures"][name]):
        public = f"{key}.{tensor}" if tensor else key
        (own,) = network.rename_published({public: torch.empty(0)})
        if own in state:
            published[public] = state[own]
    return published


@pytest.mark.parametrize(
    ("container", "prefix"),
    [(None, ""), ("model", "module."), ("state_dict", "model."), ("model_state", "module.model.")],
)
def test_the_authors_file_gives_the_networks_logits(tmp_path: Path, container: str | None, prefix: str) -> None:
    state = {f"{prefix}{key}": value for key, value in authors_state(NET, 4).items()}
    torch.save(state if container is None else {container: state, "epoch": 3}, tmp_path / "net.pth")
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    model = gauntlet.load_model("net:bisenet_x39", weights=tmp_path / "net.pth", num_classes=4, mean=mean, std=std)
    images = torch.rand(1, 3, 64, 64)
    normalised = (images - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(model(images), fresh(NET, 4)(normalised))
    assert model.identity.name == NET
    assert model.num_classes == 4


def test_auxiliary_and_unused_weights_are_accepted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = authors_state("icnet_ptsemseg", 3)
    state["pyramid_pooling.path_module_list.0.cbr_unit.0.weight"] = torch.zeros(256, 1024, 1, 1)
    torch.save(state, tmp_path / "icnet.pth")
    with caplog.at_level(logging.INFO):
        gauntlet.load_model("net:icnet", weights=tmp_path / "icnet.pth", num_classes=3)
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "1 unused weights left out: pyramid_pooling.path_module_list.0.cbr_unit.0.weight" in said
    assert "4 auxiliary weights left out: cff_sub24.low_classifier_conv.weight" in said


@pytest.mark.parametrize(
    ("name", "losses"),
    [
        ("ddrnet23_slim", ["loss.criterion.weight"]),
        ("pidnet_s", ["sem_loss.criterion.weight", "sb_loss.criterion.weight"]),
    ],
)
def test_class_weights_of_the_authors_losses_are_left_out(name: str, losses: list[str]) -> None:
    """Their programs save the network as `model` beside its losses."""
    state = {f"model.{key}": value for key, value in authors_state(name, 3).items()}
    network = PublishedNetwork(3, network=name)
    left_out = fill(network, {**state, **dict.fromkeys(losses, torch.ones(3))}, "file")
    assert list(left_out.unused) == losses
    assert all(key.startswith(("seghead_p.", "seghead_d.", "seghead_extra.")) for key in left_out.auxiliary)


def test_a_network_for_training_takes_the_auxiliary_weights_too() -> None:
    network = PublishedNetwork(4, network=NET, auxiliary=True)
    left_out = fill(network, authors_state(NET, 4), "file")
    assert left_out.auxiliary == ()
    torch.testing.assert_close(network.state_dict(), fresh(NET, 4).state_dict())


def test_our_own_state_dict_loads_as_well() -> None:
    network = PublishedNetwork(4, network=NET, auxiliary=True)
    fill(network, fresh(NET, 4).state_dict(), "file")
    torch.testing.assert_close(network.state_dict(), fresh(NET, 4).state_dict())


def test_missing_and_unknown_weights_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    state = authors_state(NET, 4)
    torch.save({key: value for key, value in state.items() if not key.startswith("ffm.conv_1x1.bn")}, path)
    with pytest.raises(GauntletError, match=r"4 tensors are missing: encoder\.fusion\.unit\.1\.weight, .*running_var"):
        gauntlet.load_model(f"net:{NET}", weights=path, num_classes=4)
    torch.save({**state, "surprise.weight": torch.zeros(1)}, path)
    with pytest.raises(GauntletError, match=r"1 tensors are unknown: surprise\.weight"):
        gauntlet.load_model(f"net:{NET}", weights=path, num_classes=4)
    torch.save({**state, "ffm.conv_1x1.bn.bias": torch.zeros(3)}, path)
    with pytest.raises(GauntletError, match=r"unit\.1\.bias is \(3,\) there and \(256,\) here"):
        gauntlet.load_model(f"net:{NET}", weights=path, num_classes=4)


def test_the_number_of_logits_is_read_from_the_file(tmp_path: Path) -> None:
    assert count_logits("enet_caffe", authors_state("enet_caffe", 12)) == 12
    assert count_logits("enet_caffe", {"conv0_1.weight": torch.zeros(13, 3, 3, 3)}) is None
    torch.save(authors_state("enet_caffe", 12), tmp_path / "enet.pth")
    model = gauntlet.load_model("net:enet_caffe", weights=tmp_path / "enet.pth", num_classes=11)
    images = torch.rand(1, 3, 33, 40)  # padded to multiples of the stride
    assert model(images).shape == (1, 11, 33, 40)
    assert gauntlet.load_model("net:enet_caffe", weights=tmp_path / "enet.pth").num_classes == 12
    with pytest.raises(GauntletError, match=r"num_classes is 13, but the weights .* have 12 logits"):
        gauntlet.load_model("net:enet_caffe", weights=tmp_path / "enet.pth", num_classes=13)


def test_bad_addresses_are_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="did you mean 'bisenetv2'"):
        gauntlet.load_model("net:bisenet_v2", weights="x", num_classes=2)
    with pytest.raises(GauntletError, match="net:bisenetv2 needs its weights"):
        gauntlet.load_model("net:bisenetv2", num_classes=2)
    with pytest.raises(GauntletError, match="option of the model 'net:bisenetv2'"):
        gauntlet.load_model("net:bisenetv2", weights=tmp_path, backbone_width=2)


def test_segformers_decoder_takes_the_authors_order_of_stages() -> None:
    """Their fusion sees the coarsest map first; ours the finest."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    widths, width = (32, 64, 160, 256), 256
    maps = [random(1, channels, 8 >> stage, 8 >> stage) for stage, channels in enumerate(widths)]
    projections, fuse = [random(width, channels) for channels in widths], random(width, 4 * width, 1, 1)
    enlarged = [
        functional.interpolate(torch.einsum("oc,nchw->nohw", matrix, features), size=(8, 8), mode="bilinear")
        for matrix, features in zip(projections, maps, strict=True)
    ]
    expected = functional.conv2d(torch.cat(enlarged[::-1], 1), fuse)
    theirs = {f"decode_head.linear_c{stage}.proj.weight": matrix for stage, matrix in enumerate(projections, start=1)}
    network = PublishedNetwork(5, network="segformer_b0").double()
    state = network.rename_published({**theirs, "decode_head.linear_fuse.conv.weight": fuse})
    assert network.load_state_dict(state, strict=False).unexpected_keys == []
    fused = []
    network.decoder.get_submodule("fusion.0").register_forward_hook(lambda *call: fused.append(call[-1]))
    with torch.no_grad():
        network.decoder(tuple(maps))
    torch.testing.assert_close(fused[0], expected)


def test_crf_rnn_is_fcn8s_under_a_crf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = {"width": 8, "head_width": 8}
    monkeypatch.setitem(NETWORKS, FCN8S, replace(NETWORKS[FCN8S], options=narrow))
    torch.manual_seed(0)
    network = PublishedNetwork(3, network=FCN8S).eval()
    for score in network.decoder.get_submodule("skips.scores").children():
        torch.nn.init.normal_(score.get_parameter("weight"))
    torch.save(network.state_dict(), tmp_path / "net.pth")
    plain, crf = (gauntlet.load_model(f"net:{name}", weights=tmp_path / "net.pth") for name in ("fcn8s", "crfrnn"))
    by_address = gauntlet.load_model("crf:preset=crfrnn:net:fcn8s", weights=tmp_path / "net.pth")
    assert crf.identity == by_address.identity
    images = torch.rand(1, 3, 24, 32)
    with torch.no_grad():
        assert torch.equal(crf(images), by_address(images))
        assert not torch.equal(crf(images), plain(images))


def test_crf_rnns_names_of_the_enlargements_are_known() -> None:
    names = {"score2.weight": 0, "score4.weight": 1, "upsample.weight": 2}
    for public, index in names.items():
        (own,) = renamed({public: torch.empty(0)}, NETWORKS["crfrnn"].names)
        assert own == f"decoder.skips.enlargements.{index}.weight"
