"""Facts of models: from the zoo's table, from the network, from the user; in frames beside the figures."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.analysis import correlations, scores
from gauntlet.defences import EnsembleModel
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel
from gauntlet.results import open_store, published
from gauntlet.results.model_facts import ModelFacts, backbone_type, facts_of, read_facts
from tiny import TinyDataset, tiny_network

DATA = Path(__file__).resolve().parents[1] / "data"


def test_the_types_of_all_published_backbones_are_known() -> None:
    table = published.models()
    named = table[table["backbone"].ne("")]
    assert [backbone_type(name) for name in named["backbone"]] == list(named["backbone_type"])


def test_the_table_of_the_zoo_knows_an_address() -> None:
    config = "mmseg:configs/deeplabv3_r101-d8_4xb4-160k_ade20k-512x512.py"
    facts = facts_of(address=config)
    assert facts == ModelFacts("DeepLabV3", "resnet101", "convolution", "per pixel", None, "2017-12-05")
    facts = facts_of(address="torchvision:deeplabv3_resnet101")
    assert (facts.backbone, facts.date) == ("resnet101", "2017-12-05")
    assert facts_of(address="script:mine.pt") == ModelFacts()


def test_a_network_says_its_size_and_a_configuration_its_kind() -> None:
    model = gauntlet.wrap_model(tiny_network(), num_classes=3)
    assert facts_of(model) == ModelFacts(parameters=8 * 27 + 8 + 3 * 72 + 3)

    class Config:
        model_type = "upernet"
        backbone_config = type("Backbone", (), {"model_type": "swin"})()

    class Network(nn.Module):
        config = Config()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images

    found = facts_of(gauntlet.wrap_model(Network(), num_classes=3))
    assert (found.architecture, found.backbone, found.backbone_type) == ("upernet", "swin", "transformer")
    assert found.proposal_type == "per pixel"
    assert found.date  # UPerNet's, as the published tables have it


@pytest.mark.parametrize(
    ("address", "architecture", "backbone", "proposals"),
    [
        ("streets/fcos", "fcos", "convolution", "dense"),
        ("streets/faster-rcnn", "fasterrcnn", "convolution", "two-stage"),
        ("streets/detr", "detr", "convolution", "sparse"),
        ("streets/segformer", "segformer", "transformer", "per pixel"),
        ("streets/ddrnet", "ddrnet23_slim", "convolution", "per pixel"),
    ],
)
def test_our_own_networks_are_of_the_papers_types(
    address: str, architecture: str, backbone: str, proposals: str
) -> None:
    facts = facts_of(gauntlet.load_model(address), address)
    assert (facts.architecture, facts.backbone_type, facts.proposal_type) == (architecture, backbone, proposals)


def test_what_the_user_says_counts_first() -> None:
    model = gauntlet.load_model("streets/enet", facts={"backbone": "Swin-T", "date": "2021-03-25"})
    facts = facts_of(model, "streets/enet")
    assert (facts.architecture, facts.backbone, facts.backbone_type, facts.date) == (
        "enet",
        "Swin-T",
        "transformer",
        "2021-03-25",
    )
    assert facts.parameters == sum(each.numel() for each in model.parameters())
    assert model.identity == gauntlet.load_model("streets/enet").identity
    with pytest.raises(GauntletError, match="unknown fact of a model 'backbon'; did you mean 'backbone'"):
        read_facts({"backbon": "swin"})
    with pytest.raises(GauntletError, match="written 2021-10-28, not 'soon'"):
        read_facts({"date": "soon"})


def make_store(path: Path) -> Path:
    """Three models of growing size on tiny images, clean and in fog."""
    with open_store(path) as store:
        for width, date in ((4, "2019-01-01"), (8, "2020-01-01"), (16, "2021-01-01")):
            torch.manual_seed(width)
            network = nn.Sequential(nn.Conv2d(3, width, 1), nn.Tanh(), nn.Conv2d(width, 3, 1))
            model = gauntlet.wrap_model(network, num_classes=3, name=f"net{width}")
            model.facts = {"architecture": "mine", "backbone": "resnet18", "date": date}
            gauntlet.evaluate(model, TinyDataset(2, ((32, 40),)), ["clean", "fog"], store=store)
    return path


def test_a_store_joins_facts_to_figures_and_the_correlations_take_them(tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "results.db")) as store:
        facts = store.model_facts()
        assert list(facts["parameters"]) == [4 * width + 3 * width + 3 for width in (4, 8, 16)]
        assert list(facts["date"].dt.year) == [2019, 2020, 2021]
        assert set(facts["backbone_type"]) == {"convolution"}
        assert "parameters" not in store.frame()
        frame = store.frame(facts=True)
        assert len(frame) == len(store.frame())
        table = scores(frame)
        assert set(table["parameters"]) == {31.0, 59.0, 115.0}
        assert "parameters" in store.leaderboard(facts=True)
        pairs = correlations(table, columns=["clean", "parameters"])
        assert set(pairs["n"]) == {3}


def test_facts_can_be_said_later(tmp_path: Path) -> None:
    with open_store(make_store(tmp_path / "results.db")) as store:
        keys = store.keys()
        store.describe_model("net8", backbone="swin-t")
        assert store.keys() == keys
        row = store.model_facts().set_index("model").loc["net8"]
        assert (row["backbone"], row["backbone_type"]) == ("swin-t", "transformer")
        assert row["parameters"] == 59
        with pytest.raises(GauntletError, match="unknown fact of a model"):
            store.describe_model("net8", size=3)


def test_a_store_of_version_0_1_0_has_facts_where_the_address_is_known(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((DATA / "store-0.1.0.db.gz").read_bytes()))
    with open_store(path, read_only=True) as store:
        facts = store.model_facts()
        assert {"streets/enet", "streets/fcos"} <= set(facts["model"])
        assert facts["parameters"].isna().all()
        assert len(store.frame(facts=True)) == len(store.frame())


def test_a_loaded_model_keeps_its_facts_in_workers_too(tmp_path: Path, tiny_model: SegmentationModel) -> None:
    """The driver describes the model that it has loaded to share it."""
    data = TinyDataset(2)
    with open_store(tmp_path / "results.db") as store:
        gauntlet.evaluate(tiny_model, data, "clean", store=store)
        (parameters,) = store.model_facts()["parameters"]
    assert parameters == sum(each.numel() for each in tiny_model.parameters())


def test_an_ensemble_has_the_weights_of_its_models(tmp_path: Path, tiny_model: SegmentationModel) -> None:
    ensemble = EnsembleModel([tiny_model, tiny_model], gamma=0.4)
    facts = facts_of(ensemble)
    assert (facts.weight_first, facts.weight_second) == (0.4, 0.6)
    with open_store(tmp_path / "results.db") as store:
        evaluation = gauntlet.evaluate(ensemble, TinyDataset(2), "clean", store=store)
        gauntlet.evaluate(tiny_model, TinyDataset(2), "clean", store=store)
        weights = store.frame(facts=True).groupby("model", sort=False)[["weight_first", "weight_second"]].first()
        stored = evaluation.provenance["model_facts"]
    assert weights.iloc[0].tolist() == [0.4, 0.6]
    assert weights.iloc[1].isna().all()
    assert (stored["weight_first"], stored["weight_second"]) == (0.4, 0.6)
