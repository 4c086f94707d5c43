"""Mutated input: what a user may hand over, broken in every way, and what reads it.

A case is a kind and some bytes. `read` gives the bytes to the code that reads such files; it may succeed or raise a
GauntletError of one sentence, and nothing else. `scripts/fuzz.py` runs thousands of cases, the tests a few of each.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.torch import save

from gauntlet.datasets import load_dataset
from gauntlet.datasets.images import read_colors, read_image, read_indices
from gauntlet.errors import GauntletError, as_sentence
from gauntlet.evaluation.plan import plan_jobs, read_plan
from gauntlet.models import load_model
from gauntlet.models.sources import trained
from gauntlet.models.sources.weights import read_state
from gauntlet.results import open_store
from gauntlet.threats import build_threats, suites
from gauntlet.threats.artifacts import load_artifact
from gauntlet.threats.attacks.detection.targets import read_targets
from gauntlet.training.checkpoint import load_state
from gauntlet.training.config import load_config
from paths import DATA
from tiny import tiny_network

NASTY: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 2, 10**30, -(10**30), 1e308, -0.0, math.nan, math.inf, -math.inf, 0.5, 1e-320),
    *("", " ", "8/0", "8/255", "1/0/2", "nan", "inf", "1..5", "5..1", "1..1000000000", "\0", "../../x", "/"),
    *("=1+1", "{}", "${x}", "%s%n", "\x1b[31m", "😀", "pgd", "clean", "all", "a" * 5000),
    *([], [[]], [None], [1, 2, 3], {}, {"name": "pgd"}, {"range": [1, 10**12]}, {"a": {"b": {}}}, [{}] * 3, [[1], 3]),
)  # fmt: skip

PIECES = (b"\0", b"\xff", b"\n", b"'", b'"', b"{", b"}", b"[", b"]", b": ", b"- ", b"&a ", b"*a",
          b"!!python/name:os.system ", b"\xef\xbb\xbf", b"\xf0\x28\x8c\x28",
          b"1e999", b"-1", b"99999999999", b"NaN", b"null", b"%")  # fmt: skip


def changed_bytes(content: bytes, dice: random.Random) -> bytes:
    """Some bytes with a few of them cut off, taken out, repeated, flipped, or pieces put in."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        place = dice.randrange(len(changed) + 1)
        length = dice.choice((1, 2, 8, 64, 512))
        match dice.randrange(6):
            case 0:
                del changed[place:]
            case 1:
                del changed[place : place + length]
            case 2:
                changed[place:place] = changed[place : place + length]
            case 3:
                changed[place:place] = dice.choice(PIECES)
            case 4:
                changed[place : place + length] = dice.randbytes(min(length, len(changed) - place))
            case _ if place < len(changed):
                changed[place] ^= 1 << dice.randrange(8)
    return bytes(changed)


def changed_value(value: Any, dice: random.Random) -> Any:
    """A nested value in which one thing is replaced, removed, renamed, repeated or wrapped."""
    if isinstance(value, Mapping) and value and dice.random() < 0.85:
        name = dice.choice(list(value))
        rest = {each: inner for each, inner in value.items() if each != name}
        match dice.randrange(8):
            case 0:
                return rest
            case 1:
                return {**rest, misspelt(str(name), dice): value[name]}
            case 2:
                return {**value, dice.choice(("x", "", "name", "options", 1, None)): dice.choice(NASTY)}
            case _:
                return {**value, name: changed_value(value[name], dice)}
    if isinstance(value, list) and value and dice.random() < 0.85:
        place = dice.randrange(len(value))
        match dice.randrange(6):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return value * dice.choice((2, 50))
            case _:
                return [*value[:place], changed_value(value[place], dice), *value[place + 1 :]]
    match dice.randrange(8):
        case 0:
            return [value]
        case 1:
            return {"name": value}
        case 2 if isinstance(value, str):
            return misspelt(value, dice)
        case 3 if isinstance(value, (int, float)) and not isinstance(value, bool):
            return dice.choice((-value, value * 1e9, str(value), value + 0.5))
        case 4:
            deep: Any = value
            for _ in range(dice.choice((3, 200))):
                deep = [deep]
            return deep
        case _:
            return dice.choice(NASTY)


def misspelt(text: str, dice: random.Random) -> str:
    """A text with a letter missing, doubled, swapped or of another kind."""
    place = dice.randrange(len(text) + 1)
    return dice.choice(
        (
            text[:place] + text[place + 1 :],
            text[:place] + text[place : place + 1] + text[place:],
            text[:place] + dice.choice("\0é:/-_ %'\"\\\n😀{") + text[place:],
            text.upper(),
            text + text,
            text[::-1],
        )
    )


