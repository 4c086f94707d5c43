"""What a playground has (models, a dataset, uploads), and what it makes of a state: figures and pictures by step."""

from __future__ import annotations

import math
import os
import shlex
import subprocess  # nosec B404 - for its quoting only
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import yaml

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.evaluation.jobs import ready_model
from gauntlet.models import GauntletModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.numbers import format_number
from gauntlet.pictures import Tile, amplified_difference, enlarge, from_tensor, sheet
from gauntlet.pictures.showing import scale_of
from gauntlet.play.encoding import encode
from gauntlet.play.looks import Look, Viewer, viewer_of
from gauntlet.play.offer import threats_offered
from gauntlet.play.state import State
from gauntlet.play.uploads import Uploads
from gauntlet.report.unlabelled import OneSample
from gauntlet.samples import Batch, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat
from gauntlet.threats.attacks.watching import watching
from gauntlet.threats.contract import Threat
from gauntlet.threats.kinds.attack import AttackThreat

MOST_LOOKS = 200
"""How often the model is looked at during one attack; of longer ones every second, third, ... step is shown."""
MODELS_KEPT = 4
"""Loaded models; the one that was not used for longest is forgotten first."""

Report = Callable[[str, dict[str, Any]], None]
"""Takes the name of an event and what it says, JSON-able; raises where nobody wants to know any more."""


@dataclass(frozen=True)
class OfferedModel:
    """A model that pages may choose.

    Attributes:
        address: what it is called here, and in commands.
        source: not loaded yet.
        flags: further words of commands that load it again.
    """

    address: str
    source: ModelSource
    flags: Sequence[str] = ()


@dataclass(frozen=True)
class OfferedDataset:
    """The dataset whose images pages may choose.

    Attributes:
        dataset: the images.
        flags: words of commands that load it again.
    """

    dataset: Dataset
    flags: Sequence[str]


@dataclass(frozen=True)
class Scene:
    """One state with everything that it names: who looks, at what, under which threat."""

    state: State
    model: GauntletModel
    viewer: Viewer
    batch: Batch
    threat: Threat

    def changed(self, images: torch.Tensor) -> tuple[Look, dict[str, Any], dict[str, Any]]:
        """What the model says about the changed image (1, 3, H, W), the pictures of it, and facts about the change."""
        look = self.viewer.look(images.to(self.model.device))
        changed = from_tensor(images[0])
        difference, factor = amplified_difference(self.viewer.sample.image, changed)
        largest = float((images.to(self.batch.images.device) - self.batch.images).abs().max())
        facts = {"factor": factor, "largest": format_number(math.ceil(1020 * largest - 1e-3) / 1020)}
        return look, {"changed": changed, "difference": difference, **look.pictures}, facts


