"""What an attack looks at in one forward pass: logits at labelled pixels, every quantity computed at most once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from gauntlet.threats.attacks.engine.labels import image_figures, label_map
from gauntlet.threats.attacks.engine.norms import class_length

_SHORTEST = 1e-8  # below this a vector of logits has no direction (docs/specs/attacks.md, 7)


class _CrossEntropy(torch.autograd.Function):
    """Given values of -log p_y as a function of the logits: the backward is p - onehot(y), from one pass of exp.

    Args of forward: logits, values (N, H, W), exponentials exp(z - max z), their sums (N, H, W), labels, and whether
    the exponentials may be overwritten by the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        values: torch.Tensor,
        exponentials: torch.Tensor,
        sums: torch.Tensor,
        labels: torch.Tensor,
        overwrite: bool,
    ) -> torch.Tensor:
        ctx.save_for_backward(exponentials, sums, labels)
        ctx.overwrite = overwrite
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None, None]:
        exponentials, sums, labels = ctx.saved_tensors
        upstream = gradients[0]
        factors = (upstream / sums).unsqueeze(1)
        result = exponentials.mul_(factors) if ctx.overwrite else exponentials * factors
        result.scatter_add_(1, labels.unsqueeze(1), -upstream.unsqueeze(1))
        return result, None, None, None, None, None


class _LogitCosine(torch.autograd.Function):
    """z_y / max(|z|, 1e-8) as a function of the logits: the backward, onehot(y)/|z| - z z_y/|z|^3, is one pass."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        length = class_length(logits)
        if not bool(torch.isfinite(length).all()):  # a class that is ruled out is no part of the vector
            logits = logits.masked_fill(logits == -torch.inf, 0)
            length = class_length(logits)
        length = length.clamp_min(_SHORTEST)
        own = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
        ctx.save_for_backward(logits, labels, own, length)
        return own / length

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels, own, length = ctx.saved_tensors
        along = gradients[0] / length
        pull = torch.where(length > _SHORTEST, -along * own / length.square(), 0.0)
        result = logits * pull.unsqueeze(1)
        result.scatter_add_(1, labels.unsqueeze(1), along.unsqueeze(1))
        return result, None


class _Selected(torch.autograd.Function):
    """Given values of single logits, as a function of the logits; classes that tie share the gradient equally."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, values: torch.Tensor, excluded: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(logits, values, excluded)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, values, excluded = ctx.saved_tensors
        chosen = logits == values.unsqueeze(1)
        if excluded is not None:
            chosen.scatter_(1, excluded.unsqueeze(1), False)
        shares = gradients[0] / chosen.sum(1).clamp_min_(1)
        return chosen * shares.unsqueeze(1), None, None


