"""What is to be evaluated: one threat, or each member of a family that the published benchmarks have a name for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.results.families import combine
from gauntlet.results.record import Evaluation
from gauntlet.threats import build_threat, build_threats
from gauntlet.threats.build import ThreatLike, read_content
from gauntlet.threats.compat import semsegbench
from gauntlet.threats.contract import Clean, Threat
from gauntlet.threats.kinds.corruption import CorruptionThreat

ACDC = "acdc"


@dataclass(frozen=True)
class Case:
    """A threat on the dataset, or real weather: clean images of a condition of ACDC.

    Attributes:
        name: tells it apart from the others of its family.
        threat: what happens to the images.
        condition: of ACDC, whose images then take the place of the dataset's; None for the dataset itself.
    """

    name: str
    threat: Threat
    condition: str | None = None

    def published(self) -> tuple[str, Mapping[str, Any]]:
        """Name and description under which published figures have it."""
        if self.condition is None:
            return self.threat.name, self.threat.describe()
        return f"{ACDC} {self.condition}", {"weather": {"dataset": ACDC, "condition": self.condition}}

    def weather(self, root: str | Path | None, protocol: Any, limit: int | None) -> Dataset:
        """The images of its condition, in the protocol and with the limit of the dataset that they stand in for."""
        return load_dataset(ACDC, root=root, protocol=protocol, limit=limit, condition=self.condition)


@dataclass(frozen=True)
class Cases:
    """One case, or those of a family with its name."""

    cases: Sequence[Case]
    family: str | None = None

    def result(self, evaluations: Sequence[Evaluation]) -> Evaluation:
        """The evaluation of the one case, or of the family."""
        if self.family is None:
            return evaluations[0]
        return combine(self.family, {case.name: each for case, each in zip(self.cases, evaluations, strict=True)})


def find_cases(value: ThreatLike) -> Cases:
    """The cases that a threat, a description, a name or a file stands for; a sweep is refused.

    Args:
        value: as for `build_threat`; also a file of the benchmarks with a family of corruptions or ACDC.
    """
    if isinstance(value, Threat):
        return Cases([Case(value.name, value)])
    content = read_content(value)
    name = semsegbench.family_name(semsegbench.read_options(content)["threat_model"]) if _is_file(content) else None
    if name is None:
        threat = build_threat(content if _is_file(content) else value)
        return Cases([Case(threat.name, threat)])
    if name == "ACDC":
        conditions = semsegbench.chosen_conditions(content)
        return Cases([Case(each, Clean(), each) for each in conditions], name)
    return corruption_family(name, build_threats(content))


def corruption_family(name: str, threats: Sequence[Threat]) -> Cases:
    """The cases of a family of corruptions, called by the corruption."""
    cases = [Case(each.options.name if isinstance(each, CorruptionThreat) else each.name, each) for each in threats]
    if len({case.name for case in cases}) < len(cases):
        raise GauntletError(f"the family '{name}' has a corruption twice.")
    return Cases(cases, name)


def _is_file(content: Mapping[str, Any]) -> bool:
    return semsegbench.is_semsegbench(content)
