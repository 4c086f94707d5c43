"""Datasets by name: the embedded streets, public datasets in their own layouts, folders of one's own."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gauntlet.datasets.contract import Dataset, DatasetIdentity, Subset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.registry import Registry, callable_as

if TYPE_CHECKING:
    from gauntlet.datasets.protocols import Protocol

__all__ = ["Dataset", "DatasetIdentity", "Subset", "datasets", "load_dataset", "names"]

DATA_VARIABLE = "GAUNTLET_DATA"
"""The environment variable with the folder that holds a sub-folder per dataset."""

Factory = Callable[..., Dataset]

datasets: Registry[Factory] = Registry(
    "dataset",
    "gauntlet.datasets",
    check=callable_as(
        "a class derived from Dataset, or a function that takes options by keyword and returns a Dataset"
    ),
)
"""Dataset classes, or functions that make a dataset, by name."""

for _name, _target, _aliases in (
    ("streets", "streets:Streets", ()),
    ("cityscapes", "cityscapes:Cityscapes", ()),
    ("acdc", "acdc:ACDC", ()),
    ("bdd100k", "bdd100k:BDD100K", ()),
    ("camvid", "camvid:CamVid", ()),
    ("voc2012", "voc:VOCSegmentation", ("voc",)),
    ("ade20k", "ade20k:ADE20K", ()),
    ("coco", "coco:COCO", ()),
    ("lvis", "lvis:LVIS", ()),
    ("voc2007", "voc:VOC2007", ()),
    ("voc2012-detection", "voc:VOC2012Detection", ()),
    ("folder", "folder:Folder", ()),
    ("hf", "hf:HuggingFace", ()),
):
    datasets.add(_name, f"{__name__}.{_target}", aliases=_aliases)


def names() -> list[str]:
    """Every dataset that `load_dataset` knows."""
    return datasets.names()


def load_dataset(
    name: str,
    *,
    split: str | None = None,
    root: str | Path | None = None,
    limit: int | None = None,
    spread: bool = False,
    protocol: Protocol | Mapping[str, Any] | str | None = None,
    depth: Mapping[str, Any] | str | None = None,
    trust_data: bool = False,
    **options: Any,
) -> Dataset:
    """A dataset by name.

    Args:
        name: one of `names()`; "NAME:ROOT" is short for root=ROOT ("folder:photos", "hf:owner/name").
        split: which part; the dataset's evaluation split by default.
        root: where the data is; by default the folder of the same name in $GAUNTLET_DATA.
        limit: only the first so many samples.
        spread: take them at equal distances instead: neighbours in a list of video frames are alike.
        protocol: how images are resized and cropped, as a name, a mapping or a text (`gauntlet.datasets.protocols`
            lists them); full size by default.
        depth: where depth comes from for a dataset that has none: {"folder": PATH, "scale": METRES PER UNIT},
            "disparity" (Cityscapes) or "hf:MODEL"; see `gauntlet.datasets.depth_maps`.
        trust_data: do not read the contents of the files to identify them; results say so.
        options: what else the dataset takes (condition="fog" for acdc, convert=True for greyscale images, ...).
    """
    if spread and limit is None:
        raise GauntletError(f"the dataset '{name}' is spread without a limit; say how many images to take.")
    asked = name
    name, _, inline_root = name.partition(":")
    if inline_root and root is not None:
        raise GauntletError(f"the root of the dataset '{name}' is given twice: '{inline_root}' and '{root}'.")
    factory = datasets[name]
    arguments = dict(options)
    if split is not None:
        arguments["split"] = split
    accepted = _accepted(factory)
    if "root" in accepted:
        arguments["root"] = inline_root or root or _default_root(datasets.canonical(name), factory)
    elif inline_root or root is not None:
        raise GauntletError(f"the dataset '{name}' comes without files; leave out the root '{inline_root or root}'.")
    for option in arguments:
        if option not in accepted:
            raise unknown_name(f"option of the dataset '{name}'", option, accepted)
    dataset = factory(**arguments)
    if not isinstance(dataset, Dataset):
        raise GauntletError(f"the dataset '{name}' is a function that returned a {type(dataset).__name__}, no Dataset.")
    dataset.trusted = trust_data
    if depth is not None:
        from gauntlet.datasets.depth_maps import with_depth

        dataset = with_depth(dataset, depth, arguments.get("root"))
        options = {**options, "depth": depth}
    if protocol is not None:
        from gauntlet.datasets.protocols import Resized, as_protocol

        chosen = as_protocol(protocol)
        dataset = Resized(dataset, chosen) if chosen.describe() else dataset
        protocol = protocol if isinstance(protocol, str) else chosen.describe()
    place = None if inline_root or "root" not in arguments else str(arguments["root"])
    dataset.origin = {"name": asked, "split": split, "root": place, "protocol": protocol, "options": options}
    if trust_data:
        dataset.origin = {**dataset.origin, "trust_data": True}
    return dataset if limit is None else dataset.subset(limit, spread=spread)


def _accepted(factory: Factory) -> list[str]:
    return list(inspect.signature(factory).parameters)


def _default_root(name: str, factory: Factory) -> Path:
    folder = getattr(factory, "folder", None) or name
    base = os.environ.get(DATA_VARIABLE)
    root = Path(base).expanduser() / folder if base else None
    if root is None or not root.is_dir():
        state = f"'{root}' is not a folder" if root is not None else f"{DATA_VARIABLE} is not set"
        raise GauntletError(
            f"where is the dataset '{name}'? Give its folder as root, or set {DATA_VARIABLE} to a folder that holds "
            f"'{folder}'; {state}."
        )
    return root
