"""Corrupted copies of a dataset on disk, in the folders that the benchmarks' evaluators read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.files import name_inside, write_atomically
from gauntlet.samples import Sample
from gauntlet.seeding import ImageSeed
from gauntlet.threats.corruptions.api import SEVERITIES, check_name, check_severity, corrupt, corruption_stream
from gauntlet.threats.corruptions.catalogue import COMMON, Image, registry
from gauntlet.threats.corruptions.settings import Channels, DepthRule, Stream, check_settings
from gauntlet.threats.masks import Mask, build_mask, canonical_mask

LAYOUTS = {"detecbench": "cc/{name}/severity_{severity}", "plain": "{name}/{severity}"}
"""Folders of one corruption and severity: DetecBench's in 2D, and that of ImageNet-C, the 3D reference and DetecBench's
copies in 3D."""
SUFFIXES = {"png": ".png", "jpeg": ".jpg"}
JPEG_QUALITY = 95
MANIFEST = "corrupted.json"
MASKS = "masks"
"""The folder of the masks of a localized copy; a mask is the same for every corruption and severity."""
UNRECORDED = {"depth_rule": "metric", "region": None}
"""Settings that older manifests do not have, and what those copies were made with."""

Progress = Callable[[int, int], None]
"""(files done, files in all), called after every image of the dataset."""


@dataclass(frozen=True)
class WrittenCopy:
    """What a call of `write_corrupted` did.

    Attributes:
        folder: the root.
        written: files written now.
        kept: files that were there already.
    """

    folder: Path
    written: int
    kept: int


def write_corrupted(
    dataset: Dataset,
    root: str | Path,
    names: Sequence[str] = COMMON,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    *,
    layout: str = "detecbench",
    format: Literal["png", "jpeg"] = "png",
    stream: Stream = "fast",
    channels: Channels = "rgb",
    depth_rule: DepthRule = "metric",
    frost_textures: str | Path | None = None,
    region: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> WrittenCopy:
    """Writes every image of a dataset under every corruption and severity.

    A file is what the threat {"corruption": ...} gives the model in a run of that seed. It appears under its name only
    when it is complete, so a call that was interrupted continues where it was. A folder holds one set of settings;
    other settings need another folder, further corruptions and severities do not.

    Args:
        dataset: its images are read one by one.
        root: where the folders are made.
        names: corruptions; the fifteen common ones by default.
        severities: 1 to 5.
        seed: the run seed.
        layout: "detecbench" for <root>/cc/<corruption>/severity_<s>/<file>, and <root>/<corruption>/<s>/<file> for
            corruptions in 3D; "plain" for the latter throughout.
        format: "png" (lossless), or "jpeg" with quality 95, which is what the published copies of JPEG datasets have.
        stream: as in `corrupt`.
        channels: as in `corrupt`; the published copies were made with "bgr".
        depth_rule: as in `corrupt`; the published copies in 3D were made with "estimated".
        frost_textures: a folder with the reference's frost pictures, used for frost.
        region: a mask of `gauntlet.threats.masks` outside of which images stay as they are, as the threat
            {"localized": ...} has it; masks are written beside them, <root>/masks/<file>.png with 255 inside.
        progress: called with the files done and the files in all.
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    if format not in SUFFIXES:
        raise unknown_name("image format", format, SUFFIXES)
    check_settings(stream, channels, depth_rule)
    cases = _cases(dataset, names, severities)
    root = Path(root)
    settings = {
        "dataset": dataset.identity.as_dict(),
        "seed": seed,
        "layout": layout,
        "format": format,
        "stream": stream,
        "channels": channels,
        "depth_rule": depth_rule,
        "frost_textures": None if frost_textures is None else str(frost_textures),
        "region": None if region is None else canonical_mask(region),
    }
    _claim(root, settings)
    options: dict[str, Any] = {"stream": stream, "channels": channels, "depth_rule": depth_rule}
    ids = list(dataset.ids())
    written = kept = 0
    for index, image_id in enumerate(ids):
        file = _file_name(image_id, SUFFIXES[format])
        targets = {case: root / _folder(layout, *case) / file for case in cases}
        missing = {case: target for case, target in targets.items() if not target.exists()}
        if missing:
            sample = dataset[index]
            mask = None if region is None else _mask(region, sample, seed)
            if mask is not None:
                drawn = np.repeat(np.where(mask, 255, 0).astype(np.uint8)[..., None], 3, axis=2)
                _write(root / MASKS / _file_name(image_id, ".png"), _encoded(drawn, "png"))
        for (name, severity), target in missing.items():
            textures = {} if frost_textures is None else _textures(name, frost_textures)
            image = _corrupted(sample, name, severity, seed, **options, **textures)
            if mask is not None:
                image = np.where(mask[..., None], image, sample.image)
            _write(target, _encoded(image, format))
        written += len(missing)
        kept += len(targets) - len(missing)
        if progress is not None:
            progress(written + kept, len(ids) * len(cases))
    return WrittenCopy(root, written, kept)


