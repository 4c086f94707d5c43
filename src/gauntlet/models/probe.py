"""Probe of a model: what it answers for a few fixed images, to be stored with its figures and compared later.

A key says which model was meant; the probe shows that it still answers as it did. The images are made by whole-number
arithmetic, so that they are the same everywhere. Asked several times, a model that differs from itself is found too.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.asked import gives_labels
from gauntlet.models.contract import DetectionModel, GauntletModel
from gauntlet.models.randomness import Draws, drawing, flat_modules, random_parts
from gauntlet.seeding import ImageSeed

PROBE = "probe"
"""Where the provenance of an evaluation has it."""
LOGITS, LABELS, BOXES, NONE = "logits", "labels", "boxes", "none"
"""Kinds of answers; "none" of a model that takes none of the images."""

# The first that a model takes is used. Most take any; others were made for one size.
_SIZES = ((32, 64), (64, 64), (128, 128), (224, 224), (256, 256), (384, 384), (512, 512), (640, 640), (480, 640))
_SAMPLES = {LOGITS: 64, LABELS: 256}
_CLASSES = 32
_BEST = 8
_DIGITS = 7


@dataclass(frozen=True)
class Tolerance:
    """How far two answers may lie apart and count as the same.

    Attributes:
        relative: to the range of the numbers that are compared together.
        share: how many of these must lie within it.
    """

    relative: float
    share: float


TOLERANCES: Mapping[str, Tolerance] = {
    LOGITS: Tolerance(1e-3, 1.0),
    LABELS: Tolerance(0.0, 0.97),
    BOXES: Tolerance(1e-2, 0.9),
    NONE: Tolerance(0.0, 1.0),
}
"""Between machines and versions of torch. Float32 sums in another order move logits by some 1e-6 of their range, deep
networks and half-precision tensor cores by up to 1e-3; one wrong sign or attribute moves them by far more. Labels can
turn where two classes tie, and boxes appear or vanish where suppression ties."""
_ITSELF: Mapping[str, Tolerance] = {
    LOGITS: Tolerance(1e-4, 0.999),
    LABELS: Tolerance(0.0, 0.999),
    BOXES: TOLERANCES[BOXES],
    NONE: TOLERANCES[NONE],
}
"""Between answers of one model in one process: other batches may still be summed in another order."""


@dataclass(frozen=True)
class Probe:
    """Answers of a model for the images of the probe.

    Attributes:
        kind: "logits", "labels", "boxes" or "none".
        size: (height, width) of the images.
        values: numbers by name; None stands for one that is not finite.
        random: True if the model differs from itself: it draws numbers that nobody seeds, or keeps a state.
    """

    kind: str
    size: tuple[int, int]
    values: Mapping[str, tuple[float | None, ...]]
    random: bool = False

    def as_dict(self) -> dict[str, Any]:
        """A JSON-able form."""
        values = {name: list(numbers) for name, numbers in self.values.items()}
        return {"kind": self.kind, "size": list(self.size), "values": values, "random": self.random}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Probe:
        """The probe of `as_dict`."""
        height, width = content["size"]
        values = {str(name): tuple(numbers) for name, numbers in content["values"].items()}
        return cls(str(content["kind"]), (int(height), int(width)), values, bool(content["random"]))

    def agrees(self, other: Probe, tolerance: float | None = None) -> bool:
        """True if both can be of one model. Of random models only that they are random is compared.

        Args:
            other: of the same model, at another time or elsewhere.
            tolerance: relative; that of `TOLERANCES` by default.
        """
        if (self.kind, self.size, self.random) != (other.kind, other.size, other.random):
            return False
        if self.random:
            return True
        allowed = TOLERANCES[self.kind]
        if tolerance is not None:
            allowed = Tolerance(tolerance, allowed.share)
        if self.values.keys() != other.values.keys():
            return False
        pairs = [(_numbers(mine), _numbers(other.values[name])) for name, mine in self.values.items()]
        if self.kind == LOGITS and all(one.shape == two.shape for one, two in pairs):  # their range is one
            pairs = [(torch.cat([one for one, _ in pairs]), torch.cat([two for _, two in pairs]))]
        return all(_alike(one, two, allowed) for one, two in pairs)


def probe_model(model: GauntletModel) -> Probe:
    """Ask a model for the images of the probe, twice and once more in another batch; nothing of it is changed.

    Args:
        model: on any device. Its declared random parts (`models.randomness`) get fixed numbers for every image.
    """
    for size in _SIZES:
        try:
            model.check_size(*size)
            with _untouched(model):
                return _probe_at(model, size)
        except Exception:  # noqa: PERF203 # nosec B112 # the user's code may fail in any way for a size
            continue
    return Probe(NONE, (0, 0), {})


def probe_images(height: int, width: int) -> torch.Tensor:
    """The images of the probe, (2, 3, H, W) in [0, 1]: slopes and squares, by whole-number arithmetic."""
    image, channel, y, x = torch.meshgrid(
        torch.arange(2), torch.arange(3), torch.arange(height), torch.arange(width), indexing="ij"
    )
    squares = 64 * ((x // 8 + y // 16 + image) % 3)
    slopes = 3 * x + 5 * y + (x * y) // 11 + 40 * channel * (1 + image) + 90 * image
    return ((squares + slopes) % 256).to(torch.float32) / 255


Answers = Mapping[str, torch.Tensor]
"""What a model says about one image: numbers by name."""


def _probe_at(model: GauntletModel, size: tuple[int, int]) -> Probe:
    images = probe_images(*size).to(model.device)
    kind = _kind(model)
    first, again = _answers(model, images, kind, [0, 1]), _answers(model, images, kind, [0, 1])
    (alone,) = _answers(model, images, kind, [1])
    pairs = [*zip(first, again, strict=True), (first[1], alone)]
    same = all(
        one.keys() == other.keys() and all(_alike(one[name], other[name], _ITSELF[kind]) for name in one)
        for one, other in pairs
    )
    values = {
        f"{name} {number}": _rounded(numbers)
        for number, each in enumerate(first)
        for name, numbers in _summary(kind, each).items()
    }
    return Probe(kind, size, values, not same)


def _kind(model: GauntletModel) -> str:
    if isinstance(model, DetectionModel):
        return BOXES
    return LABELS if gives_labels(model) else LOGITS


@dataclass(frozen=True)
class _ProbeDraws(Draws):
    """Fixed numbers for every image of the probe, whichever batch it is in."""

    images: Sequence[int]

    def numbers(self, name: str, sample: int | None = None) -> list[int]:
        return [ImageSeed(0, f"probe/{image}").stream(f"{name}|{sample}") for image in self.images]


def _answers(model: GauntletModel, images: torch.Tensor, kind: str, which: Sequence[int]) -> list[Answers]:
    """Everything that a model says about some of the images, one mapping per image."""
    with torch.no_grad(), drawing(random_parts(model), _ProbeDraws(which)):
        batch = images[list(which)].clone()
        if isinstance(model, DetectionModel):
            return _found(model, batch)
        logits: torch.Tensor = model(batch)
        said = logits.argmax(dim=1) if kind == LABELS else logits
        return [{kind: each.detach().to("cpu", torch.float64)} for each in said]


def _found(model: DetectionModel, images: torch.Tensor) -> list[Answers]:
    """Candidates and detections of every image in numbers that do not depend on their order."""
    scale = float(max(images.shape[-2:]))
    answers: list[dict[str, torch.Tensor]] = []
    for boxes in model.predict(images):
        scores = np.ones(len(boxes.xyxy)) if boxes.scores is None else boxes.scores
        classes = np.bincount(boxes.classes, minlength=1)[:_CLASSES]
        found = [len(scores), *np.pad(classes, (0, _CLASSES - len(classes)))]
        answers.append(
            {
                "scores": _best(torch.as_tensor(scores, dtype=torch.float64)),
                "boxes": _mean_box(torch.as_tensor(boxes.xyxy, dtype=torch.float64) / scale),
                "found": torch.tensor(found, dtype=torch.float64),
            }
        )
    with contextlib.suppress(GauntletError):  # some can only be asked
        candidates = model.candidates(images)
        logits, places = (each.detach().to("cpu", torch.float64) for each in (candidates.scores, candidates.boxes))
        for index, answer in enumerate(answers):
            answer["candidate scores"] = torch.cat([_best(logits[index].flatten()), logits[index].mean()[None]])
            answer["candidate boxes"] = _mean_box(places[index] / scale)
    return list(answers)


def _best(scores: torch.Tensor) -> torch.Tensor:
    """The largest scores, 0 where there are fewer."""
    best = scores.sort(descending=True).values[:_BEST]
    return torch.cat([best, best.new_zeros(_BEST - len(best))])


def _mean_box(boxes: torch.Tensor) -> torch.Tensor:
    return boxes.mean(dim=0) if len(boxes) else boxes.new_zeros(4)


def _summary(kind: str, answers: Answers) -> dict[str, torch.Tensor]:
    """What is kept of the answers for an image: numbers at fixed places, and the mean logit of every class."""
    if kind == BOXES:
        return dict(answers)
    said = answers[kind]
    flat = said.flatten()
    places = torch.tensor([(number * 2654435761 % 2**32) % flat.numel() for number in range(_SAMPLES[kind])])
    if kind == LABELS:
        return {LABELS: flat[places]}
    return {LOGITS: flat[places], "means": said.flatten(1).mean(dim=1)[:_CLASSES]}


def _rounded(values: torch.Tensor) -> tuple[float | None, ...]:
    return tuple(float(f"{each:.{_DIGITS}g}") if math.isfinite(each) else None for each in values.tolist())


def _numbers(values: Sequence[float | None]) -> torch.Tensor:
    return torch.tensor([math.nan if each is None else each for each in values], dtype=torch.float64)


def _alike(one: torch.Tensor, other: torch.Tensor, allowed: Tolerance) -> bool:
    """True if enough numbers are the same, as far as their range tells; those that are not finite must be in place."""
    if one.shape != other.shape:
        return False
    if not one.numel():
        return True
    finite = one.isfinite() & other.isfinite()
    within = ~one.isfinite() & ~other.isfinite()
    if finite.any():
        known = torch.cat([one[finite], other[finite]])
        low, high = (float(each) for each in known.aminmax())
        scale = max(high - low, 1e-3 * max(abs(low), abs(high)))
        within |= finite & ((one - other).abs() <= allowed.relative * scale)
    return float(within.double().mean()) >= allowed.share


@contextlib.contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    """Puts back what asking a model may change: generators, attributes, flags and buffers of its modules."""
    devices = [device for device in {each.device for each in model.parameters()} if device.type == "cuda"]
    parts = flat_modules(model)
    attributes = [vars(part) for part in parts]
    containers = [each for held in attributes for each in held.values() if isinstance(each, (dict, list))]
    before = [(each, copy.copy(each)) for each in (*attributes, *containers)]
    buffers = [(each, each._version, each.detach().clone()) for part in parts for each in part.buffers(recurse=False)]
    generators = [_state(each) for held in attributes for each in held.values() if isinstance(each, _GENERATORS)]
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - a model may draw from it
    tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        # Half the digits of TF32 would leave no room for the tolerance.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
        for put_back in generators:
            put_back()
        for now, then in before:
            _restore(now, then)
        with torch.no_grad():
            for buffer, version, content in buffers:
                if buffer._version != version:
                    buffer.copy_(content)


_GENERATORS = (torch.Generator, np.random.Generator, random.Random)


def _state(generator: Any) -> Callable[[], object]:
    """What puts a generator back to where it is now."""
    if isinstance(generator, torch.Generator):
        return functools.partial(generator.set_state, generator.get_state())
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    return functools.partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)


def _restore(now: Any, then: Any) -> None:
    """Gives a mapping or a list the members that it had; one that has them still is not touched."""
    if isinstance(now, list):
        if len(now) != len(then) or any(one is not other for one, other in zip(now, then, strict=True)):
            now[:] = then
    elif now.keys() != then.keys() or any(now[name] is not value for name, value in then.items()):
        now.clear()
        now.update(then)
