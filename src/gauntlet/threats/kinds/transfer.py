"""Attacks made on one model and shown to another: {"transfer": {"source_model": ADDRESS, "attack": {...}}}.

docs/specs/defences.md, 3; Arnab et al. 2018, Tables 1, 2 and 17 to 20.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from types import CodeType
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict

from gauntlet.datasets.contents import text_digest
from gauntlet.errors import GauntletError
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.code_identity import OWN_CODE
from gauntlet.models.contract import ModelIdentity, SegmentationModel
from gauntlet.models.defended_names import read_name
from gauntlet.models.sources import shipped
from gauntlet.models.sources.contract import LoadedModel, ModelSource, coded_identity
from gauntlet.samples import Batch, Sample
from gauntlet.seeding import ImageSeed
from gauntlet.tasks import SEGMENTATION
from gauntlet.threats.asking import label_maps
from gauntlet.threats.contract import Perturbed, Preparation, Threat, threats
from gauntlet.threats.image_cache import ImageCache, MadeImage, content_key
from gauntlet.threats.kinds.attack import AttackThreat, need_labels
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.kinds.source_size import Size, at_size, attack_at_size, check_resizable, parse_source_size
from gauntlet.threats.options import Option, options_of
from gauntlet.threats.passes import Passes

INNER = "inner"
"""The source of the unaware attack: the model inside the wrapper that is evaluated."""
SOURCE = Option("always", written="from {value}", swept=True, mapping=True)
CACHE = ImageCache("transfer")


def _size(value: Any) -> Size | None:
    return None if value is None else parse_source_size(value)


class TransferOptions(BaseModel):
    """What is transferred, and from where.

    Attributes:
        source_model: where the attack is made: an address, {"address": ..., "options": {...}} as in a plan, a model,
            or "inner" for the model inside the evaluated wrapper.
        attack: the options of the attack, its region among them.
        source_size: height and width at which the source is attacked, "512x1024" or [512, 1024], where that is not the
            size of the images; the perturbation is resized, and brought back into the ball and [0, 1].
        source_digest: of the source's weights, in stored descriptions; another model of the same name is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    source_model: Annotated[str | dict[str, Any] | GauntletModel, SOURCE]
    attack: dict[str, Any]
    source_size: Annotated[Size | None, BeforeValidator(_size), Option("unusual", rectangle=True)] = None
    source_digest: Annotated[str | None, Option("never")] = None


