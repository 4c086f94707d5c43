"""The command printed under a figure finds that figure's key in the store, or says that no command can."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.models import SegmentationModel
from gauntlet.report.sections.obtained import command
from gauntlet.results import Evaluation, open_store
from gauntlet.samples import Sample
from program import Call
from tiny import TinyDataset

ADDRESS = "python:tiny:tiny_network"
CLASSES = ["dark", "light one", "red"]
IMAGES = 5

channels = st.lists(st.sampled_from([0, 1, 0.5, 0.25, 0.1, 1e-5, 123.675]), min_size=3, max_size=3)
model_options = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["mine", "a b", "x,y", "{odd}", "it's"]),
        "mean": channels.filter(lambda values: max(values) < 2),
        "std": st.just([0.25, 0.5, 1]) | st.just([1, 1, 1]),
        "channel_order": st.sampled_from(["RGB", "BGR"]),
        "stride": st.sampled_from([1, 2, 4]),
        "class_names": st.sampled_from([CLASSES, ["dark", "light,one", "red"], [" dark", "light one", "red"]]),
        "facts": st.just({"architecture": "two convolutions"}),
    },
)
threats = st.sampled_from(
    [
        "clean",
        "fgsm",
        {"corruption": {"name": "brightness", "severity": 2}},
        {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1, "alpha": 1e-5}},
        {"attack": {"name": "pgd", "norm": "l2", "epsilon": 0.5, "steps": 1, "target": 1}},
        {"attack": {"name": "pgd", "epsilon": 0.1, "steps": 1, "target": {"permutation": [1, 2, 0]}}},
        {"attack": {"name": "pgd", "epsilon": "2/255", "steps": 1, "target": {"rank": 2}}},
        {
            "localized": {
                "corruption": {"name": "brightness", "severity": 1},
                "ratio": 0.5,
                "patch": {"height": 4, "width": 8},
            }
        },
    ]
)
protocols = st.sampled_from([None, {"size": [32, 40]}, {"size": [40, 32], "interpolation": "bilinear"}, "longer=60"])
data_options = st.fixed_dictionaries(
    {
        "limit": st.sampled_from([None, 1, 3, 99]),
        "protocol": protocols,
        "inline": st.booleans(),
        "spread": st.booleans(),
    }
)
how = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.sampled_from([0, 7, 2**31]),
        "batch_size": st.sampled_from([1, 3]),
        "precision": st.sampled_from(["fp32", "bf16"]),
        "prepare": st.sampled_from(["auto", "off", "channels-last"]),
        "objects": st.booleans(),
    },
)


def weigh(sample: Sample) -> np.ndarray[Any, Any]:
    return np.ones(sample.image.shape[:2])


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures and label maps as a folder, with a space in its name."""
    root = tmp_path_factory.mktemp("some where") / "pictures"
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True)
    for index, sample in enumerate(TinyDataset(IMAGES, [(32, 48)])):
        cv2.imwrite(str(root / "images" / f"{index}.png"), sample.image)
        cv2.imwrite(str(root / "masks" / f"{index}.png"), sample.labels)
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    return root


def load_data(root: Path, options: Mapping[str, Any]) -> Dataset:
    where = {"name": f"folder:{root}"} if options["inline"] else {"name": "folder", "root": root}
    data = gauntlet.load_dataset(**where, protocol=options["protocol"])
    return data if options["limit"] is None else data.subset(options["limit"], spread=options["spread"])


def keys_of(evaluation: Evaluation, store: Path, call: Call) -> list[tuple[str, str]]:
    """Keys and states that the printed command would run."""
    words = shlex.split(command(evaluation, str(store)))
    assert words[:2] == ["gauntlet", "run"], " ".join(words)
    code, printed, errors = call(*words[1:], "--dry-run", "--json")
    assert code == 0, errors
    return [(row["key"], row["state"]) for row in json.loads(printed)]


@settings(phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=model_options, data=data_options, threat=threats, run=how)
def test_the_command_of_a_random_evaluation_finds_its_key(
    options: dict[str, Any],
    data: dict[str, Any],
    threat: Any,
    run: dict[str, Any],
    photographs: Path,
    tmp_path: Path,
    call: Call,
) -> None:
    store = tmp_path / "results.db"
    model = gauntlet.load_model(ADDRESS, num_classes=3, **options)
    made = gauntlet.evaluate(model, load_data(photographs, data), threat, store=store, device="cpu", **run)
    with open_store(str(store)) as opened:
        stored = opened.load(made.key)
    assert stored is not None
    assert keys_of(stored, store, call) == [(made.key, "complete")]


def test_objects_are_in_the_command(photographs: Path, tmp_path: Path, call: Call) -> None:
    store = tmp_path / "results.db"
    model = gauntlet.load_model(ADDRESS, num_classes=3)
    made = gauntlet.evaluate(model, gauntlet.load_dataset("folder", root=photographs), store=store, objects=True)
    assert "--objects" in command(made, str(store))
    assert keys_of(made, store, call) == [(made.key, "complete")]


def test_a_function_of_importance_has_no_command(photographs: Path) -> None:
    model, data = gauntlet.load_model(ADDRESS, num_classes=3), gauntlet.load_dataset("folder", root=photographs)
    said = command(gauntlet.evaluate(model, data, store=None, importance=weigh), "results.db")
    assert said.startswith("# no command repeats this, since none can name the function of importance weigh;")
    assert "gauntlet run --model" not in said


def test_models_and_data_of_a_program_have_no_command(tiny_model: SegmentationModel, photographs: Path) -> None:
    data = gauntlet.load_dataset("folder", root=photographs)
    assert "the model 'tiny-net', of which no address" in command(gauntlet.evaluate(tiny_model, data), "results.db")
    model = gauntlet.load_model(ADDRESS, num_classes=3)
    assert "the dataset 'tiny', of which no address" in command(gauntlet.evaluate(model, TinyDataset(2)), "results.db")


def test_a_part_of_spread_images_has_no_command(photographs: Path) -> None:
    model, data = gauntlet.load_model(ADDRESS, num_classes=3), gauntlet.load_dataset("folder", root=photographs)
    part = data.subset(4, spread=True).subset(2)
    assert "the dataset 'folder:pictures', of which no address" in command(gauntlet.evaluate(model, part), "a.db")
    assert data.subset(4).subset(2).origin == {**(data.origin or {}), "limit": 2}


def test_an_option_that_is_an_object_of_python_has_no_command(photographs: Path) -> None:
    data = gauntlet.load_dataset("folder", root=photographs)
    arrays = gauntlet.load_model(ADDRESS, num_classes=3, mean=np.array([0.5, 0.25, 0.125]))
    assert "--mean 0.5,0.25,0.125" in command(gauntlet.evaluate(arrays, data), "results.db")


def test_a_shipped_source_has_its_address(tmp_path: Path, call: Call) -> None:
    from gauntlet.models import resolve_model

    store = tmp_path / "results.db"
    data = gauntlet.load_dataset("streets", limit=1, protocol={"size": [32, 64]})
    made = gauntlet.evaluate(resolve_model("streets/enet"), data, store=store)
    assert keys_of(made, store, call) == [(made.key, "complete")]
