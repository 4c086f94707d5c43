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

FOLDER = Path(__file__).resolve().parents[1] / "evidence"
ENDING = ".db.xz"


def pack(store: Path, name: str, folder: Path = FOLDER) -> Path:
    """Writes a store, without the room that deleted rows left, into the folder."""
    target = folder / f"{name}{ENDING}"
    with tempfile.TemporaryDirectory() as place, closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        copy = Path(place) / "store.db"
        opened.execute("VACUUM INTO ?", [str(copy)])
        target.write_bytes(lzma.compress(copy.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    return target


def unpack(folder: Path, name: str = "*", source: Path = FOLDER) -> list[Path]:
    """Writes the stores of that name, all by default, into a folder; one that is there already is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for each in sorted(source.glob(f"{name}{ENDING}")):
        store = folder / each.name.removesuffix(".xz")
        if store.exists():
            raise SystemExit(f"{store} exists; move it away, or unpack into another folder.")
        store.write_bytes(lzma.decompress(each.read_bytes()))
        made.append(store)
    return made


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
