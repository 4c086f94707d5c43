"""Depth for datasets that come without it: maps in a folder, Cityscapes' disparity, or a network that estimates it.

load_dataset("coco", root=..., depth={"folder": "depth/val2017", "scale": 0.001})     # 16-bit PNG in millimetres
load_dataset("cityscapes", root=..., depth="disparity")                              # disparity/ and camera/ beside it
load_dataset("coco", root=..., depth="hf:Intel/dpt-large")                           # needs the extra zoo

How depth was obtained is part of the dataset's identity.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contents import Told, file_digests, text_digest
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.images import read_indices
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.extras import install_command
from gauntlet.numbers import parse_number
from gauntlet.samples import Sample

Metres = npt.NDArray[np.float32]
"""Distance in metres, (H, W); inf where there is none."""

SUFFIXES = (".npy", ".png")
FARTHEST = 1e-3
"""The least inverse depth of an estimate, as a share of the largest: what an estimator calls infinitely far."""


class DepthSource(ABC):
    """Where the depth of a sample comes from."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON-able, part of the dataset's identity."""

    @abstractmethod
    def read(self, sample: Sample) -> Metres:
        """The depth of a sample, at the size of its map."""

    @abstractmethod
    def digests(self, ids: Sequence[str]) -> list[str]:
        """Digest of what the depth of every image is read or computed from."""


@dataclass(frozen=True)
class DepthFolder(DepthSource):
    """A map per image, named like it: 16-bit PNG or .npy.

    Attributes:
        folder: holds the maps; folders in the ids of images are folders here.
        scale: metres per unit of a map; 1 for maps in metres, 0.001 for millimetres. 0, negative numbers and NaN are
            pixels without depth, as is 65535 in a PNG.
        ids: of the images.
    """

    folder: Path
    scale: float
    ids: Sequence[str]

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise GauntletError(f"the folder of depth maps '{self.folder}' is not a folder.")
        if not self.scale > 0:
            raise GauntletError(f"the scale of depth maps must be above 0 (metres per unit), not {self.scale}.")
        for each in self.ids:
            self._file(each)

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for each in self.ids:
            file = self._file(each)
            state = file.stat()
            digest.update(f"{file.name}|{_content_digest(file, state.st_size, state.st_mtime_ns)}|".encode())
        return {"maps": digest.hexdigest()[:16], "scale": self.scale}

    def digests(self, ids: Sequence[str]) -> list[str]:
        return file_digests([self._file(each) for each in ids])

    def read(self, sample: Sample) -> Metres:
        file = self._file(sample.id)
        if file.suffix == ".npy":
            try:
                values = np.asarray(np.load(file, allow_pickle=False), np.float64)
            except (OSError, ValueError) as error:
                raise GauntletError(f"the depth map '{file}' cannot be read: {error}.") from None
        else:
            stored = read_indices(file)
            values = np.where(stored == np.iinfo(np.uint16).max, 0, stored).astype(np.float64)
        if values.ndim != 2:
            raise GauntletError(f"the depth map '{file}' must be (H, W), not {values.shape}.")
        with np.errstate(invalid="ignore"):
            return np.where(values > 0, values * self.scale, np.inf).astype(np.float32)

    def _file(self, image_id: str) -> Path:
        stem = Path(image_id)
        stems = (stem, stem.with_suffix("")) if stem.suffix in (".png", ".jpg", ".jpeg") else (stem,)
        names = [f"{each.as_posix()}{suffix}" for each in stems for suffix in SUFFIXES]
        for name in names:
            if (file := self.folder / name).is_file():
                return file
        raise GauntletError(
            f"there is no depth map of the image '{image_id}': '{self.folder}' has no {names[0]} or .png."
        )


