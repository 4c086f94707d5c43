"""Losses per pixel that an attack drives up: a base that grows away from the label, times a weight without gradient.

Every function here works for targeted attacks too: the label is then the target and the base is driven down, while
weights that single out "pixels still to be won" use `Pixels.fooled`, which means the right thing in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from gauntlet.errors import GauntletError
from gauntlet.registry import Registry, instance_of
from gauntlet.threats.attacks.engine.norms import class_length
from gauntlet.threats.attacks.engine.pixels import Pixels

Base = Callable[[Pixels], torch.Tensor]
Weight = Callable[[Pixels, float], torch.Tensor]


@dataclass(frozen=True)
class PixelLoss:
    """A loss per pixel.

    Attributes:
        base: (N, H, W), grows as a pixel moves away from its label; differentiable.
        weight: (N, H, W) from the pixels and the progress of the attack in [0, 1]; detached. None means 1.
        track: the loss that adaptive schedules compare iterates by; None means this one.
    """

    base: Base
    weight: Weight | None = None
    track: PixelLoss | None = None

    def __call__(self, pixels: Pixels, progress: float) -> torch.Tensor:
        """What the attack maximises, (N, H, W), 0 where a pixel does not count."""
        values = self.base(pixels)
        if self.weight is not None:
            values = values * self.weight(pixels, progress)
        # Where the label is ruled out, no image changes anything.
        free = pixels.counted & pixels.possible
        values = torch.where(free, values, torch.zeros((), dtype=values.dtype, device=values.device))
        return -values if pixels.targeted else values

    @property
    def tracked(self) -> PixelLoss:
        """The loss that iterates are compared by."""
        return self if self.track is None else self.track


losses: Registry[PixelLoss] = Registry("loss", "gauntlet.losses", check=instance_of(PixelLoss))
"""Losses by the name that an attack's option `loss` takes."""


def cross_entropy(pixels: Pixels) -> torch.Tensor:
    """ℓ = -log p_y."""
    return pixels.cross_entropy


def still_to_win(pixels: Pixels, progress: float) -> torch.Tensor:
    """1 on pixels that are not fooled yet (c_i of docs/specs/attacks.md, 6)."""
    return (~pixels.fooled).to(pixels.logits.dtype)


def equal_classes(pixels: Pixels, progress: float) -> torch.Tensor:
    """One over the image's own pixel count of the class, scaled to sum 1 over the classes that occur."""
    count, classes = pixels.logits.shape[:2]
    counts = pixels.logits.new_zeros(count, classes)
    counts.scatter_add_(1, pixels.labels.flatten(1), pixels.counted.flatten(1).to(counts.dtype))
    shares = torch.where(counts > 0, 1 / counts.clamp_min(1), torch.zeros_like(counts))
    shares = shares / shares.sum(1, keepdim=True).clamp_min(1e-12)
    return shares.gather(1, pixels.labels.flatten(1)).view_as(pixels.labels)


def rare_classes_first(pixels: Pixels, progress: float) -> torch.Tensor:
    """`still_to_win` times `equal_classes`.

    SEA takes the counts of a training set (`balanced`); where no weights are given, an image's own take their place.
    """
    return equal_classes(pixels, progress) * still_to_win(pixels, progress)


def segpgd_weight(pixels: Pixels, progress: float) -> torch.Tensor:
    """1 - λ on pixels that are not fooled yet, λ on the others, λ = progress / 2 (Gu et al., Eq. 5: SegPGD).

    docs/specs/attacks.md, 3.
    """
    share = progress / 2
    fooled = pixels.fooled.to(pixels.logits.dtype)
    return fooled.mul_(2 * share - 1).add_(1 - share)


def cosine_weight(pixels: Pixels, progress: float) -> torch.Tensor:
    """cos(softmax(z), onehot(y)) = p_y / |p|, one minus it when targeted (CosPGD, Eq. 4; docs/specs/attacks.md, 4)."""
    return 1 - pixels.own_cosine if pixels.targeted else pixels.own_cosine