@threats.register("transfer")
class TransferThreat(Threat):
    """Images that an attack made on a source model; the evaluated model only looks at them.

    The images of one source serve every target: they are kept in a cache, found by the source, the attack, the seed,
    what they were made with, and the images themselves. Where the evaluated model is the source, and is attacked at the
    size of the images, this is the plain attack, bit for bit.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = parse_options("transfer", TransferOptions, options)
        self.inner = AttackThreat(self.options.attack)
        self.version = self.inner.version  # type: ignore[misc]
        self.size = self.options.source_size
        if self.size is not None:
            check_resizable(self.inner)
        self._preparation: Preparation | None = None
        self._ready: tuple[GauntletModel, GauntletModel] | None = None  # the source, and its prepared copy
        self._identity: ModelIdentity | None = None
        if not isinstance(self.options.source_model, GauntletModel):
            _address(self.options.source_model)

    @property
    def name(self) -> str:
        """Such as "pgd linf 8/255 x20 from streets/enet", "pgd linf 8/255 x20 at 64x128 from streets/enet"."""
        size = "" if self.size is None else f" at {self.size[0]}x{self.size[1]}"
        return f"{self.inner.name}{size} from {self._source_name}"

    @property
    def _source_name(self) -> str:
        source = self.options.source_model
        named = source == INNER or (isinstance(source, str) and self.options.source_digest is not None)
        return str(source) if named else self.identity.name

    @property
    def identity(self) -> ModelIdentity:
        """Name and digest of the source; its weights are not loaded."""
        if self._identity is None:
            self._identity = self._source.identity
            stored = self.options.source_digest
            if stored is not None and stored != self._identity.digest:
                raise GauntletError(
                    f"the source model '{self._identity.name}' has other weights ({self._identity.digest}) than the "
                    f"one that the images were made on ({stored})."
                )
        return self._identity

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(TransferOptions)

    @cached_property
    def _source(self) -> ModelSource:
        """The source, found once for the checks of all jobs; not for "inner", which is another for every target."""
        return _source(self.options.source_model)

    @property
    def _named_source(self) -> ModelSource | None:
        """The source, where it does not depend on the target and is not one of a store, which may be gone."""
        named = self.options.source_model != INNER and self.options.source_digest is None
        return self._source if named else None

    def check_task(self, task: str) -> None:
        source = self._named_source
        if self.size is not None and task != SEGMENTATION:
            raise GauntletError("source_size is for segmentation models: boxes would have to be moved along.")
        if source is not None and source.task != task:
            raise _other_task(source.identity.name, source.task, task)

    def check_size(self, height: int, width: int) -> None:
        source = self._named_source
        if source is not None:
            source.check_size(*(self.size or (height, width)))

    def check_model(self, name: str) -> None:
        if self.options.source_model != INNER:
            self.inner.check_model(self._source_name)
            return
        read = read_name(name)
        # Other models without a defence in their name may have one inside all the same: `perturb` looks at them.
        inside = len(read.inner) if read is not None else 0 if name in shipped.names() else 1
        if inside != 1:
            raise _not_one_inside(name, inside)
        if read is not None:
            self.inner.check_model(read.inner[0])

    def check_classes(self, model: GauntletModel | ModelSource) -> None:
        source = self._named_source
        # A detector's library may name labels that the loaded model leaves out: `perturb` looks at those.
        if source is None or source.task != SEGMENTATION:
            return
        own, wanted = source.label_space, model.label_space
        if own is None or wanted is None or own.names == wanted.names:
            return
        if self.identity.digest != model.identity.digest:
            _check_other_classes(self.inner, source, model)

    def passes(self, task: str = "segmentation") -> Passes:
        return self.inner.passes(task) + Passes(forward=1)  # at most: cached images cost the last look only

    def describe(self) -> dict[str, Any]:
        if self.options.source_model == INNER:
            source: dict[str, Any] = {"source_model": INNER}
        else:
            digest = self.options.source_digest or self.identity.digest
            source = {"source_model": self._source_name, "source_digest": digest}
        return {"transfer": {**source, **self._sized, **self.inner.describe()}}

    @property
    def _sized(self) -> dict[str, Any]:
        """The size of the source, where one is given."""
        return {} if self.size is None else {"source_size": list(self.size)}

    def uses(self) -> str:
        """Of the attack, and of the code of the source; that of "inner" is in the key of the target.

        A stored description names its source by weights and name, which no code can be found by.
        """
        code = OWN_CODE if self._named_source is None else coded_identity(self._source).code
        attack = self.inner.uses()
        return attack if code == OWN_CODE else text_digest(attack, code)

    def written(self) -> dict[str, Any]:
        source = self.options.source_model
        if isinstance(source, GauntletModel):
            raise GauntletError(
                "the source model of a transfer only lives in this process and cannot be sent to another; give its "
                "address, or use workers=1."
            )
        return {"transfer": {"source_model": source, **self._sized, **self.inner.describe()}}

    def with_preparation(self, preparation: Preparation) -> TransferThreat:
        prepared = TransferThreat(dict(self.options))
        prepared._preparation, prepared._identity = preparation, self._identity
        return prepared

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        source = self._ready_source(model)
        is_target = source is model
        batch_for_source = batch if self.size is None else at_size(batch, self.size)
        if not is_target:
            batch_for_source = _for_source(self.inner, source, model, batch_for_source, seeds)
        # The images of a batch may round differently in a batch of another size, or after another preparation.
        how = [
            source.identity.digest,
            coded_identity(source).code,
            self.inner.describe(),
            *([self.inner.uses()] if self.inner.uses() else []),
            self.version,
            source.preparation,
            len(batch),
        ]
        how += [] if self.size is None else [list(self.size)]
        how += [_architecture(source), source.device.type, str(torch.__version__)]
        keys = [
            content_key(how, seed.run_seed, seed.image_id, image.cpu().numpy(), *_truth_of(sample, batch.ignore_index))
            for seed, image, sample in zip(seeds, batch.images, batch.samples, strict=True)
        ]
        with CACHE.making(keys[0]):
            known = [CACHE.read(key) for key in keys]
            entries = [each for each in known if each is not None]
            if len(entries) < len(keys):
                entries = _attack(self.inner, source, batch_for_source, seeds, batch.images)
                for key, each in zip(keys, entries, strict=True):
                    CACHE.write(key, each)
        images = torch.stack([torch.from_numpy(each.image) for each in entries]).to(batch.images.device)
        details = {name: [each.details[name] for each in entries] for name in entries[0].details}
        details["source_is_target"] = [is_target] * len(batch)
        return Perturbed(images, self.inner.region.masks(batch, seeds), details=details)

    def _is(self, target: GauntletModel) -> bool:
        """True if the source is the evaluated model: its weights in the same code."""
        if self.identity.digest != target.identity.digest:
            return False
        return coded_identity(self._source).code == coded_identity(target).code

    def _ready_source(self, target: GauntletModel) -> GauntletModel:
        """The source, prepared and on the target's device; the target itself where they are the same model."""
        given = self.options.source_model
        if given == INNER:
            source = _inner_of(target)
        elif self._is(target):
            return target
        else:
            source = given if isinstance(given, GauntletModel) else _loaded(json.dumps(_address(given)))
        if source.task != target.task:  # of a stored description, which `check_task` does not look up
            raise _other_task(source.identity.name, source.task, target.task)
        source = source.freeze().to(target.device)
        if self._preparation is None or source.preparation:
            return source
        if self._ready is None or self._ready[0] is not source:
            self._ready = source, self._preparation(source)
        return self._ready[1]


