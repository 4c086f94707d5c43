"""Keeps the stores behind pages of the documentation: counts of every image, compressed, in evidence/.

python scripts/evidence.py pack STORE [NAME]     # a store of results into evidence/NAME.db.xz
python scripts/evidence.py unpack [FOLDER]       # all of them, as stores that `--store` takes
python scripts/evidence.py unpack --adopt [FOLDER]      # the same, with data and code recorded as in adopted.json.xz
python scripts/evidence.py prove CAMVID CHECKPOINTS     # runs a sample of every store again, writes adopted.json.xz

With a store at hand a page is written again in seconds, and a study goes on where the last one stopped:

    python scripts/evidence.py unpack stores
    gauntlet study run spatial/figure-9 --model ... --dataset streets --split val --limit 16 --store stores/studies.db
"""

from __future__ import annotations

import argparse
import json
import lzma
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gauntlet.evaluation.adoption import Adoption, adopt
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.reloading import Loaders
from gauntlet.files import write_atomically
from gauntlet.results import open_store
from gauntlet.results.record import Recorded

FOLDER = Path(__file__).resolve().parents[1] / "evidence"
ENDING = ".db.xz"
ADOPTED = "adopted.json.xz"


def pack(store: Path, name: str, folder: Path = FOLDER) -> Path:
    """Writes a store into the folder, without the runs that filled it and the room that deleted rows left."""
    target = folder / f"{name}{ENDING}"
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "store.db"
        with closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as opened:
            opened.execute("VACUUM INTO ?", [str(copy)])
        with closing(sqlite3.connect(copy, isolation_level=None)) as kept:
            if not kept.execute("SELECT count(*) FROM evaluations").fetchone()[0]:
                raise SystemExit(f"{store} has no evaluations.")
            for table in ("runs", "claims"):  # hosts and processes, which are nobody's business
                kept.execute(f"DELETE FROM {table}")
            kept.execute("VACUUM")
        target.write_bytes(lzma.compress(copy.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    return target


def stores(name: str = "*", folder: Path = FOLDER) -> list[Path]:
    """The kept stores of that name, all by default."""
    return sorted(folder.glob(f"{name}{ENDING}"))


def unpack(folder: Path, name: str = "*", source: Path = FOLDER) -> list[Path]:
    """Writes kept stores into a folder; nothing where one of them is there already."""
    wanted = {folder / each.name.removesuffix(".xz"): each for each in stores(name, source)}
    for store in wanted:
        if store.exists():
            raise SystemExit(f"{store} exists; move it away, or unpack into another folder.")
    for store, packed in wanted.items():
        write_atomically(store, lzma.decompress(packed.read_bytes()))
    return list(wanted)


def prove(camvid: Path, checkpoints: Path, name: str = "*", folder: Path = FOLDER) -> Path:
    """Runs a sample of stores again, as `gauntlet store adopt` does; writes down what is recorded by it.

    Args:
        camvid, checkpoints: the folders that results call CAMVID and CHECKPOINTS.
        name: of the stores, all by default; what is written down of others stays.
        folder: of the stores.
    """
    target = folder / ADOPTED
    written: dict[str, Any] = {"stores": {}, "digests": {}}
    if target.exists():
        written = json.loads(lzma.decompress(target.read_bytes()))
    with tempfile.TemporaryDirectory() as place:
        for path in unpack(Path(place), name, source=folder):
            with closing(sqlite3.connect(path)) as opened, opened:
                for word, there in (("CAMVID", camvid), ("CHECKPOINTS", checkpoints)):
                    opened.execute(
                        "UPDATE evaluations SET provenance = replace(replace(provenance, ?, ?), ?, ?)",
                        (f'"{word}"', json.dumps(str(there)), f'"{word}/', f'"{there}/'),
                    )
            with open_store(path) as store:
                for each in adopt(store, Silent(), loaders=Loaders(trust=True)):
                    _say(path.stem, each)
                    for old, known in each.adopted.items():
                        record = {**asdict(known), "note": each.note}
                        written["stores"].setdefault(path.stem, {})[old] = record
                        written["digests"][known.dataset["contents"]] = list(each.digests)
    target.write_bytes(lzma.compress(json.dumps(written, sort_keys=True).encode(), preset=9 | lzma.PRESET_EXTREME))
    return target


def _say(store: str, done: Adoption) -> None:
    print(f"{store}: {done.model} on {done.dataset}: {len(done.adopted)} adopted, {len(done.left)} left, {done.note}")
    for reason in dict.fromkeys(done.left.values()):
        print(f"    {reason}")


def record(path: Path, folder: Path = FOLDER) -> int:
    """Records data and code in an unpacked store as adopted.json.xz has them; how many evaluations have them then."""
    content = json.loads(lzma.decompress((folder / ADOPTED).read_bytes()))
    known = content["stores"].get(path.stem, {})
    with open_store(path) as store:
        for old, fields in known.items():
            note = fields.pop("note")
            recorded = Recorded(**fields)
            store.adopt(old, recorded, content["digests"][recorded.dataset["contents"]], note)
    return len(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="Keep a store.")
    packing.add_argument("store", type=Path)
    packing.add_argument("name", nargs="?", help="That of the store by default.")
    unpacking = commands.add_parser("unpack", help="Write the stores out.")
    unpacking.add_argument("folder", type=Path, nargs="?", default=Path("stores"))
    unpacking.add_argument("--adopt", action="store_true", help="Record data and code as adopted.json.xz has them.")
    proving = commands.add_parser("prove", help="Run a sample of every store again.")
    proving.add_argument("camvid", type=Path)
    proving.add_argument("checkpoints", type=Path)
    proving.add_argument("name", nargs="?", default="*", help="Of the stores, all by default.")
    chosen = parser.parse_args()
    if chosen.command == "pack":
        paths = [pack(chosen.store, chosen.name or chosen.store.stem)]
    elif chosen.command == "prove":
        paths = [prove(chosen.camvid.resolve(), chosen.checkpoints.resolve(), chosen.name)]
    else:
        paths = unpack(chosen.folder)
        for path in paths if chosen.adopt else ():
            print(f"{path}: data and code of {record(path)} evaluations recorded")
    for path in paths:
        print(f"{path} ({path.stat().st_size / 2**20:.1f} MiB)")


if __name__ == "__main__":
    main()