def sigmoid_cosine_weight(pixels: Pixels, progress: float) -> torch.Tensor:
    """The CosPGD weight with a sigmoid in place of the softmax, as SEA's first code had it."""
    activations = torch.sigmoid(pixels.logits.detach())
    cosine = activations.gather(1, pixels.labels.unsqueeze(1)).squeeze(1)
    cosine = cosine / class_length(activations)
    return 1 - cosine if pixels.targeted else cosine


def jensen_shannon(pixels: Pixels) -> torch.Tensor:
    """JSD(p, onehot(y)) in nats (docs/specs/attacks.md, 6), written with p_y only.

    With m = (p + q) / 2 the classes other than y give p_c ln 2 each, hence with p = p_y
    JSD = 1/2 [(1 - p) ln 2 + p ln(2p / (1 + p)) + ln(2 / (1 + p))].
    """
    own = torch.exp(-pixels.cross_entropy)
    own = own.clamp_min(torch.finfo(own.dtype).tiny)  # the slope of p ln p is infinite at 0
    return 0.5 * ((1 - own) * math.log(2) + own * torch.log(2 * own / (1 + own)) + torch.log(2 / (1 + own)))


def spherical(pixels: Pixels) -> torch.Tensor:
    """-z_y / |z|, the gradient goes through the norm (docs/specs/attacks.md, 6: MSL)."""
    return -pixels.logit_cosine


def logit_cosine(pixels: Pixels) -> torch.Tensor:
    """1 - z_y / max(|z|, 1e-8) on logits (PAdam-Cos; docs/specs/attacks.md, 7)."""
    return 1 - pixels.logit_cosine


def logit_difference(pixels: Pixels) -> torch.Tensor:
    """-(z_y - max of the others)."""
    return -pixels.margin


def difference_of_logits_ratio(pixels: Pixels) -> torch.Tensor:
    """-(z_y - max of the others) / (z_(1) - z_(3)): needs three classes (docs/specs/attacks.md, 1 and 9)."""
    if pixels.logits.shape[1] < 3:
        raise GauntletError("the loss 'dlr' needs at least 3 classes; use 'dl' for a model with fewer.")
    return -pixels.margin / (pixels.spread(0, 2) + 1e-8)


_CE = PixelLoss(cross_entropy)
losses.add("ce", _CE)
losses.add("segpgd", PixelLoss(cross_entropy, segpgd_weight, _CE), aliases=("bce",))
losses.add("cospgd", PixelLoss(cross_entropy, cosine_weight, _CE))
losses.add("cospgd-sigmoid", PixelLoss(cross_entropy, sigmoid_cosine_weight, _CE))
losses.add("mce", PixelLoss(cross_entropy, still_to_win, _CE))
losses.add("mce-bal", PixelLoss(cross_entropy, rare_classes_first, _CE))
losses.add("jsd", PixelLoss(jensen_shannon, None, _CE))
losses.add("jsd-self", PixelLoss(jensen_shannon))  # ours: iterates are compared by the loss that is climbed
losses.add("jsd-bal", PixelLoss(jensen_shannon, equal_classes))  # ours: every class of the image counts alike
losses.add("msl", PixelLoss(spherical, still_to_win))
losses.add("cosine", PixelLoss(logit_cosine))
losses.add("dl", PixelLoss(logit_difference))
losses.add("dlr", PixelLoss(difference_of_logits_ratio))


def balanced(loss: PixelLoss, class_weights: Sequence[float]) -> PixelLoss:
    """The loss with every pixel weighted by its class, ω_y, scaled to Σω = 1 (docs/specs/attacks.md, 6: MCE-Bal)."""
    total = sum(class_weights)
    shares = [weight / total for weight in class_weights]

    def weight(pixels: Pixels, progress: float) -> torch.Tensor:
        if len(shares) != pixels.logits.shape[1]:
            raise GauntletError(
                f"class_weights has {len(shares)} values for {pixels.logits.shape[1]} classes; give one per class."
            )
        table = torch.tensor(shares, dtype=pixels.logits.dtype, device=pixels.logits.device)
        own = table[pixels.labels]
        return own if loss.weight is None else own * loss.weight(pixels, progress)

    return replace(loss, weight=weight)