def _attack(
    inner: AttackThreat, source: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed], images: torch.Tensor
) -> list[MadeImage]:
    """The images that the attack makes on the source, with what is known of each and what the source says to it.

    Args:
        inner, source, seeds: the attack, where it is made, and how it draws.
        batch: as the source sees it, maybe at another size.
        images: (N, 3, H, W), as the target sees them.
    """
    if batch.images.shape == images.shape:
        made = inner.perturb(source, batch, seeds)
        shown = made.images
    else:
        made, shown = attack_at_size(inner, source, batch, images, seeds)
    details = {**made.details, **_source_counts(source, batch, made.images, seeds)}
    return [
        MadeImage(image, {name: values[index] for name, values in details.items()})
        for index, image in enumerate(shown.cpu().numpy())
    ]


def _source_counts(
    source: GauntletModel, batch: Batch, images: torch.Tensor, seeds: Sequence[ImageSeed]
) -> dict[str, list[list[int]]]:
    """Pixels of every class on the attacked images, by what the source says: they prove that the attack worked there.

    Lists of K numbers per image: pixels of the class that the source still finds, all of them, and all that it calls
    so. Empty for detectors.
    """
    if not isinstance(source, SegmentationModel):
        return {}
    seen = label_maps(source, images, seeds)
    labels = need_labels(batch)
    counted = torch.ones_like(labels, dtype=torch.bool) if batch.ignore_index is None else labels != batch.ignore_index

    def per_class(values: torch.Tensor, where: torch.Tensor) -> list[list[int]]:
        pairs = zip(values, where, strict=True)
        return [torch.bincount(value[here], minlength=source.num_classes).tolist() for value, here in pairs]

    return {
        "source_correct": per_class(labels, counted & (seen == labels)),
        "source_pixels": per_class(labels, counted),
        "source_predicted": per_class(seen, counted),
    }