@dataclass(frozen=True)
class CityscapesDisparity(DepthSource):
    """disparity/SPLIT/CITY/*_disparity.png and camera/SPLIT/CITY/*_camera.json of Cityscapes.

    A stored value p > 0 is the disparity (p - 1) / 256 in pixels, 0 is no measurement (the dataset's README); depth is
    baseline * fx / disparity.
    """

    root: Path
    split: str

    def describe(self) -> dict[str, Any]:
        return {"disparity": "cityscapes"}

    def digests(self, ids: Sequence[str]) -> list[str]:
        found = file_digests([file for each in ids for file in self._files(each)])
        return [text_digest(*found[start : start + 2]) for start in range(0, len(found), 2)]

    def _files(self, image_id: str) -> tuple[Path, Path]:
        """The disparity map and the camera of an image."""
        place = f"{self.split}/{image_id.partition('_')[0]}/{image_id}"
        return self._existing(f"disparity/{place}_disparity.png"), self._existing(f"camera/{place}_camera.json")

    def read(self, sample: Sample) -> Metres:
        disparities, camera = self._files(sample.id)
        stored = read_indices(disparities).astype(np.float64)
        try:
            facts = json.loads(camera.read_text(encoding="utf-8"))
            product = float(facts["extrinsic"]["baseline"]) * float(facts["intrinsic"]["fx"])
        except (OSError, ValueError, KeyError, TypeError):
            raise GauntletError(f"the camera file '{camera}' must hold extrinsic.baseline and intrinsic.fx.") from None
        disparity = (stored - 1) / 256
        measured = disparity > 0
        return np.where(measured, product / np.where(measured, disparity, 1), np.inf).astype(np.float32)

    def _existing(self, relative: str) -> Path:
        path = self.root / relative
        if not path.is_file():
            raise GauntletError(
                f"the depth of Cityscapes needs '{relative}' in '{self.root}'; unpack disparity_trainvaltest.zip and "
                "camera_trainvaltest.zip there."
            )
        return path


@dataclass(frozen=True)
class EstimatedDepth(DepthSource):
    """A network of transformers for depth; "owner/name" on the hub, or a folder.

    Relative estimators (MiDaS, DPT, Depth Anything) give inverse depth without a scale: the corruptions' rule
    "estimated" is made for them, metres mean nothing then. Those that say they are metric give metres.
    """

    model: str

    def describe(self) -> dict[str, Any]:
        config = self._network.config
        revision = getattr(config, "_commit_hash", None)
        return {"estimator": self.model, **({"revision": revision} if revision else {})}

    def digests(self, ids: Sequence[str]) -> list[str]:
        return [self._weights] * len(ids)

    @cached_property
    def _weights(self) -> str:
        """Digest of the network that estimates."""
        digest = hashlib.sha256()
        for name, value in sorted(self._network.state_dict().items()):
            digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def read(self, sample: Sample) -> Metres:
        import torch

        inputs = self._processor(images=sample.image, return_tensors="pt")
        height, width = sample.image.shape[:2]
        with torch.inference_mode():
            output = self._network(**inputs)
        maps = output.predicted_depth
        if self._network.config.model_type == "zoedepth":  # whose processor pads: only it knows what to cut off
            cut = self._processor.post_process_depth_estimation(output, source_sizes=[(height, width)])
            maps = [each["predicted_depth"] for each in cut]
        predicted = maps[0].float().numpy()
        values = cv2.resize(predicted, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.float64)
        if self.is_metric:
            return np.where(values > 0, values, np.inf).astype(np.float32)
        largest = values.max()
        if largest <= 0:
            return np.full((height, width), np.inf, np.float32)
        return np.asarray(1 / np.maximum(values / largest, FARTHEST), np.float32)

    @property
    def is_metric(self) -> bool:
        """Whether the network gives metres and no inverse depth."""
        config = self._network.config
        metric = ("zoedepth", "glpn", "depth_pro")
        return config.model_type in metric or getattr(config, "depth_estimation_type", "") == "metric"

    @cached_property
    def _network(self) -> Any:
        network = self._loaded(_require_transformers().AutoModelForDepthEstimation)
        return network.eval().requires_grad_(False)

    @cached_property
    def _processor(self) -> Any:
        return self._loaded(_require_transformers().AutoImageProcessor)

    def _loaded(self, kind: Any) -> Any:
        try:
            return kind.from_pretrained(self.model)
        except (OSError, ValueError) as error:
            raise GauntletError(
                f"no depth estimator can be loaded from 'hf:{self.model}', a name on the hub or a folder: {error}"
            ) from None


