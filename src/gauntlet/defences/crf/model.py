"""crf: a fully connected CRF behind a model, as in crf:preset=crfrnn,iterations=5:ADDRESS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch

from gauntlet.defences.contract import Defence, DefenceSettings, is_finite
from gauntlet.defences.crf.cells import CellKernel
from gauntlet.defences.crf.dense import DenseKernel
from gauntlet.defences.crf.mean_field import Kernel, NormalisedKernel, Term, mean_field
from gauntlet.defences.crf.parameters import CrfParameters, load_parameters
from gauntlet.defences.crf.separable import SeparableKernel
from gauntlet.defences.crf.settings import CrfSettings
from gauntlet.defences.transform import check_range
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources.contract import ModelSource

GREY_LEVELS = 255
"""Colours of the kernel are in grey levels, images in [0, 1]."""

REFERENCE_SIDE = 500
"""Longer side of the images that published bandwidths were found on (Pascal VOC)."""


class Crf(Defence):
    """A model whose logits a fully connected CRF refines: similar and near pixels pull each other to one class.

    Args:
        model: what gives the unary potentials.
        settings: those of `CrfSettings`.
    """

    prefix = "crf"
    settings_type = CrfSettings
    settings: CrfSettings

    def __init__(self, model: GauntletModel, **settings: Any) -> None:
        checked = CrfSettings(**settings)
        super().__init__([model], checked)
        given = checked.parameters
        self.parameters_found: CrfParameters | None = None if given is None else load_parameters(given)

    @classmethod
    def check_inner(cls, inner: GauntletModel | ModelSource, settings: DefenceSettings) -> None:
        super().check_inner(inner, settings)
        assert isinstance(settings, CrfSettings)
        labels = inner.label_space
        if settings.parameters is not None:
            found = load_parameters(settings.parameters)
            if labels is not None:  # else it is told once the model is loaded
                found.check(len(labels.names))

    @classmethod
    def version_with(cls, settings: DefenceSettings) -> int:
        """Sums without the self term were rounded otherwise in version 1."""
        assert isinstance(settings, CrfSettings)
        return cls.version if settings.self_term else cls.version + 1

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        check_range(images, self.prefix)
        self.settings.check_size(images.shape[-2], images.shape[-1], images.element_size())
        logits: torch.Tensor = self.model(images)
        if not is_finite(logits.detach()):
            raise GauntletError(f"'{self.model.identity.name}' gave NaN or infinite logits to 'crf:'.")
        # One image at a time: the shapes of matrix products, and so their last bits, do not depend on batch mates.
        return torch.stack([self._refine(*each) for each in zip(logits, images, strict=True)])

    def _refine(self, logits: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """The logits of one image (K, H, W) after inference."""
        kind = torch.promote_types(logits.dtype, torch.float32)  # half precision would lose the sums over pixels
        unary = logits.to(kind).flatten(1).T.contiguous()  # (P, K)
        found, settings = self.parameters_found, self.settings
        compatibility = None if found is None else found.compatibility.to(unary)
        if settings.clip:
            unary = unary.softmax(dim=1).clamp(min=cast(float, settings.clip)).log()
        terms = list(self._terms(image.to(kind), unary))
        refined = mean_field(unary, terms, cast(int, settings.iterations), compatibility)
        return refined.T.reshape(logits.shape).to(logits.dtype)

    def _terms(self, image: torch.Tensor, like: torch.Tensor) -> Iterator[Term]:
        """The kernels that count, with their weights."""
        settings, found = self.settings, self.parameters_found
        bilateral = settings.w_bilateral if found is None else found.w_bilateral.to(like)
        spatial = settings.w_spatial if found is None else found.w_spatial.to(like)
        size = (image.shape[-2], image.shape[-1])
        if isinstance(bilateral, torch.Tensor) or bilateral:
            yield self._term(self._bilateral(image), bilateral, like)
        if isinstance(spatial, torch.Tensor) or spatial:
            theta = cast(float, settings.theta_gamma) * self._scale(size)
            kernel = SeparableKernel(size, theta, like.detach(), self_term=bool(settings.self_term))
            yield self._term(kernel, spatial, like)

    def _term(self, kernel: Kernel, weight: Any, like: torch.Tensor) -> Term:
        return Term(NormalisedKernel(kernel, str(self.settings.normalisation), like.detach()), weight)

    def _bilateral(self, image: torch.Tensor) -> Kernel:
        settings = self.settings
        size = (image.shape[-2], image.shape[-1])
        alpha, beta = cast(float, settings.theta_alpha) * self._scale(size), cast(float, settings.theta_beta)
        features = bilateral_features(image if settings.image_gradient else image.detach(), alpha, beta)
        if settings.exact(size[0] * size[1]):
            return DenseKernel(features, self_term=bool(settings.self_term))
        return CellKernel(features, cast(float, settings.side), self_term=bool(settings.self_term))

    def _scale(self, size: tuple[int, int]) -> float:
        return max(size) / REFERENCE_SIDE if self.settings.scale == "auto" else 1.0


def bilateral_features(image: torch.Tensor, theta_alpha: float, theta_beta: float) -> torch.Tensor:
    """Position / theta_alpha and colour / theta_beta of every pixel of an image (3, H, W) in [0, 1], (P, 5)."""
    height, width = image.shape[-2:]
    rows, columns = (torch.arange(side).to(image) / theta_alpha for side in (height, width))
    positions = torch.cartesian_prod(rows, columns)  # (P, 2), row by row
    return torch.cat([positions, image.flatten(1).T * (GREY_LEVELS / theta_beta)], dim=1)