def changed_settings(content: Any, dice: random.Random) -> bytes:
    """Settings as YAML, changed as a value or as text."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        content = changed_value(content, dice)
    try:
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, RecursionError):
        text = json.dumps(content, default=str).encode()
    return changed_bytes(text, dice) if dice.random() < 0.25 else text


# What is changed --------------------------------------------------------------------------------------------------

STREETS = {"name": "streets", "limit": 1, "split": "val"}


@cache
def threat_descriptions() -> list[dict[str, Any]]:
    """One threat of every kind, and every threat of every suite."""
    own: list[dict[str, Any]] = [
        {"geometric": {"name": "rotation", "degrees": 10}},
        {"geometric_worst": {"draws": 3, "degrees": 10, "shift": 0.1, "search": "draws"}},
        {"certify": {"sigma": 0.25, "n0": 2, "n": 10, "tau": 0.75, "alpha": 0.001}},
        {"region_aware": {"attack": {"name": "bim", "epsilon": "8/255"}, "rounds": 2}},
        {"transfer": {"source_model": "streets/enet", "attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}},
        {"universal": {"artifact": "missing.safetensors"}},
        {"patch": {"artifact": "missing.safetensors", "place": "centre"}},
        {"battery": {"name": "sea", "epsilon": "8/255", "budget": 0.01}},
        {"attack": {"name": "pgd", "epsilon": ["2/255", "4/255"], "steps": "1..3", "target": 1}},
        {"threat_model": "PGD", "iterations": 3, "epsilon": 8, "alpha": 2.55, "lp_norm": "Linf"},
    ]  # fmt: skip
    every = {json.dumps(each, sort_keys=True): each for name in suites.names() for each in suites.build(name)}
    return [*own, *every.values()]


def plans(dice: random.Random) -> bytes:
    descriptions = threat_descriptions()
    content = {
        "models": dice.choice((["streets/enet"], [{"address": "streets/fcos", "options": {}}, "streets/enet"])),
        "datasets": [STREETS],
        "threats": [dice.choice(descriptions) for _ in range(dice.randrange(1, 3))],
        "seeds": [0, 1],
        "batch_size": 2,
        "precision": "fp32",
        "prepare": "off",
    }
    return changed_settings(content, dice)


def threat_files(dice: random.Random) -> bytes:
    return changed_settings(dice.choice(threat_descriptions()), dice)


NAMES = ("streets/enet", "streets", "pgd", "fog", "quick", "script:net.pt", "hf:a/b", "net:pidnet_s",
         "python:tiny:tiny_network", "folder:photos",
         "crf:streets/enet", "ensemble:a+b", "tiled:streets/enet", "onnx:x.onnx",
         "coco", "camvid/enet")  # fmt: skip


def names(dice: random.Random) -> bytes:
    name = dice.choice(NAMES)
    for _ in range(dice.choice((1, 2, 3))):
        name = misspelt(name, dice)
    return (name if dice.random() < 0.9 else str(dice.choice(NASTY))).encode("utf-8", "surrogatepass")


TINY = "python:tiny:tiny_network"
DEFENCES = ("tiled:size=8x12,overlap=1/4", "noise:sigma=0.1", "transform:kind=jpeg,quality=75",
            "multiscale:scales=0.5+1", "smoothed:sigma=0.25,n=3", "crf:steps=2", "ensemble")  # fmt: skip
MODELS: Sequence[dict[str, Any]] = (
    {"address": TINY, "options": {"num_classes": 3, "mean": [0.5] * 3, "std": [0.25] * 3, "channel_order": "BGR"}},
    {"address": TINY, "options": {"num_classes": 3, "class_names": ["a", "b", "c"], "input_size": [16, 24]}},
    {"address": TINY, "options": {"outputs": [0, 2], "name": "x", "ignore_index": 255, "task": "segmentation"}},
    {"address": TINY, "options": {"classes": 4, "num_classes": 4, "gives": "logits", "trust": False}},
    *({"address": f"{defence}:{TINY}", "options": {"num_classes": 3}} for defence in DEFENCES),
)  # fmt: skip


def model_options(dice: random.Random) -> bytes:
    content: Any = dice.choice(MODELS)
    for _ in range(dice.choice((1, 1, 2, 3))):
        if dice.random() < 0.3:
            content = {**content, "address": misspelt(content["address"], dice)}
        else:
            content = {**content, "options": changed_value(content["options"], dice)}
    if not isinstance(content["options"], dict) or not all(isinstance(name, str) for name in content["options"]):
        content = {**content, "options": {"num_classes": content["options"]}}
    return json.dumps(content, default=str).encode()


RECIPE = {
    "name": "tiny", "model": {"architecture": "enet", "options": {}},
    "data": {"name": "streets", "options": {"length": 4}},
    "augmentation": {"scale": [0.5, 1.5], "crop": [32, 32], "flip": 0.5, "noise": "2/255"},
    "schedule": {"name": "poly"},
    "optimiser": {"name": "sgd", "learning_rate": 0.01, "betas": [0.9, 0.99]}, "steps": 2, "batch_size": 2, "seed": 0,
}  # fmt: skip


def recipes(dice: random.Random) -> bytes:
    return changed_settings(RECIPE, dice)


def _encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _png(width: int, height: int, color: int, bits: int, body: bytes) -> bytes:
    """A PNG with a header of one's choice."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, bits, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@cache
