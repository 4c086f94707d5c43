"""One spelling for the spellings of a benchmark triple: architecture, backbone and dataset."""

from __future__ import annotations

import re

_SIZES = {
    "tiny": "t",
    "small": "s",
    "base": "b",
    "large": "l",
    "huge": "h",
    "xlarge": "xl",
    "extra large": "xl",
    "extra-large": "xl",
}
_DATASETS = {
    "voc2012": "voc",
    "voc12aug": "voc",
    "pascalvoc": "voc",
    "pascalvoc2012": "voc",
    "voc2007": "voc0712",
    "ade": "ade20k",
}


def canonical_architecture(name: str) -> str:
    """A spelling that ignores case and separators: "DeepLabV3+" and "deeplabv3plus" are one.

    >>> canonical_architecture("Libra R-CNN") == canonical_architecture("libra_rcnn")
    True
    """
    return _letters(name.replace("+", "plus"))


def canonical_backbone(name: str) -> str:
    """A spelling that ignores case, separators, the neck and long sizes: "ResNet101" is "R-101-FPN".

    "InterImage" is how SemSegBench's paper prints InternImage.

    >>> canonical_backbone("InterImage-Tiny"), canonical_backbone("ResNet50"), canonical_backbone("R-50-FPN")
    ('internimaget', 'r50', 'r50')
    """
    text = name.lower().strip()
    sizes = "|".join(sorted(_SIZES, key=len, reverse=True))
    text = re.sub(rf"(?<=[-_ ])({sizes})$", lambda match: _SIZES[match[1]], text)
    text = re.sub(r"fpn$", "", _letters(text))
    text = re.sub(r"^interimage", "internimage", text)
    text = re.sub(r"^resne(?:t|(x)t)(?=\d)", lambda match: match[1] or "r", text)
    return "custom" if text == "unetconvolutions" else text


def canonical_dataset(name: str) -> str:
    """The name of a dataset in the tables of the benchmarks: "VOC2012" is "voc"."""
    text = _letters(name)
    return _DATASETS.get(text, text)


def canonical_crop_size(size: str) -> str:
    """HEIGHTxWIDTH: "(512, 1024)" is "512x1024"."""
    return re.sub(r"[\s()]+", "", size.lower()).replace(",", "x")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
