"""DAG on a detector: proposals of the clean image are led to classes that it lacks (docs/specs/attacks.md, 15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.overlap import box_iou
from gauntlet.models.architectures.geometry import iou
from gauntlet.models.contract import Candidates
from gauntlet.samples import Boxes
from gauntlet.seeding import numpy_generator

MOST = 3000
SUPPRESSION = 0.9
SURE, SURE_SUPPRESSION = 0.8, 0.35
"""Of the strong rule: how likely the wanted class must be where a proposal beats its neighbours, and who those are."""
NEAR, LIKELY = 0.1, 0.1
"""A proposal is selected that overlaps an object by more than NEAR and gives its class more than LIKELY. A proposal
without a class above LIKELY says "background" (ours: the contract's candidates have no logit for it)."""
MOVED = 0.5
"""A candidate that overlaps its clean box by less has another place in the list now: the nearest one is taken."""
NO_CLASS = -1


@dataclass(frozen=True)
class Proposals:
    """The selected proposals of one image.

    Attributes:
        places: (P,) positions among the candidates of the clean image.
        boxes: (P, 4) their corners there.
        true: (P,) class of the object that each belongs to.
        wanted: (P,) class that it is led to; NO_CLASS with a single class, where only the true one is driven down.
    """

    places: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float64]
    true: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)

    def now_at(self, boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
        """Where the proposals are among the candidates of a perturbed image, whose boxes are (Q, 4).

        Locations and queries keep their place; the proposals of a two-stage detector are sorted anew.
        """
        places = np.minimum(self.places, len(boxes) - 1)
        overlap = iou(torch.from_numpy(self.boxes), torch.from_numpy(boxes[places]).double())
        moved = np.nonzero(overlap.numpy() < MOVED)[0]
        if len(moved):
            places[moved] = box_iou(self.boxes[moved], boxes).argmax(1)
        return places

    def unsure(self, there: npt.NDArray[np.bool_], logits: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Positions of those that say their wanted class and beat their neighbours, but are not sure of it.

        Args:
            there: (P,) who says the wanted class. logits: (P,) of the class that each says.
        """
        places = np.nonzero(there)[0]
        best = places[suppressed(self.boxes[places], logits[places], SURE_SUPPRESSION)]
        return np.asarray(best[sigmoid(logits[best]) < SURE])


def select_proposals(
    candidates: Candidates,
    truth: Sequence[Boxes],
    present: Sequence[npt.NDArray[np.int64]],
    seeds: Sequence[int],
    wanted: Sequence[Boxes] | None = None,
) -> list[Proposals]:
    """The proposals of every image that DAG works on, with the classes they are led to.

    Args:
        candidates: of the clean images.
        truth: their objects that are aimed at.
        present: the classes that each image has, those of other objects among them: no proposal is led to one of these.
        seeds: one per image, for the permutation of classes.
        wanted: the same objects with the classes they are to get, in place of that permutation.
    """
    selected = []
    for row, objects in enumerate(truth):
        scores = candidates.scores[row].cpu().double().numpy()
        if wanted is None:
            aims = other_classes(np.unique(present[row]), scores.shape[1], seeds[row])[objects.classes]
        elif np.array_equal(wanted[row].xyxy, objects.xyxy):
            aims = wanted[row].classes
        else:
            raise GauntletError("a target of dag gives one class per object; targets with boxes of their own do not.")
        boxes = candidates.boxes[row].cpu().double().numpy()
        selected.append(_select(scores, boxes, candidates.objectness[row].cpu().double().numpy(), objects, aims))
    return selected


def _select(
    scores: npt.NDArray[np.float64],
    boxes: npt.NDArray[np.float64],
    objectness: npt.NDArray[np.float64],
    truth: Boxes,
    aims: npt.NDArray[np.int64],
) -> Proposals:
    if len(truth) == 0:
        nothing = np.zeros(0, np.int64)
        return Proposals(nothing, np.zeros((0, 4)), nothing, nothing)
    places = suppressed(boxes, objectness, SUPPRESSION)[:MOST]
    overlap = box_iou(boxes[places], truth.xyxy)
    likely = sigmoid(scores[places][:, truth.classes]) > LIKELY
    fitting = np.where((overlap > NEAR) & likely, overlap, 0)
    nearest = fitting.argmax(1)
    chosen = fitting[np.arange(len(places)), nearest] > 0
    places, belongs = places[chosen], nearest[chosen]
    return Proposals(places, boxes[places], truth.classes[belongs], aims[belongs])


def suppressed(boxes: npt.NDArray[np.float64], scores: npt.NDArray[np.floating], most: float) -> npt.NDArray[np.int64]:
    """Of the 2 MOST best boxes those that overlap no better one that stays by more than `most`, best first."""
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])][: 2 * MOST]
    alive = np.ones(len(order), np.bool_)
    for place in range(len(order)):
        if alive[place]:
            rest = place + 1 + np.nonzero(alive[place + 1 :])[0]
            alive[rest] = box_iou(boxes[order[place]][None], boxes[order[rest]])[0] <= most
    return np.asarray(order[alive], np.int64)


def other_classes(present: npt.NDArray[np.int64], classes: int, seed: int) -> npt.NDArray[np.int64]:
    """Where each class is led to, int64 (K,): those present to absent ones, drawn at random, no two to the same.

    With too few absent classes they are used again; where every class is present each goes to another present one.
    """
    generator = numpy_generator(seed)
    absent = np.setdiff1d(np.arange(classes), present)
    goes = np.full(classes, NO_CLASS, np.int64)
    if len(absent):
        drawn = generator.permutation(absent)
        goes[present] = drawn[np.arange(len(present)) % len(drawn)]
    elif classes > 1:
        drawn = generator.permutation(present)
        goes[drawn] = np.roll(drawn, 1)
    return goes


def sigmoid(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probability behind a logit."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -500, 500))))


@dataclass
class Pursuit:
    """DAG's loss on the selected proposals of some images.

    Attributes:
        proposals: of every image.
        strong: whether a proposal that says its wanted class without being sure of it still counts as saying its true
            one: of those that say the wanted class, suppressed among each other at SURE_SUPPRESSION, those that stay
            must give it a probability of at least SURE (Xie's code; what they suppress may be less sure).
        first: whether every selected proposal takes part, as it does at the first step.
        won: int64 (N,), proposals that no longer say their true class at the last call.
    """

    proposals: list[Proposals]
    strong: bool = False
    first: bool = True
    won: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    @property
    def selected(self) -> torch.Tensor:
        """Number of selected proposals per image, int64 (N,)."""
        return torch.tensor([len(each) for each in self.proposals], dtype=torch.int64)

    def select(self, rows: torch.Tensor) -> Pursuit:
        """The loss for some of the images."""
        return Pursuit([self.proposals[row] for row in rows.tolist()], self.strong, self.first)

    def __call__(self, candidates: Candidates) -> torch.Tensor:
        """Σ s_wanted - s_true over the proposals that say neither the wanted class nor background, (N,)."""
        values = []
        won = torch.zeros(len(self.proposals), dtype=torch.int64)
        for row, proposals in enumerate(self.proposals):
            scores = candidates.scores[row]
            places = torch.from_numpy(proposals.now_at(candidates.boxes[row].detach().cpu().double().numpy()))
            scores = scores[places.to(scores.device)]
            true = torch.from_numpy(proposals.true).to(scores.device)
            wanted = torch.from_numpy(proposals.wanted).to(scores.device)
            top, said = scores.detach().max(1)
            background = top.sigmoid() <= LIKELY
            if self.strong:
                there = ((said == wanted) & ~background).cpu().numpy()
                unsure = torch.from_numpy(proposals.unsure(there, top.cpu().double().numpy())).to(said.device)
                said[unsure] = true[unsure]
            won[row] = int(((said != true) | background).sum())
            active = ((said != wanted) & ~background) | self.first
            rising = torch.where(wanted >= 0, scores.gather(1, wanted.clamp_min(0)[:, None])[:, 0], 0)
            falling = scores.gather(1, true[:, None])[:, 0]
            values.append(((rising - falling) * active).sum())
        self.won = won
        return torch.stack(values)