def _cases(dataset: Dataset, names: Sequence[str], severities: Sequence[int]) -> list[tuple[str, int]]:
    """Every corruption at every severity, checked before anything is written."""
    for severity in severities:
        check_severity(severity)
    cases = [(check_name(name), int(severity)) for name in names for severity in severities]
    for name, _ in cases:
        if registry[name].needs_depth and not dataset.has_depth:
            raise GauntletError(
                f"the corruption '{name}' needs depth, which the dataset '{dataset.name}' does not have; leave it out "
                "or use a dataset with depth, such as streets."
            )
    return cases


def _mask(region: Mapping[str, Any], sample: Sample, seed: int) -> Mask:
    """The mask (H, W) of an image, as the threat of that seed has it."""
    height, width = sample.image.shape[:2]
    return build_mask(region, height, width, ImageSeed(seed, sample.id).stream("mask"))


def _textures(name: str, folder: str | Path) -> dict[str, Any]:
    """The folder with frost pictures as an option of the corruption, where it takes one."""
    return {"frost_textures": folder} if "frost_textures" in registry[name].options else {}


def find_copy(root: Path, image_id: str, name: str, severity: int) -> Path:
    """The file of an image in a copy with any of the layouts and formats that `write_corrupted` knows."""
    folders = [root / pattern.format(name=name, severity=severity) for pattern in LAYOUTS.values()]
    files = [folder / _file_name(image_id, suffix) for folder in folders for suffix in SUFFIXES.values()]
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise GauntletError(
            f"there is no copy of the image '{image_id}' under {name} at severity {severity} in '{root}'; expected "
            f"for example '{files[0].relative_to(root)}'."
        )
    return found


def copies_of(root: Path, name: str, severity: int) -> list[Path]:
    """All files of a copy that are of one corruption and severity."""
    folders = [root / pattern.format(name=name, severity=severity) for pattern in LAYOUTS.values()]
    endings = tuple(SUFFIXES.values())
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in endings)


def _corrupted(sample: Sample, name: str, severity: int, seed: int, **options: Any) -> Image:
    source = corruption_stream(ImageSeed(seed, sample.id), name, severity)
    try:
        return corrupt(sample.image, name, severity, source, depth=sample.depth, **options)
    except GauntletError as error:
        raise GauntletError(f"image '{sample.id}': {error}") from None


def _folder(layout: str, name: str, severity: int) -> str:
    pattern = LAYOUTS["plain" if registry[name].group in ("3d", "video", "c-bar") else layout]
    return pattern.format(name=name, severity=severity)


def _claim(root: Path, settings: dict[str, Any]) -> None:
    """Records the settings of a folder, or checks that they are the ones on record."""
    manifest = root / MANIFEST
    text = json.dumps(settings, indent=1, sort_keys=True)
    try:
        recorded = {**UNRECORDED, **json.loads(manifest.read_text())}
    except (FileNotFoundError, NotADirectoryError):
        _write(manifest, text.encode())
        return
    except (OSError, ValueError, TypeError):  # TypeError: it is JSON, but no mapping
        raise GauntletError(f"{manifest} cannot be read; remove it or choose another folder.") from None
    for key, value in json.loads(text).items():
        if recorded.get(key) != value:
            raise GauntletError(
                f"{root} holds a copy with {key} {recorded.get(key)!r}, not {value!r}; choose another folder."
            )


def _file_name(image_id: str, suffix: str) -> PurePosixPath:
    """The file of an image: its id with the suffix of the format; folders in the id stay folders."""
    path = name_inside(image_id)
    known = path.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
    return path.with_suffix(suffix) if known else path.with_name(path.name + suffix)


def _encoded(image: Image, format: str) -> bytes:
    import cv2

    parameters = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY] if format == "jpeg" else []
    _, data = cv2.imencode(SUFFIXES[format], cv2.cvtColor(image, cv2.COLOR_RGB2BGR), parameters)
    return np.asarray(data).tobytes()


def _write(target: Path, content: bytes) -> None:
    try:
        write_atomically(target, content)
    except OSError as error:
        raise GauntletError(f"cannot write {target}: {error.strerror}.") from None
