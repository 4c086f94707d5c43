"""Keeps the stores behind pages of the documentation: counts of every image, compressed, in evidence/.

python scripts/evidence.py pack STORE [NAME]     # a store of results into evidence/NAME.db.xz
python scripts/evidence.py unpack [FOLDER]       # all of them, as stores that `--store` takes

With a store at hand a page is written again in seconds, and a study goes on where the last one stopped:

    python scripts/evidence.py unpack stores
    gauntlet study run spatial/figure-9 --model ... --dataset streets --split val --limit 16 --store stores/studies.db
"""

from __future__ import annotations

import argparse
import lzma
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from gauntlet.files import write_atomically

FOLDER = Path(__file__).resolve().parents[1] / "evidence"
ENDING = ".db.xz"


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="Keep a store.")
    packing.add_argument("store", type=Path)
    packing.add_argument("name", nargs="?", help="That of the store by default.")
    unpacking = commands.add_parser("unpack", help="Write the stores out.")
    unpacking.add_argument("folder", type=Path, nargs="?", default=Path("stores"))
    chosen = parser.parse_args()
    packing_up = chosen.command == "pack"
    for path in [pack(chosen.store, chosen.name or chosen.store.stem)] if packing_up else unpack(chosen.folder):
        print(f"{path} ({path.stat().st_size / 2**20:.1f} MiB)")


if __name__ == "__main__":
    main()
