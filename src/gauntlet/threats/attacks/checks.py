"""Is a model robust, or does it only hide its gradient? Checks that turn doubts into findings (docs/specs/attacks.md, 16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.numbers import Number
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack, SingleStep
from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.attacks.engine.contract import radius, uniform_draws, whole
from gauntlet.threats.attacks.engine.device import bridge
from gauntlet.threats.attacks.engine.inputs import MODEL_IGNORE_INDEX, expand_seeds
from gauntlet.threats.attacks.engine.losses import losses
from gauntlet.threats.attacks.engine.posing import pose_task
from gauntlet.threats.attacks.engine.problem import BatchProblem, Problem, steady

BEST_SLACK, LAST_SLACK = 0.01, 0.02
"""How much weaker a stronger setting may look: best iterates, last iterates (docs/specs/attacks.md, T3)."""
ZERO_ALARM, ZERO_INVALID = 0.01, 0.5
"""Share of exactly zero gradient elements that is suspicious, and that makes results invalid (T6)."""
BY_CHANCE_ONE_IN = 20
"""The F1 that boxes set by chance would hardly reach, as one over this."""
VANISHING = 1e-8
"""A gradient of the summed loss below this everywhere is lost in half precision and in Adam's constant (P1, P3)."""


@dataclass(frozen=True)
class Finding:
    """Something that casts doubt on a robustness figure.

    Attributes:
        code: short, stable name of the check.
        severity: "warning", or "error" where figures of this model cannot be trusted.
        sentence: what was seen.
        figures: the numbers behind it, JSON-able.
    """

    code: str
    severity: str
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What the checks are judged by: accuracies in [0, 1] over the batch, and shares of gradient elements.

    Accuracy is that of pixels; for a detector the mean F1 of the images.

    Attributes:
        classes: K; one over it is what chance reaches (BY_CHANCE_ONE_IN for a detector).
        clean: accuracy without an attack.
        attack: of the iterative attack at epsilon with T steps; best iterates. last: its last iterates.
        single_step: FGSM at epsilon.
        larger_epsilon: the iterative attack at twice epsilon. more_steps: with twice the steps. Last iterates.
        whole_box: with epsilon 1 and many steps, or None when not measured. Best iterates.
        noise: the strongest of several uniform noises of size epsilon, per image.
        transfer: images made against another model, or None when there is none.
        zero_gradient: share of exactly zero elements of the gradient at the clean images.
        tiny_gradient: share of images whose largest gradient element is below VANISHING.
    """

    classes: int
    clean: float
    attack: float
    last: float
    single_step: float
    larger_epsilon: float
    more_steps: float
    whole_box: float | None
    noise: float
    transfer: float | None
    zero_gradient: float
    tiny_gradient: float


def check_attack(
    model: Any,
    images: torch.Tensor,
    labels: torch.Tensor | Sequence[Boxes],
    *,
    epsilon: Number = "8/255",
    steps: int = 20,
    norm: str = "linf",
    other_model: Any = None,
    noises: int = 20,
    whole_box_steps: int = 100,
    ignore_index: int | str | None = MODEL_IGNORE_INDEX,
    seed: int = 0,
) -> list[Finding]:
    """Attacks a model in several ways and reports what a model with a useful gradient would not show.

    Args:
        model: any model that attacks take; a detector is judged by the mean F1 of its images in place of accuracy.
        images, labels: a few images are enough; for a detector boxes.
        epsilon, steps, norm: of the attack that is checked.
        other_model: a model to transfer attacks from, or None to leave that check out.
        noises: random noises to compare with.
        whole_box_steps: steps of the attack without a bound, 0 to leave it out; 100 or more are meaningful.
        ignore_index: as for attacks.
        seed: of the random noise.

    Returns:
        Findings, empty when nothing is suspicious.
    """
    return judge(
        measure(
            model,
            images,
            labels,
            epsilon=epsilon,
            steps=steps,
            norm=norm,
            other_model=other_model,
            noises=noises,
            whole_box_steps=whole_box_steps,
            ignore_index=ignore_index,
            seed=seed,
        )
    )


def measure(
    model: Any,
    images: torch.Tensor,
    labels: torch.Tensor | Sequence[Boxes],
    *,
    epsilon: Number = "8/255",
    steps: int = 20,
    norm: str = "linf",
    other_model: Any = None,
    noises: int = 20,
    whole_box_steps: int = 100,
    ignore_index: int | str | None = MODEL_IGNORE_INDEX,
    seed: int = 0,
) -> Measured:
    """The figures behind `check_attack`; arguments as there."""
    size = radius(epsilon, norm)
    whole(steps, "steps", 1)
    whole(noises, "noises", 1)
    whole(whole_box_steps, "whole_box_steps", 0)
    if other_model is not None:
        other_model, _, _ = bridge(other_model, images, labels)
    model, images, labels = bridge(model, images, labels)
    problem = pose_task(model, images, labels, ignore_index=ignore_index)
    if int(problem.counts.sum()) == 0:
        raise GauntletError("the images have no labelled pixel; give some with labels.")

    def attacked(against: Any, attack: GradientAttack) -> float:
        return _accuracy(problem, attack(against, images, labels).images)

    def iterative(radius_: float, count: int, returns: str) -> GradientAttack:
        step = 2.5 * radius_ / count or 1.0
        return GradientAttack(
            name="bim",
            epsilon=radius_,
            alpha=step,
            steps=count,
            norm=norm,
            returns=returns,
            ignore_index=ignore_index,
        )

    classes = BY_CHANCE_ONE_IN
    if isinstance(problem, Problem):
        with steady(model, images.device, 0):
            classes = problem.look(images).logits.shape[1]
    double = min(2 * size, 1.0) if norm == "linf" else 2 * size
    zero, tiny = _gradients(problem)
    whole_box = None
    if whole_box_steps:
        everything = 1.0 if norm == "linf" else float(images[0].numel()) ** 0.5
        whole_box = attacked(model, iterative(everything, whole_box_steps, "best"))
    strong = iterative(size, steps, "best")
    single = SingleStep(name="fgsm", epsilon=size, norm=norm, ignore_index=ignore_index)
    return Measured(
        classes=classes,
        clean=_accuracy(problem, images),
        attack=attacked(model, strong),
        last=attacked(model, iterative(size, steps, "last")),
        single_step=attacked(model, single),
        larger_epsilon=attacked(model, iterative(double, steps, "last")),
        more_steps=attacked(model, iterative(size, 2 * steps, "last")),
        whole_box=whole_box,
        noise=_strongest_noise(problem, size, norm, noises, seed),
        transfer=None if other_model is None else attacked(other_model, strong),
        zero_gradient=zero,
        tiny_gradient=tiny,
    )


def judge(measured: Measured) -> list[Finding]:
    """What is suspicious about some figures; thresholds from docs/specs/attacks.md, T3 to T6."""
    findings: list[Finding] = []

    def note(code: str, severity: str, sentence: str, **figures: Any) -> None:
        findings.append(Finding(code, severity, sentence, figures))

    if measured.zero_gradient > ZERO_ALARM:
        invalid = measured.zero_gradient > ZERO_INVALID
        note(
            "zero-gradient",
            "error" if invalid else "warning",
            f"{measured.zero_gradient:.1%} of the gradient's elements are exactly zero: attacks cannot move these "
            + ("and their figures are invalid." if invalid else "pixels."),
            zero_gradient=measured.zero_gradient,
        )
    if measured.tiny_gradient > 0:
        note(
            "vanishing-gradient",
            "error" if measured.tiny_gradient > ZERO_INVALID else "warning",
            f"the gradient of {measured.tiny_gradient:.1%} of the images is below {VANISHING:g} everywhere: the "
            "softmax is saturated; use losses on logits, targeted or transferred attacks.",
            tiny_gradient=measured.tiny_gradient,
        )
    for code, name, stronger in (
        ("larger-epsilon-weaker", "twice the epsilon", measured.larger_epsilon),
        ("more-steps-weaker", "twice the steps", measured.more_steps),
    ):
        if stronger > measured.last + LAST_SLACK:
            note(
                code,
                "warning",
                f"an attack with {name} is weaker: accuracy {stronger:.3f} against {measured.last:.3f}.",
                attack=measured.last,
                stronger=stronger,
            )
    if measured.single_step < measured.attack - BEST_SLACK:
        note(
            "iterative-weaker",
            "error",
            f"the iterative attack leaves accuracy {measured.attack:.3f}, a single step only "
            f"{measured.single_step:.3f}: the gradient misleads.",
            attack=measured.attack,
            single_step=measured.single_step,
        )
    if measured.transfer is not None and measured.transfer < measured.attack - BEST_SLACK:
        note(
            "transfer-stronger",
            "error",
            f"images made against another model leave accuracy {measured.transfer:.3f}, those made against the model "
            f"itself {measured.attack:.3f}: the model hides its gradient.",
            attack=measured.attack,
            transfer=measured.transfer,
        )
    if measured.noise <= measured.attack and measured.attack > 0:
        note(
            "noise-as-strong",
            "error",
            f"random noise leaves accuracy {measured.noise:.3f}, the attack {measured.attack:.3f}: the attack does "
            "nothing.",
            attack=measured.attack,
            noise=measured.noise,
            clean=measured.clean,
        )
    if measured.whole_box is not None and measured.whole_box > 1 / measured.classes:
        note(
            "whole-box-survives",
            "error",
            f"without any bound the attack leaves accuracy {measured.whole_box:.3f}, above chance "
            f"({1 / measured.classes:.3f}): the gradient is masked.",
            whole_box=measured.whole_box,
            chance=1 / measured.classes,
        )
    return findings


def _accuracy(problem: BatchProblem, images: torch.Tensor) -> float:
    with steady(problem.model, images.device, 0):
        fooled = problem.won(images)
    return 1 - int(fooled.sum()) / int(problem.counts.sum())


def _gradients(problem: BatchProblem) -> tuple[float, float]:
    rows = torch.nonzero(problem.counts > 0).flatten()
    part = problem.select(rows)
    with steady(problem.model, problem.images.device, 0):
        gradient = part.evaluate(part.images, losses["ce"], 0.0).gradient
    zero = float((gradient == 0).double().mean())
    tiny = float((gradient.abs().flatten(1).amax(1) < VANISHING).double().mean())
    return zero, tiny


def _strongest_noise(problem: BatchProblem, size: float, norm: str, noises: int, seed: int) -> float:
    """Accuracy under the strongest of several uniform noises, chosen per image."""
    sizes = torch.full((len(problem),), size, dtype=torch.float64, device=problem.images.device)
    allowed = ball(norm, problem.images, sizes, None)
    most = torch.zeros_like(problem.counts)
    seeds = expand_seeds(seed, len(problem))
    for draw in range(noises):
        noise = uniform_draws(problem.images, seeds, f"noise|{draw}")
        points = allowed.finish(allowed.project(allowed.noise(noise, False)))
        with steady(problem.model, points.device, 0):
            most = torch.maximum(most, problem.won(points))
    return 1 - int(most.sum()) / int(problem.counts.sum())
