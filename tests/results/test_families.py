"""A family of threats as one evaluation: what its mean, its minimum and its flags say of all members."""

from __future__ import annotations

import math

from gauntlet.metrics import Figure
from gauntlet.results.families import combine
from gauntlet.results.record import Evaluation


def member(threat: str, provenance: dict[str, object] | None = None, **figures: float) -> Evaluation:
    return Evaluation(
        key=threat,
        task="segmentation",
        model="m",
        model_digest="",
        dataset="d",
        split="val",
        threat=threat,
        kind="corruption",
        description={"corruption": {"name": threat, "severity": 3}},
        seed=0,
        images=1,
        views=("all",),
        all_figures=[Figure(name, value) for name, value in figures.items()],
        provenance=provenance or {},
        duration=1.0,
        created="",
    )


def test_mean_and_minimum_need_a_figure_of_every_member() -> None:
    family = combine("2D", {"fog": member("fog", mIoU=0.5, aAcc=0.5), "snow": member("snow", mIoU=math.nan, aAcc=0.25)})
    assert math.isnan(family.figures["mIoU"])
    assert math.isnan(family.minimum["mIoU"])
    assert (family.figures["aAcc"], family.minimum["aAcc"]) == (0.375, 0.25)


def test_the_flags_of_any_member_are_flags_of_the_family() -> None:
    members = {"fog": member("fog", {"device": "cpu"}), "snow": member("snow", {"device": "cpu", "flags": ["odd run"]})}
    assert combine("2D", members).provenance == {"device": "cpu", "flags": ["odd run"]}
    assert combine("2D", {"fog": members["fog"]}).provenance == {"device": "cpu"}
