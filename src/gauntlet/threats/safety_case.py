"""The kinds of threats that a safety reviewer asks about: what the suite `full` runs, and what a store lacks.

One list serves both: a kind that is added to `KINDS` is run by `full`, and missed by the report where it was not run or
only too weakly to answer its question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS
from gauntlet.threats.corruptions import C_BAR, COMMON, COMMON_3D, registry
from gauntlet.threats.suites import L2, LINF, Description, aims_at_boxes, localized, rounds_in_square

BLACK_BOX = ("square", "label-only")
"""Attacks that only ask the model."""
FAMILIES = ("noise", "blur", "weather", "digital")
"""Of common corruptions."""

LEAST_STEPS, LEAST_QUERIES, LEAST_SEVERITY, LEAST_VIEWS = 10, 200, 3, 10
LEAST_RADIUS = {"linf": 2 / 255, "l2": 32 / 255}
"""An attack of fewer steps or queries, or of a smaller radius, and a milder corruption say nothing about their kind."""
_ROUNDING = 1e-9

Covers = Callable[[str, Mapping[str, Any]], bool]
"""Whether a description, given as its kind and its options, is of a kind."""


def _kind(name: str) -> Covers:
    """A kind of description; what is run as a control of it answers no question."""
    return lambda kind, options: (
        kind == name and not options.get("control") and options.get("content", "fitted") == "fitted"
    )


def _always(kind: str, options: Mapping[str, Any]) -> bool:
    return True


def _strong_attack(options: Mapping[str, Any]) -> bool:
    """Enough steps or queries, and room to move; an attack without a radius or number of its own decides by itself."""
    effort, least = options.get("steps"), LEAST_STEPS
    if options.get("name") in BLACK_BOX:
        effort, least = options.get("queries"), LEAST_QUERIES
    epsilon = options.get("epsilon")
    radius = LEAST_RADIUS.get(str(options.get("norm")), 0.0)
    return (effort is None or effort >= least) and (epsilon is None or epsilon >= radius - _ROUNDING)


def _whole_image(options: Mapping[str, Any]) -> bool:
    return options.get("region") is None and options.get("fooling_region") is None


def _white_box(norm: str) -> Covers:
    return lambda kind, options: (
        kind == "attack"
        and options.get("name") not in BLACK_BOX
        and options.get("norm") == norm
        and options.get("target") is None
        and _whole_image(options)
    )


def _black_box(kind: str, options: Mapping[str, Any]) -> bool:
    return kind == "attack" and options.get("name") in BLACK_BOX and _whole_image(options)


def _in_a_region(kind: str, options: Mapping[str, Any]) -> bool:
    return kind == "region_aware" or (kind == "attack" and options.get("region") is not None)


def _strong(kind: str, options: Mapping[str, Any]) -> bool:
    """An attack, or a threat that is made of attacks, of which enough are strong: two of a battery, else all."""
    if kind == "attack":
        return _strong_attack(options)
    if kind == "battery":
        members = options.get("members")
        return members is None or sum(map(_strong_attack, members.values())) > 1
    inner = options.get("attack")
    return not isinstance(inner, Mapping) or _strong_attack(inner)


def _severe(kind: str, options: Mapping[str, Any]) -> bool:
    corruption = options.get("corruption", options)
    return int(corruption.get("severity", LEAST_SEVERITY)) >= LEAST_SEVERITY


def _corrupted(*groups: str) -> Covers:
    """Corruptions of the whole image of some groups of the catalogue."""

    def covers(kind: str, options: Mapping[str, Any]) -> bool:
        name = options.get("name")
        return kind == "corruption" and name in registry and registry[str(name)].group in groups

    return covers


class Run(NamedTuple):
    """What was run of a kind.

    Attributes:
        enough: threats that are strong enough.
        weak: those that are not.
        missing: parts of the kind that nothing strong enough was run of.
    """

    enough: int
    weak: int
    missing: Sequence[str]

    @property
    def covered(self) -> bool:
        """The question was asked."""
        return self.enough > 0 and not self.missing

    @property
    def words(self) -> str:
        """For the cell of a table."""
        if self.enough:
            return f"{self.enough}, without {', '.join(self.missing)}" if self.missing else str(self.enough)
        return f"{self.weak}, too weak" if self.weak else "not run"


@dataclass(frozen=True)
class KindOfThreat:
    """One kind.

    Attributes:
        name: in the plural, as a reader knows it.
        question: what a reviewer wants to know.
        is_one: which stored threats are of it.
        threats: what `full` runs of it.
        on_detectors: the same on detectors; None for those of `threats` that can be used on them.
        how: what to run where `full` runs nothing: it needs something of the user's own.
        tasks: whose models it concerns.
        strong: which of them are strong enough to answer the question.
        least: what that takes, in words.
        parts: what has to be there of each; one part where any will do.
    """

    name: str
    question: str
    is_one: Covers
    threats: tuple[Description, ...] = ()
    on_detectors: tuple[Description, ...] | None = None
    how: str = ""
    tasks: tuple[str, ...] = tuple(TASKS)
    strong: Covers = _always
    least: str = ""
    parts: Mapping[str, Covers] = field(default_factory=dict)

    def covers(self, kind: str, options: Mapping[str, Any]) -> bool:
        """True if a description (its kind and options) is of this kind and strong enough to answer the question."""
        return self.is_one(kind, options) and self.strong(kind, options)

    def run(self, described: Sequence[tuple[str, Mapping[str, Any]]]) -> Run:
        """What was run of it, among stored descriptions given as kind and options."""
        of_kind = [each for each in described if self.is_one(*each)]
        enough = [each for each in of_kind if self.covers(*each)]
        missing = [name for name, part in self.parts.items() if not any(part(*each) for each in enough)]
        return Run(len(enough), len(of_kind) - len(enough), missing if enough else [])

    def of_task(self, task: str) -> list[Description]:
        """What `full` runs of it on models of a task."""
        if task != DETECTION:
            return list(self.threats)
        return list(filter(aims_at_boxes, self.threats)) if self.on_detectors is None else list(self.on_detectors)

    @property
    def remedy(self) -> str:
        """What to run so that it is no longer missing."""
        return self.how or "gauntlet run --suite full"


def _attacks(options: Mapping[str, Any], *names: str) -> tuple[Description, ...]:
    return tuple({"attack": {"name": name, **options}} for name in names)


def _corruptions(names: Iterable[str]) -> tuple[Description, ...]:
    return tuple({"corruption": {"name": name, "severity": 3}} for name in names)


def _moves(**severities: int) -> tuple[Description, ...]:
    return tuple({"geometric": {"name": name, "severity": severity}} for name, severity in severities.items())


KINDS: tuple[KindOfThreat, ...] = (
    KindOfThreat("clean images", "How good is it when nothing is wrong?", _kind("clean"), ({"clean": {}},)),
    KindOfThreat(
        "white-box attacks, linf",
        "What is left when an attacker knows the model and changes every pixel a little?",
        _white_box("linf"),
        _attacks(LINF, "pgd", "cospgd"),
        _attacks(LINF, "pgd", "bim"),
        strong=_strong,
        least=f"{LEAST_STEPS} steps, 2/255, without a target",
    ),
    KindOfThreat(
        "white-box attacks, l2",
        "And when the change is bounded as a whole?",
        _white_box("l2"),
        _attacks(L2, "pgd"),
        strong=_strong,
        least=f"{LEAST_STEPS} steps, 32/255, without a target",
    ),
    KindOfThreat(
        "batteries of attacks",
        "Is the worst of several attacks worse than each of them?",
        _kind("battery"),
        ({"battery": {"name": "gauntlet", "epsilon": "8/255"}},),
        ({"battery": {"name": "detectors", "epsilon": "8/255"}},),
        strong=_strong,
        least=f"two members of {LEAST_STEPS} steps, 2/255",
    ),
    KindOfThreat(
        "attacks without gradients",
        "Does it only look robust because its gradient is hidden?",
        _black_box,
        _attacks({"norm": "linf", "epsilon": "8/255"}, "square"),
        strong=_strong,
        least=f"{LEAST_QUERIES} queries, 2/255",
    ),
    KindOfThreat(
        "transferred attacks",
        "Do images made on another model break it?",
        _kind("transfer"),
        how="gauntlet run --threat '{transfer: {source_model: ANOTHER, attack: {name: pgd, epsilon: 8/255}}}'",
        strong=_strong,
        least=f"{LEAST_STEPS} steps, 2/255",
    ),
    KindOfThreat(
        "attacks in a region",
        "Can a part of the image break the prediction elsewhere?",
        _in_a_region,
        (rounds_in_square("quarter"),),
        strong=_strong,
        least=f"{LEAST_STEPS} steps, 2/255",
    ),
    KindOfThreat(
        "universal perturbations",
        "Is there one perturbation that breaks every image?",
        _kind("universal"),
        how="fit one with 'gauntlet universal fit', then gauntlet run --threat '{universal: {artifact: FILE}}'",
    ),
    KindOfThreat(
        "adversarial patches",
        "Can a printed patch break it?",
        _kind("patch"),
        how="fit one with 'gauntlet patch fit', then gauntlet run --threat '{patch: {artifact: FILE}}'",
    ),
    KindOfThreat(
        "common corruptions",
        "Does it bear noise, blur, weather and compression?",
        _corrupted(*FAMILIES),
        _corruptions(COMMON),
        strong=_severe,
        least=f"one of each family at severity {LEAST_SEVERITY}",
        parts={family: _corrupted(family) for family in FAMILIES},
    ),
    KindOfThreat(
        "corruptions in 3D",
        "And those that follow the depth of the scene?",
        _corrupted("3d"),
        _corruptions(COMMON_3D),
        how="gauntlet run --suite full, on a dataset with depth for six of the nine",
        strong=_severe,
        least=f"severity {LEAST_SEVERITY}",
    ),
    KindOfThreat(
        "corruptions of C-bar",
        "And corruptions that nobody trains against?",
        _corrupted("c-bar"),
        _corruptions(C_BAR),
        strong=_severe,
        least=f"severity {LEAST_SEVERITY}",
    ),
    KindOfThreat(
        "localized corruptions",
        "Does dirt on a part of the lens spoil the rest?",
        _kind("localized"),
        (localized("gaussian_noise"), localized("snow")),
        strong=_severe,
        least=f"severity {LEAST_SEVERITY}",
    ),
    KindOfThreat(
        "moves of the camera",
        "Does it bear another mounting, zoom, lens or calibration?",
        _kind("geometric"),
        _moves(rotation=3, translation=3, zoom_in=2, zoom_out=1, shear=3, barrel=3, pincushion=3, perspective=3),
    ),
    KindOfThreat(
        "the worst of many views",
        "And the worst mounting within a tolerance?",
        _kind("geometric_worst"),
        ({"geometric_worst": {"draws": 10}},),
        ({"geometric_worst": {"draws": 10, "degrees": 15}},),
        strong=lambda kind, options: options.get("draws") is None or options["draws"] >= LEAST_VIEWS,
        least=f"{LEAST_VIEWS} views",
    ),
    KindOfThreat(
        "real weather",
        "Does it bear fog, night, rain and snow as they are?",
        _kind("weather"),
        how="gauntlet run --dataset acdc --root FOLDER, for models of Cityscapes' classes",
        tasks=(SEGMENTATION,),
    ),
    KindOfThreat(
        "certificates",
        "What can no attack change, whatever it is?",
        _kind("certify"),
        how="gauntlet certify --model MODEL --sigma 0.25",
        tasks=(SEGMENTATION,),
    ),
)
"""Every kind, in the order in which they are run and listed."""


def kinds_of_task(task: str) -> list[KindOfThreat]:
    """The kinds that concern models of a task."""
    return [kind for kind in KINDS if task in kind.tasks]


def full() -> list[Description]:
    """One of each kind that a safety reviewer asks about and that needs nothing but the model and the images."""
    return [threat for kind in kinds_of_task(SEGMENTATION) for threat in kind.of_task(SEGMENTATION)]


def full_on_detectors() -> list[Description]:
    """The same on detectors."""
    return [threat for kind in kinds_of_task(DETECTION) for threat in kind.of_task(DETECTION)]
