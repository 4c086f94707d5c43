"""The eleven CamVid classes in CamVid's order, void, and the classes that come with boxes."""

from __future__ import annotations

from gauntlet.camvid_classes import CLASS_NAMES, COLORS

__all__ = ["BOX_CLASSES", "BOX_CLASS_NAMES", "CLASS_NAMES", "COLORS"]

SKY, BUILDING, POLE, ROAD, PAVEMENT, TREE, SIGN, FENCE, CAR, PEDESTRIAN, BICYCLIST, VOID = range(12)

BOX_CLASSES = (CAR, PEDESTRIAN, BICYCLIST, SIGN)
BOX_CLASS_NAMES = tuple(CLASS_NAMES[label] for label in BOX_CLASSES)
