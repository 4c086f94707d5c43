"""camvid/: published networks with the user's weights; state dicts from files; what is never unpickled."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.datasets.camvid import CamVid
from gauntlet.errors import GauntletError
from gauntlet.models import architectures, resolve_model
from gauntlet.models.sources import camvid
from gauntlet.models.sources.weights import fill, read_state
from gauntlet.models.wrapping import WrappedSegmentation
from tiny import tiny_network

# On 12 of the 233 test images (every 20th), as tests/models/test_architectures.py has them.
SOME_IMAGES = {"enet": 50.77, "cgnet": 62.42, "espnet": 54.44}
ESPNET = ((110.33102643, 72.12571015), (108.40886315, 72.69074534), (105.03319369, 69.90434816))
FILES = {"enet": "enet_camvid.pth", "cgnet": "cgnet_m3n21_camvid.pth", "espnet": "espnet_p_2_q_8_camvid.pth"}


@pytest.mark.parametrize("name", FILES)
def test_each_network_loads_its_file_by_name(name: str, shared: Path) -> None:
    path = shared / "realdata/checkpoints" / FILES[name]
    source = resolve_model(f"camvid/{name}", weights=str(path))
    model = source.load()
    assert model.identity == source.identity
    assert model.identity.name == f"camvid/{name}"
    assert model.class_names == CamVid.class_names
    images = torch.rand(1, 3, 48, 64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    logits = model(images)
    assert logits.shape == (1, 11, 48, 64)
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert (gradient.abs().sum(1) > 0).float().mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_each_network_reaches_its_score(name: str, shared: Path) -> None:
    dataset = gauntlet.load_dataset("camvid", root=shared / "realdata/camvid", split="test")
    model = gauntlet.load_model(f"camvid/{name}", weights=shared / "realdata/checkpoints" / FILES[name])
    counts = torch.zeros(11, 11)
    for index in range(0, len(dataset), 20):
        sample = dataset[index]
        with torch.no_grad():
            predicted = model(torch.from_numpy(sample.image).permute(2, 0, 1)[None].float() / 255).argmax(1)[0]
        labels = torch.from_numpy(sample.labels).long()
        pairs = 11 * labels[labels != 255] + predicted[labels != 255]
        counts += torch.bincount(pairs, minlength=121).view(11, 11)
    hits = counts.diag()
    miou = (hits / (counts.sum(0) + counts.sum(1) - hits)).mean()
    assert 100 * float(miou) == pytest.approx(SOME_IMAGES[name], abs=0.05)


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("camvid/enet", 51, (0.2, 0.2, 0.2)),
        # Levels minus the mean, nothing else.
        ("camvid/cgnet", 128, (128 - 105.65775, 128 - 103.329834, 128 - 99.625404)),
        # (level - mean) / std / 255, blue first.
        ("camvid/espnet", 200, tuple((200 - mean) / std / 255 for mean, std in ESPNET)),
    ],
)
def test_grey_levels_reach_the_network_as_its_authors_prepared_them(
    name: str, level: int, expected: tuple[float, ...], tmp_path: Path
) -> None:
    facts = camvid.PUBLISHED[name]
    options = architectures.architectures[facts.architecture].published_options
    state = architectures.build(facts.architecture, facts.logits, **options).state_dict()
    torch.save({"model": {f"module.{key}": value for key, value in state.items()}}, tmp_path / "net.pth")
    model = gauntlet.load_model(name, weights=tmp_path / "net.pth")
    assert isinstance(model, WrappedSegmentation)
    prepared = model.normalisation(torch.full((1, 3, 1, 1), level / 255))
    torch.testing.assert_close(prepared.flatten(), torch.tensor(expected, dtype=torch.float32), rtol=1e-4, atol=1e-5)
    red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
    brightest = int((model.normalisation(red) - model.normalisation(0 * red)).flatten().argmax())
    assert brightest == {"RGB": 0, "BGR": 2}[facts.channel_order]


def test_identity_follows_the_file_not_its_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        torch.save(architectures.build("cgnet", 11).state_dict(), tmp_path / f"{name}.pth")
    (tmp_path / "copy.pth").write_bytes((tmp_path / "a.pth").read_bytes())
    a, b, copy = (resolve_model("camvid/cgnet", weights=tmp_path / f"{name}.pth") for name in ("a", "b", "copy"))
    assert a.identity == copy.identity
    assert a.identity.digest != b.identity.digest


def test_missing_and_wrong_weights_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match=r"camvid/enet .*PyTorch-ENet.* needs its weights: .*--weights PATH"):
        gauntlet.load_model("camvid/enet")
    with pytest.raises(GauntletError, match=r"there is no file /nowhere\.pth"):
        gauntlet.load_model("camvid/enet", weights="/nowhere.pth")
    with pytest.raises(
        GauntletError, match="unknown option of the model 'camvid/enet' 'weight'; did you mean 'weights'"
    ):
        gauntlet.load_model("camvid/enet", weight="x")
    with pytest.raises(GauntletError, match="unknown model 'camvid/ennet'; did you mean 'camvid/enet'"):
        gauntlet.load_model("camvid/ennet", weights="x")
    torch.save(architectures.build("cgnet", 11).state_dict(), tmp_path / "cgnet.pth")
    with pytest.raises(GauntletError, match="do not fit ENet"):
        gauntlet.load_model("camvid/enet", weights=tmp_path / "cgnet.pth")


class Evil:
    """Pickled, it creates a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_pickles_run_only_when_trusted(tmp_path: Path) -> None:
    mark, path = tmp_path / "ran", tmp_path / "evil.pth"
    torch.save({"state_dict": tiny_network().state_dict(), "hyperparameters": Evil(mark)}, path)
    with pytest.raises(GauntletError, match=r"holds more than tensors.*pass trust=True \(--trust\)"):
        read_state(path)
    assert not mark.exists()
    assert set(read_state(path, trust=True)) == set(tiny_network().state_dict())
    assert mark.exists()