def _for_source(
    inner: AttackThreat, source: GauntletModel, target: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]
) -> Batch:
    """The batch as the source can be attacked on it; an error where its classes are not the target's.

    A source with other classes is attacked away from its own prediction. Void pixels stay void.
    """
    if source.class_names == target.class_names:
        return batch
    _check_other_classes(inner, source, target)
    labels = need_labels(batch)
    own = label_maps(source, batch.images, seeds)
    void = torch.zeros_like(labels, dtype=torch.bool) if batch.ignore_index is None else labels == batch.ignore_index
    return replace(batch, labels=torch.where(void, labels, own))


def _check_other_classes(
    inner: AttackThreat, source: GauntletModel | ModelSource, target: GauntletModel | ModelSource
) -> None:
    """An error where an attack cannot be transferred from a source to a target that has other classes."""
    attack = inner.attack
    own_prediction = getattr(attack, "labels", None) == "prediction" and attack.target is None
    if source.task != SEGMENTATION or not own_prediction:
        raise GauntletError(
            f"the source '{source.identity.name}' has other classes than '{target.identity.name}'; only an untargeted "
            "attack away from the source's own prediction (labels: prediction) can be transferred then."
        )


def _architecture(source: GauntletModel) -> str:
    """A digest of the layers and of the Python that joins them: the same weights may be in another network."""
    layers = [
        (type(module).__module__, type(module).__qualname__, module.extra_repr(), _code_of(module.forward))
        for module in source.modules()
    ]
    return hashlib.sha256(repr(layers).encode()).hexdigest()[:16]


def _code_of(function: object) -> list[Any]:
    """What a Python function does: instructions, names and constants, those of functions inside it among them."""
    code = function if isinstance(function, CodeType) else getattr(function, "__code__", None)
    if code is None:
        return []
    constants = [sorted(map(repr, each)) if isinstance(each, frozenset) else each for each in code.co_consts]
    constants = [_code_of(each) if isinstance(each, CodeType) else each for each in constants]
    return [code.co_code.hex(), code.co_names, constants]


def _truth_of(sample: Sample, ignore_index: int | None) -> list[Any]:
    """What an attack is told about an image."""
    boxes = sample.boxes
    objects = [] if boxes is None else [boxes.xyxy, boxes.classes]
    return [ignore_index, *([] if sample.labels is None else [np.asarray(sample.labels)]), *objects]


def _inner_of(target: GauntletModel) -> GauntletModel:
    """The one model inside a defence."""
    inside = [each for each in getattr(target, "inner", ()) if isinstance(each, GauntletModel)]
    if len(inside) != 1:
        raise _not_one_inside(target.identity.name, len(inside))
    return inside[0]


def _other_task(name: str, task: str, wanted: str) -> GauntletError:
    return GauntletError(
        f"the source '{name}' is a {task} model; its images are transferred to models of the same task only, not to "
        f"{wanted} models."
    )


def _not_one_inside(name: str, count: int) -> GauntletError:
    return GauntletError(
        f"'{name}' has {count or 'no'} models inside it, and 'inner' needs one; give the address of a source_model in "
        "its place."
    )


def _address(source: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The address and the options of a source, as a plan writes them."""
    if isinstance(source, str):
        return source, {}
    options = source.get("options", {})
    if (
        set(source) - {"address", "options"}
        or not isinstance(source.get("address"), str)
        or not isinstance(options, dict)
    ):
        raise GauntletError(f"a source_model is an address or {{address: ..., options: {{...}}}}, not {dict(source)}.")
    return source["address"], options


def _source(given: str | Mapping[str, Any] | GauntletModel) -> ModelSource:
    if isinstance(given, GauntletModel):
        return LoadedModel(given)
    address, options = _address(given)
    return resolve_model(address, **options)


@lru_cache(maxsize=2)
def _loaded(written: str) -> GauntletModel:
    """The model of an address and options in JSON; a worker builds the threat anew for every unit, not its source."""
    address, options = json.loads(written)
    return resolve_model(address, **options).load()
