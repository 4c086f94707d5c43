"""multiscale: the image at several sizes through one model, pooled (Arnab et al.; docs/specs/defences.md, 1)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gauntlet.defences.contract import Addressed, Defence, DefenceSettings, parse_choice, parse_numbers
from gauntlet.defences.resampling import ADD, LARGEST, pour, resampled
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.numbers import Number

POOLS = ("max", "mean")
LOGITS, PROBABILITIES = "logits", "probabilities"
OUTPUTS = (LOGITS, PROBABILITIES)
"""What can be pooled or mixed."""


LARGEST_SCALE = 8.0
"""64 times the pixels: beyond it a slip of the pen is likelier than a wish."""


@dataclass(frozen=True)
class MultiscaleSettings(DefenceSettings):
    """At which sizes, and how answers become one.

    Attributes:
        scales: of height and width; sorted, since their order changes nothing.
        pool: "max" (Arnab et al.) or "mean", per class and pixel.
        of: "logits", or "probabilities"; then the output is the logarithm of what is pooled.
    """

    scales: Number | Sequence[Number] = (0.5, 0.75, 1.0)
    pool: str = "max"
    of: str = LOGITS

    def __post_init__(self) -> None:
        scales = parse_numbers(self.scales, "a scale of multiscale:")
        if not scales:
            raise GauntletError("multiscale: needs at least one scale, such as scales=0.5+0.75+1.")
        if min(scales) <= 0:
            raise GauntletError(f"a scale of multiscale: must be greater than 0, not {min(scales):g}.")
        if max(scales) > LARGEST_SCALE:
            raise GauntletError(f"a scale of multiscale: must be at most {LARGEST_SCALE:g}, not {max(scales):g}.")
        if len(set(scales)) < len(scales):
            raise GauntletError(f"multiscale: has a scale twice in {'+'.join(f'{each:g}' for each in scales)}.")
        parse_choice(self.pool, "pool of multiscale:", POOLS)
        parse_choice(self.of, "output to pool (of=) of multiscale:", OUTPUTS)
        self._set(scales=tuple(sorted(scales)))

    @property
    def neutral(self) -> bool:
        return self.scales == (1.0,)

    def sizes_inside(self, height: int, width: int) -> Sequence[tuple[int, int]]:
        assert isinstance(self.scales, tuple)
        return [scaled_size(height, width, float(scale)) for scale in self.scales]


class MultiscaleModel(Defence):
    """A model that sees every image at several sizes.

    The largest value over scales is taken at full size, since a model answers at the size of its input; public code of
    DeepLab takes it on the network's own coarser grid, which is another function.

    Args:
        model: what is applied at every size.
        settings: those of `MultiscaleSettings`.
    """

    prefix = "multiscale"
    settings_type = MultiscaleSettings
    settings: MultiscaleSettings

    def __init__(self, model: GauntletModel, **settings: Any) -> None:
        super().__init__([model], MultiscaleSettings(**settings))

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        settings = self.settings
        assert isinstance(settings.scales, tuple)
        size = (images.shape[-2], images.shape[-1])
        answers = [self._at(images, float(scale)) for scale in settings.scales]
        if not any(each.requires_grad for each in answers):
            return self._poured(answers, size)
        seen = [each if each.shape[-2:] == size else resampled(each, size) for each in answers]
        pooled = _largest(seen) if settings.pool == "max" else functools.reduce(torch.add, seen) / len(seen)
        return log_of(pooled) if settings.of == PROBABILITIES else pooled

    def _poured(self, answers: Sequence[torch.Tensor], size: tuple[int, int]) -> torch.Tensor:
        """The same values where no gradient is wanted, with one tensor at full size for all scales."""
        settings, first, rest = self.settings, answers[0], answers[1:]
        if settings.pool == "max" and settings.of == PROBABILITIES and answers[-1].shape[-2:] == size:
            # A maximum has no order, and what softmax made is ours to write to.
            pooled = answers[-1]
            rest = answers[:-1]
        else:
            pooled = first.clone() if first.shape[-2:] == size else resampled(first, size)
        for answer in rest:
            pooled = pour(answer, pooled, LARGEST if settings.pool == "max" else ADD)
        if settings.pool == "mean":
            pooled = pooled.div_(len(answers))
        if settings.of == PROBABILITIES:
            pooled = pooled.clamp_(min=torch.finfo(pooled.dtype).tiny).log_()
        return pooled

    def _at(self, images: torch.Tensor, scale: float) -> torch.Tensor:
        """Logits or probabilities of the images at one scale, at its own size, (N, K, h, w)."""
        height, width = images.shape[-2:]
        size = scaled_size(height, width, scale)
        seen = images if scale == 1 else resampled(images, size)
        try:
            values: torch.Tensor = self.model(seen)
        except (RuntimeError, ValueError) as error:
            if scale >= 1 or isinstance(error, GauntletError):
                raise
            raise GauntletError(
                f"at scale {scale:g} of multiscale: an image of {height}x{width} pixels becomes {size[0]}x{size[1]}, "
                f"which '{self.model.identity.name}' does not accept: {error}"
            ) from error
        return values.softmax(dim=1) if self.settings.of == PROBABILITIES else values


def scaled_size(height: int, width: int, scale: float) -> tuple[int, int]:
    """Height and width at a scale, at least 1; the small number keeps 0.1 * 30 at 3.

    >>> scaled_size(23, 31, 0.5)
    (11, 15)
    """
    return max(1, int(scale * height + 1e-9)), max(1, int(scale * width + 1e-9))


def _largest(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """The largest of each element, whose gradient goes to one of them; torch.maximum would split that of a tie."""
    return torch.stack(list(values)).max(dim=0).values


def log_of(probabilities: torch.Tensor) -> torch.Tensor:
    """The logarithm; a probability may round to 0, and the smallest normal number stands for it."""
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()


source = Addressed(MultiscaleModel)