class WithDepth(Dataset):
    """A dataset whose samples have depth from elsewhere."""

    has_depth = True

    def __init__(self, dataset: Dataset, source: DepthSource) -> None:
        self._dataset, self._source = dataset, source
        self.name, self.split = dataset.name, dataset.split
        self.class_names, self.ignore_index = dataset.class_names, dataset.ignore_index
        self.background_index, self.colors = dataset.background_index, dataset.colors
        self.box_class_names, self.trusted = dataset.box_class_names, dataset.trusted
        self.protocol = {**dataset.protocol, "depth": source.describe()}

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Sample:
        sample = self._dataset[index]
        depth = self._source.read(sample)
        if depth.shape != sample.image.shape[:2]:
            raise GauntletError(
                f"the depth of the image '{sample.id}' is {depth.shape[0]}x{depth.shape[1]}, the image "
                f"{sample.image.shape[0]}x{sample.image.shape[1]}; both must have one size."
            )
        return replace(sample, depth=depth)

    def ids(self) -> Sequence[str]:
        return self._dataset.ids()

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        ids = self.ids()
        depths = self._source.digests([ids[position] for position in positions])
        images = self._dataset.image_digests(positions, told)
        return [text_digest(image, depth) for image, depth in zip(images, depths, strict=True)]


def with_depth(dataset: Dataset, given: Mapping[str, Any] | str, root: str | Path | None) -> WithDepth:
    """A dataset with depth.

    Args:
        dataset: at full size.
        given: {"folder": PATH, "scale": METRES PER UNIT}, "folder:PATH" for maps in metres, "disparity" for
            Cityscapes, or "hf:MODEL".
        root: of the dataset; a relative folder that does not exist here is looked for in it.
    """
    settings = dict(given) if isinstance(given, Mapping) else _settings(given)
    if settings.get("kind") == "disparity":
        if dataset.name != "cityscapes" or root is None:
            raise GauntletError(f"disparity maps are Cityscapes' way to depth, not that of '{dataset.name}'.")
        return WithDepth(dataset, CityscapesDisparity(Path(root), dataset.split))
    if "estimator" in settings:
        return WithDepth(dataset, EstimatedDepth(str(settings["estimator"])))
    for key in settings:
        if key not in ("folder", "scale"):
            raise unknown_name("setting of depth", str(key), ("folder", "scale"))
    if "folder" not in settings:
        raise GauntletError("depth needs a folder of maps: {folder: PATH, scale: METRES PER UNIT}.")
    folder = Path(settings["folder"]).expanduser()
    if root is not None and not folder.is_dir():
        folder = Path(root) / folder
    return WithDepth(dataset, DepthFolder(folder, parse_number(settings.get("scale", 1), "scale"), dataset.ids()))


@lru_cache(maxsize=1 << 16)
def _content_digest(file: Path, size: int, changed: int) -> str:
    """Of the bytes of a file; a program that opens a dataset again reads them again only where the file has changed."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _settings(text: str) -> dict[str, Any]:
    kind, _, rest = text.partition(":")
    if kind == "disparity":
        return {"kind": kind}
    if kind == "hf" and rest:
        return {"estimator": rest}
    if kind == "folder" and rest:
        return {"folder": rest}
    raise unknown_name("kind of depth", text, ("folder:PATH", "disparity", "hf:MODEL"))


def _require_transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise GauntletError(f"depth from hf: needs transformers; install it with {install_command('zoo')}.") from None
    return transformers
