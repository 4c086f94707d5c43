"""What the playground computes: figures of `gauntlet.evaluate` and pictures of `gauntlet show`, step by step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import gauntlet
from gauntlet.cli.play import make_playground
from gauntlet.cli.shared_options import model_flags, read_model_options
from gauntlet.extras import install_command
from gauntlet.pictures.label_maps import WRONG_COLOR
from gauntlet.play import playground as playing
from gauntlet.play.playground import Playground
from gauntlet.play.state import parse_state
from gauntlet.play.uploads import read_upload
from gauntlet.threats import build_threat
from play_cases import decode, tiny_playground
from program import Call

Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def tiny() -> Playground:
    return tiny_playground()


def perform(playground: Playground, state: Mapping[str, str], detailed: bool = True) -> Events:
    events: Events = []
    playground.perform(parse_state(state), lambda name, content: events.append((name, content)), lambda: detailed)
    return events


@pytest.mark.parametrize("model", ["tiny-net", "tiny-detector"])
@pytest.mark.parametrize(("threat", "steps"), [("fgsm", 1), ("pgd", 4), ("apgd", 5)])
def test_one_event_per_step_and_the_last_is_what_evaluate_says(
    tiny: Playground, model: str, threat: str, steps: int
) -> None:
    state = {"model": model, "image": "0", "threat": threat, "epsilon": "20", "steps": str(steps), "seed": "3"}
    events = perform(tiny, state)
    shown = [content for name, content in events if name == "step"]
    if threat != "apgd":  # which stops when everything is lost
        assert [each["step"] for each in shown] == list(range(steps))
    assert [name for name, _ in events] == ["clean", *["step"] * len(shown), "done"]
    first, last = events[0][1], events[-1][1]
    assert (last["step"], last["steps"]) == (len(shown), steps)
    data = tiny.dataset.dataset.subset(1)
    told = gauntlet.evaluate(tiny.models[model].source.load(), data, parse_state(state).description(), seed=3)
    clean = gauntlet.evaluate(tiny.models[model].source.load(), data)
    name = "aAcc" if model == "tiny-net" else "F1_images"
    assert last["figures"]["right"] == pytest.approx(told.figures[name], abs=1e-9)
    assert first["figures"]["right"] == pytest.approx(clean.figures[name], abs=1e-9)
    if model == "tiny-net":
        assert last["figures"]["sure"] == pytest.approx(told.figures["confidence"], abs=1e-5)


def test_the_pictures_are_those_of_the_figures(tiny: Playground) -> None:
    chosen = {"model": "tiny-net", "image": "2", "threat": "pgd", "epsilon": "16", "steps": "2"}
    events = perform(tiny, {**chosen, "region": "box:4,8,20,40"})
    first, last = events[0][1], events[-1][1]
    image = tiny.dataset.dataset[2].image
    assert np.array_equal(decode(first["pictures"]["image"]), image)
    changed = decode(last["pictures"]["changed"]).astype(int)
    difference = np.abs(changed - image).max(axis=2)
    assert difference[4:20, 8:40].max() == 16
    difference[4:20, 8:40] = 0
    assert difference.max() == 0
    assert last["largest"] == "16/255"
    assert last["factor"] == pytest.approx(127 / 16)
    assert set(last["pictures"]) == {"changed", "difference", "prediction", "errors"}
    clean, attacked = decode(first["pictures"]["prediction"]), decode(last["pictures"]["prediction"])
    assert not np.array_equal(clean, attacked)
    wrong = np.all(decode(last["pictures"]["errors"]) == WRONG_COLOR, axis=2)
    assert 1 - wrong.mean() == pytest.approx(last["figures"]["right"])


def test_a_page_that_does_not_keep_up_gets_figures_without_pictures(tiny: Playground) -> None:
    events = perform(tiny, {"model": "tiny-net", "threat": "pgd", "steps": "2"}, detailed=False)
    assert [content["pictures"] == {} for name, content in events if name == "step"] == [True, True]
    assert events[-1][1]["pictures"]["changed"].startswith("data:image/png;base64,")


def test_long_attacks_are_looked_at_now_and_then(tiny: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "MOST_LOOKS", 3)
    events = perform(tiny, {"model": "tiny-net", "threat": "pgd", "steps": "7"})
    assert [content["step"] for name, content in events if name == "step"] == [0, 3, 6]
    assert [name for name, _ in events].count("pulse") == 4
    assert events[-1][1]["step"] == 7


@pytest.mark.parametrize(
    ("threat", "region", "kind"),
    [("fog", "", "corruption"), ("fog", "square:half:centre", "localized"), ("clean", "", "clean")],
)
def test_corruptions_have_no_steps(tiny: Playground, threat: str, region: str, kind: str) -> None:
    state = {"model": "tiny-net", "image": "0", "threat": threat, "severity": "5", "region": region}
    events = perform(tiny, state)
    assert [name for name, _ in events] == ["clean", "done"]
    assert set(parse_state(state).description()) == {kind}
    told = gauntlet.evaluate(
        tiny.models["tiny-net"].source.load(), tiny.dataset.dataset.subset(1), parse_state(state).description()
    )
    assert events[-1][1]["figures"]["right"] == pytest.approx(told.figures["aAcc"], abs=1e-9)


def test_options_that_a_threat_lacks_are_left_out() -> None:
    given = {"model": "m", "epsilon": "8", "steps": "20", "queries": "9", "norm": "l2", "severity": "2"}
    assert parse_state({**given, "threat": "square"}).description() == {
        "attack": {"name": "square", "norm": "l2", "epsilon": "8/255", "queries": 9}
    }
    assert parse_state({**given, "threat": "snow"}).description() == {"corruption": {"name": "snow", "severity": 2}}
    for region in ("box:0,0,8,8", "square:quarter:top-left", "square:12:centre"):
        for threat in ("pgd", "fog"):
            build_threat(parse_state({"model": "m", "threat": threat, "region": region}).description())


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playground:
    """An own network on an own folder, as somebody would start it in an empty folder of theirs."""
    from tiny import TinyDataset

    for name in ("images", "masks"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / "classes.txt").write_text("dark\nlight\nred\n")
    for index, sample in enumerate(TinyDataset(length=2)):
        assert sample.labels is not None
        cv2.imwrite(str(tmp_path / "data" / "images" / f"{index}.png"), sample.image[..., ::-1])
        cv2.imwrite(str(tmp_path / "data" / "masks" / f"{index}.png"), sample.labels)
    monkeypatch.chdir(tmp_path)
    options = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}
    return make_playground(["python:tiny:tiny_network"], "folder:data", None, None, "cpu", options)


@pytest.mark.parametrize("region", ["", "box:2,3,14,20"])
@pytest.mark.parametrize("image", ["1", "upload"])
def test_the_command_repeats_the_picture(own: Playground, call: Call, image: str, region: str) -> None:
    if image == "upload":
        photo = np.random.default_rng(1).integers(0, 256, (20, 28, 3), dtype=np.uint8)
        sample = read_upload(cv2.imencode(".png", photo)[1].tobytes())
        own.uploads.add(sample)
        image = sample.id
    options = {"epsilon": "12", "steps": "3", "norm": "linf", "seed": "5", "region": region}
    events = perform(own, {"model": "python:tiny:tiny_network", "image": image, "threat": "cospgd", **options})
    first, last = events[0][1], events[-1][1]
    if not image.isdecimal():  # what "Save the image" does
        cv2.imwrite(image, decode(first["pictures"]["image"])[..., ::-1])
    words = shlex.split(last["commands"]["picture"])
    assert words[:2] == ["gauntlet", "show"]
    assert call(*words[1:]) == (0, "written to gauntlet-show.png\n", "")
    drawn = cv2.imread("gauntlet-show.png")
    assert drawn is not None
    for name in ("prediction", "difference", "changed"):
        tile = np.kron(decode(last["pictures"][name])[..., ::-1], np.ones((2, 2, 1), np.uint8))
        height, width = tile.shape[:2]
        _, _, (left, top), _ = cv2.minMaxLoc(cv2.matchTemplate(drawn, tile, cv2.TM_SQDIFF))
        assert np.array_equal(drawn[top : top + height, left : left + width], tile), name
    if "dataset" in last["commands"]:
        words = shlex.split(last["commands"]["dataset"])
        code, planned, _ = call(*words[1:], "--dry-run")
        assert code == 0
        assert "cospgd linf 12/255 x3" in planned
    else:
        assert image.startswith("upload-")


def test_options_of_a_model_come_back_from_their_words() -> None:
    options = {
        "num_classes": 3,
        "class_names": ["road", "traffic light"],
        "mean": [0.5, 0.25, 0.1],
        "channel_order": "BGR",
        "input_size": [64, 128],
        "outputs": [0, 2, 1],
        "decode": {"name": "yolov8", "most": 100},
        "trust": True,
    }
    words = model_flags(options)
    flags = [word[2:].replace("-", "_") for word in words[:-1:2]]
    given: dict[str, Any] = dict(zip(flags, words[1:-1:2], strict=True))
    assert words[-1] == "--trust"
    assert read_model_options(**{**given, "num_classes": int(given["num_classes"]), "trust": True}) == options


def test_shipped_models_are_for_streets_and_unknown_ones_fail_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(gauntlet.GauntletError, match="unknown model"):
        make_playground(["streets/enett"], "streets", None, None, "cpu", {})
    playground = make_playground([], "streets", None, None, "cpu", {})
    assert {"streets/enet", "streets/fcos"} < set(playground.models)
    assert playground.offer()["dataset"] == {"name": "streets", "split": "val", "images": 200}


def test_without_the_extra_one_sentence_says_how_to_get_it(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    code, _, said = call("play")
    assert code == 2
    needed = "gauntlet: the playground needs Starlette and uvicorn; install them with: "
    assert said == f"{needed}{install_command('play')}.\n"