@pytest.mark.parametrize("wrap", [lambda state: state, lambda state: {"epoch": 3, "state_dict": state},
                                  lambda state: {"net": {f"module.{key}": value for key, value in state.items()}},
                                  lambda state: {"state_dict": {f"model.{key}": value for key, value in state.items()}},
                                  lambda state: collections.OrderedDict(state)])  # fmt: skip
def test_state_dicts_are_found_in_checkpoints_of_training_programs(wrap: Any, tmp_path: Path) -> None:
    state = tiny_network().state_dict()
    torch.save(wrap(state), tmp_path / "net.ckpt")
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 3, 3, padding=1))
    fill(network, read_state(tmp_path / "net.ckpt"), tmp_path / "net.ckpt")
    for name, value in state.items():
        assert torch.equal(network.state_dict()[name], value)


def test_files_that_are_no_weights_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.pth").write_text("weights, honestly")
    with pytest.raises(GauntletError, match=r"text.pth (cannot be read|holds more than tensors)"):
        read_state(tmp_path / "text.pth")
    (tmp_path / "text.safetensors").write_text("weights, honestly")
    with pytest.raises(GauntletError, match=r"text.safetensors cannot be read"):
        read_state(tmp_path / "text.safetensors")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(GauntletError, match="holds a list; expected a state dict"):
        read_state(tmp_path / "list.pth")
    torch.save({"epoch": 3}, tmp_path / "empty.pth")
    with pytest.raises(GauntletError, match="holds no tensors"):
        read_state(tmp_path / "empty.pth")
    with pytest.raises(GauntletError, match=r"1 tensors are missing and 1 are unknown, '0\.weight' for one"):
        fill(nn.Sequential(nn.Conv2d(3, 1, 1)), {"0.bias": torch.zeros(1), "1.weight": torch.zeros(1)}, Path("x.pth"))
    with pytest.raises(GauntletError, match=r"Conv2d: 'weight' has the shape \(2, 3, 1, 1\) there and \(1, 3, 1, 1\)"):
        fill(nn.Conv2d(3, 1, 1, bias=False), {"weight": torch.zeros(2, 3, 1, 1)}, Path("x.pth"))


def test_safetensors_are_read_too(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(tiny_network().state_dict(), tmp_path / "net.safetensors")
    state = read_state(tmp_path / "net.safetensors")
    torch.testing.assert_close(state["0.weight"], tiny_network().state_dict()["0.weight"])


def test_weights_below_the_smallest_normal_number_are_read_as_0(tmp_path: Path) -> None:
    single = torch.tensor([1e-39, -1e-45, 1.2e-38, -0.0, 3.0])
    half = torch.tensor([1e-7, 1.0], dtype=torch.float16)  # below the smallest normal number of its type, and meant
    torch.save(
        {"single": single, "double": single.double(), "half": half, "whole": torch.tensor([1])}, tmp_path / "net.pth"
    )
    state = read_state(tmp_path / "net.pth")
    assert torch.equal(state["single"], torch.tensor([0, 0, 1.2e-38, 0, 3.0]))
    assert torch.equal(state["double"], single.double())
    assert torch.equal(state["half"], half)
    assert state["single"][3].signbit()


def test_no_logit_or_gradient_of_cgnet_is_another_without_them(shared: Path) -> None:
    path = shared / "realdata/checkpoints" / FILES["cgnet"]
    made = gauntlet.load_model("camvid/cgnet", weights=path)
    whole = gauntlet.load_model("camvid/cgnet", weights=path)
    assert isinstance(whole, WrappedSegmentation)
    assert isinstance(whole.module, architectures.Architecture)
    content = torch.load(path, map_location="cpu", weights_only=True)
    architectures.load_published(whole.module, content.get("model", content))
    count = sum(int(((each != 0) & (each.abs() < 1.17e-38)).sum()) for each in whole.parameters())
    assert count > 100_000
    assert not any(bool(((each != 0) & (each.abs() < 1.17e-38)).any()) for each in made.parameters())
    images = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(0)).requires_grad_()
    logits = [model(images) for model in (made, whole)]
    gradients = [torch.autograd.grad(each.logsumexp(1).mean(), images)[0] for each in logits]
    assert torch.equal(*logits)
    assert torch.equal(*gradients)