class Pixels:
    """Logits of N images with the label that each pixel is measured against.

    Attributes:
        logits: (N, K, H, W), differentiable with respect to the attacked images when a gradient is wanted.
        labels: int64 (N, H, W) in 0..K-1; the ground truth, or the target of a targeted attack. 0 where not counted.
        counted: bool (N, H, W); pixels that are neither void nor outside the fooling region.
        targeted: whether `labels` is where the attack wants to go (else: what it wants to leave).
        workspace: like the logits, to be written to freely, or None. With it the exponentials, and then the gradient of
            the cross-entropy, take no memory of their own; the view can then be differentiated once only.
    """

    def __init__(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        counted: torch.Tensor,
        targeted: bool,
        workspace: torch.Tensor | None = None,
    ) -> None:
        self.logits = logits
        self.labels = labels
        self.counted = counted
        self.targeted = targeted
        self.workspace = workspace
        self._ranks: list[torch.Tensor] = []

    @cached_property
    def own(self) -> torch.Tensor:
        """The logit of the label, (N, H, W), differentiable."""
        return self.logits.gather(1, self.labels.unsqueeze(1)).squeeze(1)

    @cached_property
    def rival(self) -> torch.Tensor:
        """The largest logit of the other classes, (N, H, W), differentiable (-inf when there is one class only)."""
        first, second = self._ranked(2)
        return self._selected(torch.where(self.own.detach() == first, second, first), self.labels)

    def leading(self, count: int) -> list[torch.Tensor]:
        """The largest logits of every pixel in falling order, `count` tensors (N, H, W), differentiable."""
        return [self._selected(values, None) for values in self._ranked(count)]

    def spread(self, first: int, *others: int) -> torch.Tensor:
        """The logit of a rank less the mean of those of other ranks, (N, H, W), differentiable.

        1 where the model rules out so many classes that a rank is missing.

        Args:
            first, others: ranks, from 0 on.
        """
        ordered = self.leading(1 + max(first, *others))
        spread = ordered[first] - sum(ordered[rank] for rank in others) / len(others)
        missing = torch.isinf(spread.detach())
        return torch.where(missing, torch.ones_like(spread), spread) if bool(missing.any()) else spread

    def _selected(self, values: torch.Tensor, excluded: torch.Tensor | None) -> torch.Tensor:
        result: torch.Tensor = _Selected.apply(self.logits, values, excluded)  # type: ignore[no-untyped-call]
        return result

    def _ranked(self, count: int) -> list[torch.Tensor]:
        """The values of the largest logits, detached: an insertion by minima and maxima, far faster than topk."""
        if len(self._ranks) < count:
            logits = self.logits.detach()
            ranks = [torch.full_like(logits[:, 0], float("-inf")) for _ in range(count)]
            for each in logits.unbind(1):
                value = each
                for place in range(count):
                    larger = torch.maximum(value, ranks[place])
                    if place + 1 < count:
                        value = torch.minimum(value, ranks[place])
                    ranks[place] = larger
            self._ranks = ranks
        return self._ranks[:count]

    @cached_property
    def possible(self) -> torch.Tensor:
        """Bool (N, H, W): where the model does not rule the label out by a logit of -inf."""
        return self.own.detach() != -torch.inf

    @cached_property
    def margin(self) -> torch.Tensor:
        """`own - rival`: positive where the prediction is the label, differentiable.

        1 or -1 without a gradient where the model rules out the label or all other classes, whatever the image.
        """
        margin = self.own - self.rival
        decided = torch.isinf(margin.detach())
        return torch.where(decided, margin.detach().sign(), margin) if bool(decided.any()) else margin

    @cached_property
    def top(self) -> torch.Tensor:
        """The largest logit of every pixel, (N, H, W), detached."""
        return self.logits.detach().amax(1)

    @cached_property
    def fooled(self) -> torch.Tensor:
        """Bool (N, H, W): where the attack has what it wants; a tie of logits never counts as success.

        `own == max` instead of an argmax, which costs twenty times as much.
        """
        if self.targeted:
            return self.margin.detach() > 0
        return self.own.detach() < self.top

    @cached_property
    def fooled_counts(self) -> torch.Tensor:
        """Counted pixels per image where the attack has what it wants, int64 (N,)."""
        return (self.fooled & self.counted).flatten(1).sum(1)

    @cached_property
    def won_overlap(self) -> torch.Tensor:
        """1 - mIoU of every image with its labels, mIoU itself where they are the target, float64 (N,)."""
        logits = self.logits.detach()
        overlap = image_figures(label_map(logits), self.labels, self.counted, logits.shape[1])[1]
        return (overlap if self.targeted else 1 - overlap).to(logits.device)

    @cached_property
    def exponentials(self) -> torch.Tensor:
        """exp(z - max z), (N, K, H, W), detached: the softmax up to its denominator, and all that losses need of it."""
        return torch.sub(self.logits.detach(), self.top.unsqueeze(1), out=self.workspace).exp_()

    @cached_property
    def sums(self) -> torch.Tensor:
        """The denominators of the softmax, (N, H, W), detached."""
        return self.exponentials.sum(1)

    @cached_property
    def logit_cosine(self) -> torch.Tensor:
        """Cosine between the logits and the label's one-hot vector, (N, H, W), differentiable."""
        cosine: torch.Tensor = _LogitCosine.apply(self.logits, self.labels)  # type: ignore[no-untyped-call]
        return cosine

    @cached_property
    def own_cosine(self) -> torch.Tensor:
        """cos(softmax(z), onehot(y)) = p_y / |p|, (N, H, W), detached; the denominators of the softmax cancel."""
        own = self.exponentials.gather(1, self.labels.unsqueeze(1)).squeeze(1)
        return own / class_length(self.exponentials)

    @cached_property
    def cross_entropy(self) -> torch.Tensor:
        """-log p_y, (N, H, W), differentiable."""
        values = self.sums.log() + self.top - self.own.detach()
        result: torch.Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
            self.logits, values, self.exponentials, self.sums, self.labels, self.workspace is not None
        )
        return result