class Playground:
    """What a server of the playground offers and computes.

    Args:
        models: what pages may choose; no other model is ever loaded.
        dataset: likewise.
        device: where models compute.
    """

    def __init__(self, models: Sequence[OfferedModel], dataset: OfferedDataset, device: torch.device) -> None:
        self.models = {each.address: each for each in models}
        self.dataset = dataset
        self.device = device
        self.uploads = Uploads()
        self._loaded: OrderedDict[str, GauntletModel] = OrderedDict()

    def offer(self) -> dict[str, Any]:
        """Everything that a page can choose from, JSON-able."""
        data = self.dataset.dataset
        return {
            "models": [{"address": each.address, "task": each.source.task} for each in self.models.values()],
            "dataset": {"name": data.name, "split": data.split, "images": len(data)},
            **threats_offered(),
        }

    def check(self, state: State) -> Threat:
        """The threat of a state; an error for everything in it that is unknown here. Loads nothing."""
        if state.model not in self.models:
            raise unknown_name("model of this playground", state.model[:80], list(self.models))
        threat = build_threat(state.description())
        threat.check_task(self.models[state.model].source.task)
        if not _is_index(state.image):
            self.uploads[state.image]
        elif int(state.image) >= len(self.dataset.dataset):
            most = len(self.dataset.dataset) - 1
            raise GauntletError(f"the number of an image lies in 0 to {most}, not {state.image}.")
        return threat

    def perform(self, state: State, report: Report, detailed: Callable[[], bool] = lambda: True) -> None:
        """Computes a state and reports on the way: "clean", a "step" for every step, "done".

        Args:
            state: what to show.
            report: is told.
            detailed: whether there is time for the pictures of a step; its figures are always reported.
        """
        scene = self._scene(state)
        viewer, threat = scene.viewer, scene.threat
        clean = viewer.look(scene.batch.images)
        report("clean", self._clean_event(scene, clean))
        total = _expected_steps(threat, scene.model.task)
        every = max(1, math.ceil(total / MOST_LOOKS))
        seen = 0

        def observe(points: torch.Tensor) -> None:
            nonlocal seen
            step, seen = seen, seen + 1
            if step % every:
                report("pulse", {})
                return
            look, pictures, facts = scene.changed(points)
            drawn = {name: encode(each, ".jpg") for name, each in pictures.items()} if detailed() else {}
            report("step", {"step": step, "steps": total, "figures": look.figures(), "pictures": drawn, **facts})

        with watching(observe):
            perturbed = threat.perturb(scene.model, scene.batch, [ImageSeed(state.seed, viewer.sample.id)])
        look, pictures, facts = scene.changed(perturbed.images)
        report(
            "done",
            {
                "step": seen,
                "steps": total,
                "figures": look.figures(),
                "pictures": {name: encode(each, ".png") for name, each in pictures.items()},
                "sheet": encode(_sheet(scene, clean, look, pictures), ".png"),
                "threat": threat.name,
                "commands": self.commands(state),
                **facts,
            },
        )

    def commands(self, state: State) -> dict[str, str]:
        """What repeats a state on the command line: this picture, and for images of the dataset all of them."""
        offered = self.models[state.model]
        described = yaml.safe_dump(state.description(), default_flow_style=True, sort_keys=False, width=10**6).strip()
        model = ["--model", offered.address, *offered.flags]
        what = ["--threat", described, "--seed", str(state.seed)]
        if not _is_index(state.image):
            return {"picture": _command(["gauntlet", "show", state.image, *model, *what])}
        data = list(self.dataset.flags)
        device = [] if self.device.type == "cpu" else ["--device", str(self.device)]
        return {
            "picture": _command(["gauntlet", "show", *model, *data, "--index", state.image, *what]),
            "dataset": _command(["gauntlet", "run", *model, *data, *what, *device]),
        }

    def _clean_event(self, scene: Scene, clean: Look) -> dict[str, Any]:
        viewer = scene.viewer
        pictures = {"image": viewer.sample.image, "prediction": clean.pictures["prediction"]}
        if viewer.labelled:
            pictures["truth"] = viewer.truth()
        height, width = viewer.sample.image.shape[:2]
        return {
            "id": viewer.sample.id,
            "task": scene.model.task,
            "labelled": viewer.labelled,
            "words": dict(viewer.words),
            "height": height,
            "width": width,
            "figures": clean.figures(),
            "legend": viewer.legend(),
            "pictures": {name: encode(each, ".png") for name, each in pictures.items()},
        }

    def _scene(self, state: State) -> Scene:
        threat = self.check(state)
        model = self._load(state.model)
        sample, dataset = self._image(state.image)
        if dataset is None:
            dataset = OneSample(sample, model)
        else:
            ready_model(model, dataset, self.device)  # an error where the model has other classes
        viewer = viewer_of(sample, dataset, model)
        batch = collate([viewer.sample], self.device, ignore_index=dataset.ignore_index)
        return Scene(state, model, viewer, batch, threat)

    def _image(self, image: str) -> tuple[Sample, Dataset | None]:
        """The sample of a state, and its dataset; None for an upload."""
        if not _is_index(image):
            return self.uploads[image], None
        data = self.dataset.dataset
        return data[int(image)], data

    def _load(self, address: str) -> GauntletModel:
        if address not in self._loaded:
            model = self.models[address].source.load()
            model.freeze()
            self._loaded[address] = model.to(self.device)
        self._loaded.move_to_end(address)
        while len(self._loaded) > MODELS_KEPT:
            self._loaded.popitem(last=False)
        return self._loaded[address]


def _is_index(image: str) -> bool:
    return image.isascii() and image.isdecimal() and len(image) < 10


def _expected_steps(threat: Threat, task: str) -> int:
    """How many points an attack shows at most; 0 for threats that have no steps."""
    if not isinstance(threat, AttackThreat):
        return 0
    passes = threat.attack.passes(task)
    return passes.backward // threat.attack.samples if threat.attack.needs_gradient else passes.forward


def _sheet(scene: Scene, clean: Look, look: Look, pictures: Mapping[str, Any]) -> Any:
    """All pictures on one, as `gauntlet show` draws them."""
    image = scene.viewer.sample.image
    scale = scale_of(image.shape[1])
    height = image.shape[0] * scale
    captions = {
        "changed": scene.threat.name,
        "difference": "difference",
        "prediction": f"prediction, {_percent(look.right)}",
        "errors": "errors",
    }
    shown = {"image": image, f"clean prediction, {_percent(clean.right)}": clean.pictures["prediction"]}
    shown |= {captions[name]: each for name, each in pictures.items()}
    tiles = [Tile(caption, enlarge(each, height // each.shape[0])) for caption, each in shown.items()]
    return sheet(tiles, columns=min(3, len(tiles)))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _command(words: Sequence[str]) -> str:
    """Words as a line that the shell of this system reads."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