def named_pictures() -> dict[str, bytes]:
    """Small images of every kind that people have, and small files that promise or hold too much."""
    pixels = np.random.default_rng(0).integers(0, 4, (8, 12, 3), dtype=np.uint8)
    color, grey = Image.fromarray(pixels), Image.fromarray(pixels[..., 0])
    rotated = Image.Exif()
    rotated[0x0112] = 6
    frames = [grey.convert("P"), Image.fromarray(255 - pixels[..., 1]).convert("P")]
    whole = _encoded(color, "PNG")
    return {
        "colour": whole,
        "grey": _encoded(grey, "PNG"),
        "palette": _encoded(color.convert("P"), "PNG"),
        "transparent": _encoded(color.convert("RGBA"), "PNG"),
        "grey and transparent": _encoded(color.convert("LA"), "PNG"),
        "1-bit": _encoded(grey.convert("1"), "PNG"),
        "16-bit": _encoded(Image.fromarray(pixels[..., 0].astype(np.uint16) * 257), "PNG"),
        "16-bit colour": _png(2, 1, 2, 16, bytes(13)),
        "32-bit": _encoded(Image.fromarray(pixels[..., 0].astype(np.int32)), "TIFF"),
        "float": _encoded(Image.fromarray(pixels[..., 0].astype(np.float32)), "TIFF"),
        "EXIF rotated": _encoded(color, "JPEG", exif=rotated),
        "CMYK": _encoded(color.convert("CMYK"), "JPEG"),
        "CMYK TIFF": _encoded(color.convert("CMYK"), "TIFF"),
        "grey JPEG": _encoded(grey, "JPEG"),
        "animated GIF": _encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "animated PNG": _encoded(color, "PNG", save_all=True, append_images=[color.rotate(180)]),
        "animated WebP": _encoded(color, "WEBP", save_all=True, append_images=[color.rotate(180)]),
        "WebP": _encoded(color, "WEBP"),
        "BMP": _encoded(color, "BMP"),
        "PPM": _encoded(color, "PPM"),
        "40,000 wide": _encoded(Image.new("L", (40000, 1)), "PNG"),
        "40,000 wide JPEG": _encoded(Image.new("RGB", (40000, 2)), "JPEG", quality=5),
        "40,000 high": _encoded(Image.new("RGB", (1, 40000)), "PNG"),
        "truncated": whole[: len(whole) // 2],
        "truncated in its header": whole[:20],
        "zero-sized": _png(0, 0, 2, 8, b""),
        "zero wide": _png(0, 8, 0, 8, b""),
        "promises 10 GB": _png(60000, 60000, 2, 8, b"\0" * 100),
        "promises 2^62 pixels": _png(2**31 - 1, 2**31 - 1, 0, 1, b"\0"),
        "promises 500 MB": _png(13000, 13000, 2, 8, b"\0" * 100),
        "bomb of 900 million pixels": _png(30000, 30000, 0, 1, bytes(30000 * 3751)),
        "bomb in more rows than said": _png(12, 8, 0, 8, bytes(50_000_000)),
        "palette image without palette": _png(12, 8, 3, 8, b"\0" * 104),
        "nothing": b"",
        "PPM that promises too much": b"P6 99999999 99999999 255\n",
        "SVG": b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
    }


def pictures() -> list[bytes]:
    return list(named_pictures().values())


def images(dice: random.Random) -> bytes:
    picture = dice.choice(pictures())
    return picture if dice.random() < 0.1 else changed_bytes(picture, dice)


COCO = {
    "images": [{"id": 1, "file_name": "a.png", "height": 8, "width": 12}],
    "categories": [{"id": 1, "name": "car"}, {"id": 7, "name": "bus"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 1, 4, 3], "area": 12, "iscrowd": 0},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": [0.5, 2, 3, 3], "area": 9, "iscrowd": 1},
    ],
}


