"""What a model must be, per task: frozen, in eval mode, RGB in [0, 1] in, predictions out."""

from __future__ import annotations

import functools
import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from gauntlet.class_numbers import VOID, void_label
from gauntlet.errors import GauntletError
from gauntlet.models.code_identity import code_of
from gauntlet.models.randomness import random_parts
from gauntlet.notebooks import facts_table
from gauntlet.numbers import counted
from gauntlet.samples import Boxes
from gauntlet.tasks import DETECTION, SEGMENTATION


@dataclass(frozen=True)
class ModelIdentity:
    """Which model this is: a readable name and digests of everything that changes its output.

    Attributes:
        name: what people call it.
        digest: of weights and settings.
        stored_name: the name in the keys of its evaluations where it has another one now; results of version 0.1.0 are
            found by it.
        code: digest of what its classes and functions do (`models.code_identity`), "" where nobody has computed it.
    """

    name: str
    digest: str
    stored_name: str | None = None
    code: str = ""

    @property
    def key_name(self) -> str:
        """The name in the keys of its evaluations."""
        return self.stored_name or self.name


@dataclass(frozen=True)
class LabelSpace:
    """What the labels of a model mean.

    Attributes:
        names: of its classes, in order.
        ignore_index: the label that counts for nothing, or None.
    """

    names: tuple[str, ...]
    ignore_index: int | None


def _on_a_copy(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes images, with a copy of them."""

    @functools.wraps(method)
    def asked(self: Any, images: torch.Tensor, *others: Any, **named: Any) -> Any:
        return method(self, images.clone(), *others, **named)

    return asked


class GauntletModel(nn.Module, ABC):
    """Common to both tasks: class names, an identity, frozen parameters, eval mode.

    Attributes:
        task: "segmentation" or "detection".
        asked_by: names of the methods that take images.
        num_classes: number of classes K.
        class_names: K names.
        ignore_index: label of pixels that count for nothing, or None; 65535 for 255 where 255 is the number of a class.
        identity: name and digest of the weights.
        random: whether it draws in a forward pass.
        preparation: steps of `models.preparation` that were taken to make it faster.
        origin: address and options with which `load_model` loaded it; None for a model of another making.
        facts: what its maker says about it (architecture, backbone, date: `gauntlet.results.model_facts`), or None.
    """

    task: ClassVar[str]
    asked_by: ClassVar[tuple[str, ...]] = ()
    preparation: tuple[str, ...] = ()
    origin: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None

    def __init_subclass__(cls, *, keeps_images: bool = False, **others: Any) -> None:
        """Let the methods of a subclass that take images work on a copy of them.

        Networks often normalise in place, which would rewrite the images that their answer is compared for.

        Args:
            keeps_images: True for a class whose methods never write to their images and let no other code do so.
        """
        super().__init_subclass__(**others)
        if not keeps_images:
            for name in cls.asked_by:
                if name in vars(cls):
                    setattr(cls, name, _on_a_copy(vars(cls)[name]))

    def __init__(
        self,
        *,
        num_classes: int,
        class_names: Sequence[str] | None = None,
        ignore_index: int | None = 255,
        identity: ModelIdentity | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise GauntletError(f"num_classes must be at least 1, not {num_classes}.")
        names = tuple(class_names) if class_names is not None else default_names(num_classes)
        if len(names) != num_classes:
            raise GauntletError(f"{len(names)} class names were given for {num_classes} classes.")
        self.num_classes = num_classes
        self.class_names = names
        self.ignore_index = void_label(num_classes) if ignore_index == VOID else ignore_index
        self._identity = identity

    @property
    def identity(self) -> ModelIdentity:
        """Name and digests; those of weights and code are computed when nobody gave them."""
        identity = self._identity or ModelIdentity(type(self).__name__, weights_digest(self))
        self._identity = identity if identity.code else replace(identity, code=code_of(self))
        return self._identity

    @property
    def label_space(self) -> LabelSpace:
        """Its classes and the label of void."""
        return LabelSpace(self.class_names, self.ignore_index)

    @property
    def device(self) -> torch.device:
        """Where the parameters are (CPU for a model without any)."""
        tensor = next(itertools.chain(self.parameters(), self.buffers()), None)
        return tensor.device if tensor is not None else torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the parameters (float32 for a model without any)."""
        tensor = next((p for p in self.parameters() if p.is_floating_point()), None)
        return tensor.dtype if tensor is not None else torch.float32

    @property
    def random(self) -> bool:
        """Whether it draws in a forward pass, which then needs numbers (`models.randomness`)."""
        return bool(random_parts(self))

    def check_size(self, height: int, width: int) -> None:
        """An error where it cannot take images of a size, told without asking it; most take every one."""

    def freeze(self) -> GauntletModel:
        """Eval mode and no parameter gradients: an attack differentiates the input only."""
        self.eval()
        self.requires_grad_(False)
        return self

    def __repr__(self) -> str:
        """Short; the layers are those of `children()`. Takes no digest of the weights."""
        classes = counted(self.num_classes, "class", "classes")
        facts = f"{self.task}, {classes}, {self._size} parameters, {self.device}"
        return f"<{type(self).__name__} '{self._title}': {facts}>"

    def _repr_html_(self) -> str:
        facts = {
            "task": self.task,
            "classes": ", ".join(self.class_names),
            "parameters": self._size,
            "device": self.device,
            "random": "yes" if self.random else None,
            "prepared": ", ".join(self.preparation),
        }
        return facts_table(f"{type(self).__name__} '{self._title}'", facts)

    @property
    def _title(self) -> str:
        return type(self).__name__ if self._identity is None else self._identity.name

    @property
    def _size(self) -> str:
        """Number of parameters, in millions from one million on."""
        count = sum(parameter.numel() for parameter in self.parameters())
        return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count:,}"


class SegmentationModel(GauntletModel):
    """`forward(images) -> logits`: (N, 3, H, W) in [0, 1] to (N, K, H, W) at the same resolution."""

    task = SEGMENTATION
    asked_by = ("forward",)

    @abstractmethod
    def forward(self, images: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Candidates:
    """What a detector proposes before suppression, for attacks that aim at it.

    Attributes:
        scores: (N, Q, K) class logits, background excluded.
        boxes: (N, Q, 4) corners in pixels.
        objectness: (N, Q) logits of there being an object; the largest class logit where the detector has no own.
    """

    scores: torch.Tensor
    boxes: torch.Tensor
    objectness: torch.Tensor


class DetectionModel(GauntletModel):
    """A detector: a differentiable loss per image, final boxes, and candidates before suppression."""

    task = DETECTION
    asked_by = ("losses", "predict", "candidates")

    @abstractmethod
    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        """The training loss of every image, (N,), differentiable to the images (N, 3, H, W)."""

    @abstractmethod
    def predict(self, images: torch.Tensor) -> list[Boxes]:
        """Detections of every image, with scores, after suppression."""

    @abstractmethod
    def candidates(self, images: torch.Tensor) -> Candidates:
        """Class scores and boxes before suppression, differentiable."""


def default_names(num_classes: int) -> tuple[str, ...]:
    """What the classes of a model are called that does not name them."""
    return tuple(f"class {k}" for k in range(num_classes))


def weights_digest(module: nn.Module) -> str:
    """SHA-256 over names, types, shapes and bytes of a module's state, first 16 hex digits."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if not isinstance(value, torch.Tensor):
            digest.update(f"{name}|{value!r}".encode())
            continue
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()[:16]