def coco_files(dice: random.Random) -> bytes:
    content: Any = COCO
    for _ in range(dice.choice((1, 1, 2))):
        content = changed_value(content, dice)
    written = json.dumps(content, default=str).encode()
    return changed_bytes(written, dice) if dice.random() < 0.3 else written


def class_files(dice: random.Random) -> bytes:
    if dice.random() < 0.5:
        return changed_bytes(b"road 128 64 128\ncar 0 0 142\nsky 70 130 180\nignore 0 0 0\n", dice)
    content = changed_value([{"name": "road", "color": [1, 2, 3]}, {"name": "car", "color": [0, 0, 9]}, "sky"], dice)
    return json.dumps(content, default=str).encode()


def _saved(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@cache
def checkpoint_contents() -> list[bytes]:
    state = tiny_network().state_dict()
    unzipped = io.BytesIO()
    torch.save(state, unzipped, _use_new_zipfile_serialization=False)
    return [
        _saved(state),
        _saved({"state_dict": state, "epoch": 3}),
        _saved({"classes": torch.tensor([1, 2]), "boxes": torch.zeros(2, 4)}),
        _saved([1, "a", None]),
        unzipped.getvalue(),
    ]


def checkpoints(dice: random.Random) -> bytes:
    return changed_bytes(dice.choice(checkpoint_contents()), dice)


@cache
def safetensors_content() -> bytes:
    return bytes(save(tiny_network().state_dict(), {"gauntlet": json.dumps({"kind": "universal", "epsilon": 0.1})}))


def safetensors_files(dice: random.Random) -> bytes:
    content = safetensors_content()
    length = struct.unpack("<Q", content[:8])[0]
    if dice.random() < 0.4:
        return changed_bytes(content, dice)
    head = changed_value(json.loads(content[8 : 8 + length]), dice)
    written = json.dumps(head, default=str).encode()
    said = dice.choice((len(written), len(written), len(written), 0, 2**63, 2**31, len(written) - 1))
    return struct.pack("<Q", said) + written + content[8 + length :]


@cache
def store_content() -> bytes:
    return gzip.decompress((DATA / "store-0.1.0.db.gz").read_bytes())


def stores(dice: random.Random) -> bytes:
    """A store of version 0.1.0 with a few pages changed; half of the time in its first pages, where its tables are."""
    content = store_content()
    end = dice.choice((4096, 4096 * 8, len(content)))
    return changed_bytes(content[:end], dice) + content[end:]


CARD = {
    "name": "theirs",
    "model": {
        "architecture": "enet", "options": {}, "num_classes": 2, "class_names": ["a", "b"], "mean": [0.0] * 3,
        "std": [1.0] * 3, "ignore_index": 255,
    },
}  # fmt: skip


def cards(dice: random.Random) -> bytes:
    content: Any = CARD
    for _ in range(dice.choice((1, 1, 2))):
        content = changed_value(content, dice)
    written = json.dumps(content, default=str).encode()
    return changed_bytes(written, dice) if dice.random() < 0.2 else written


XML = (
    b"<annotation><size><width>12</width><height>8</height></size><object><name>car</name><difficult>0</difficult>"
    b"<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>4</ymax></bndbox></object></annotation>"
)


def voc_files(dice: random.Random) -> bytes:
    return changed_bytes(XML, dice)


# What reads it ----------------------------------------------------------------------------------------------------


def _put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def read_plan_file(content: bytes, folder: Path) -> None:
    plan_jobs(read_plan(_put(folder, "plan.yaml", content)), "cpu")


def read_threat_file(content: bytes, folder: Path) -> None:
    for threat in build_threats(_put(folder, "threat.yaml", content)):
        threat.describe()
        threat.passes("segmentation")


def read_name(content: bytes, folder: Path) -> None:
    name = content.decode("utf-8", "surrogatepass")
    for look in (load_model, load_dataset, build_threats, lambda given: suites.build(given)):
        tolerant(look, name)


def read_model(content: bytes, folder: Path) -> None:
    given = json.loads(content)
    model = load_model(given["address"], **given["options"])
    try:
        with torch.no_grad():
            model(torch.zeros(1, 3, 16, 24))
    except RuntimeError:  # of a network of the user's own, which a run tells as the failure of that job
        return


def read_recipe(content: bytes, folder: Path) -> None:
    load_config(_put(folder, "recipe.yaml", content))


def read_picture(content: bytes, folder: Path) -> None:
    path = _put(folder, "images/a.png", content)
    for reader in (lambda: read_image(path, convert=True), lambda: read_indices(path), lambda: read_colors(path)):
        tolerant(reader)
    _put(folder, "masks/a.png", content)
    folder_dataset = load_dataset(f"folder:{folder}", classes=4)
    folder_dataset[0]


def read_coco(content: bytes, folder: Path) -> None:
    _put(folder, "images/a.png", named_pictures()["colour"])
    _put(folder, "instances.json", content)
    load_dataset("coco", root=str(folder))[0]


def read_classes(content: bytes, folder: Path) -> None:
    name = "classes.json" if content[:1] in (b"[", b"{", b'"', b"n") else "classes.txt"
    _put(folder, "images/a.png", named_pictures()["colour"])
    _put(folder, "masks/a.png", named_pictures()["grey"])
    _put(folder, name, content)
    load_dataset(f"folder:{folder}")[0]


def read_checkpoint(content: bytes, folder: Path) -> None:
    path = _put(folder, "checkpoint.pt", content)
    for reader in (lambda: read_state(path), lambda: read_targets(path), lambda: load_state(folder)):
        tolerant(reader)
    load_model(TINY, num_classes=3, weights=str(path))


def read_safetensors(content: bytes, folder: Path) -> None:
    path = _put(folder, "net.safetensors", content)
    tolerant(lambda: load_artifact(path, "universal"))
    load_model(TINY, num_classes=3, weights=str(path))


def read_store(content: bytes, folder: Path) -> None:
    path = _put(folder, "store.db", content)
    with open_store(path, read_only=True) as store:
        tolerant(store.models)
        tolerant(store.runs)
        tolerant(store.failures)
        for key in list(store.frame()["key"].unique())[:3]:
            tolerant(store.load, key)
            tolerant(store.recompute, key)


def read_card(content: bytes, folder: Path) -> None:
    _put(folder, trained.CARD_FILE, content)
    _put(folder, trained.WEIGHTS_FILE, safetensors_content())
    load_model(str(folder))


def read_voc(content: bytes, folder: Path) -> None:
    _put(folder, "JPEGImages/a.jpg", named_pictures()["EXIF rotated"])
    _put(folder, "ImageSets/Main/val.txt", b"a\n")
    _put(folder, "Annotations/a.xml", content)
    load_dataset("voc2007", root=str(folder), split="val")[0]


SETTINGS: Mapping[str, tuple[Callable[[random.Random], bytes], Callable[[bytes, Path], None]]] = {
    "plan": (plans, read_plan_file),
    "threat": (threat_files, read_threat_file),
    "name": (names, read_name),
    "model": (model_options, read_model),
    "recipe": (recipes, read_recipe),
}
FILES: Mapping[str, tuple[Callable[[random.Random], bytes], Callable[[bytes, Path], None]]] = {
    "picture": (images, read_picture),
    "coco": (coco_files, read_coco),
    "classes": (class_files, read_classes),
    "checkpoint": (checkpoints, read_checkpoint),
    "safetensors": (safetensors_files, read_safetensors),
    "store": (stores, read_store),
    "card": (cards, read_card),
    "voc": (voc_files, read_voc),
}
KINDS = {**SETTINGS, **FILES}


class NotOneSentence(AssertionError):
    """An error that a user cannot read."""


def tolerant(look: Callable[..., object], *arguments: Any) -> bool:
    """Calls something that may say no in one sentence; whether it said yes."""
    try:
        look(*arguments)
        return True
    except GauntletError as error:
        said = as_sentence(error)  # as the program prints it
        if not said.strip() or not said.isprintable() or len(said) > 2000:
            raise NotOneSentence(repr(said[:500])) from error
        return False


def made(kind: str, number: int, seed: int = 0) -> bytes:
    """The case of a number."""
    return KINDS[kind][0](random.Random(f"{seed}/{kind}/{number}"))


def read(kind: str, content: bytes, folder: Path) -> bool:
    """Gives a case to what reads it; whether it took it. Anything but success or one sentence is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tolerant(KINDS[kind][1], content, folder)
