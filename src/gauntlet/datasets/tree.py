"""The folder of a dataset: found, listed and read without ever leaving it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath

from gauntlet.errors import GauntletError

IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".ppm", ".tif", ".tiff", ".webp"),
    *(".gif", ".jp2", ".avif"),
)


class LayoutError(GauntletError):
    """A folder that does not hold what a dataset, or the split that was asked for, is published with."""


class Tree:
    """A dataset's folder. Paths are relative to it, written with "/", and cannot lead out of it.

    Args:
        dataset: name of the dataset, for messages.
        root: the folder.
    """

    def __init__(self, dataset: str, root: str | Path) -> None:
        self.dataset = dataset
        self.root = Path(root).expanduser()
        if not self.root.is_dir():
            there = "a file" if self.root.exists() else "nothing"
            raise GauntletError(f"the root of the dataset '{dataset}' must be a folder; found {there} at '{root}'.")

    def path(self, relative: str) -> Path:
        """Where a file of the dataset is; an error when the path, or a link on the way, leads out of the folder."""
        check_relative(relative, f"the dataset '{self.dataset}'")
        path = self.root / relative
        real_root = os.path.realpath(self.root)
        if os.path.commonpath([real_root, os.path.realpath(path)]) != real_root:
            raise GauntletError(
                f"'{relative}' of the dataset '{self.dataset}' is a link that leads out of '{self.root}'; "
                "copy the files into it, or give the folder that the link points to as root."
            )
        return path

    def has(self, *relatives: str) -> bool:
        """Whether every one of these files or folders is there."""
        return all((self.root / relative).exists() for relative in relatives)

    def below(self, *candidates: str, needs: Sequence[str]) -> Tree:
        """The first of some sub-folders ("" is this one) that has what the dataset needs.

        People give the folder they unpacked an archive into, or the one inside of it.
        """
        for candidate in candidates:
            if (self.root / candidate).is_dir():
                tree = Tree(self.dataset, self.path(candidate)) if candidate else self
                if tree.has(*needs):
                    return tree
        raise self.wrong_layout([each for each in needs if not self.has(each)])

    def wrong_layout(self, expected: Iterable[str], instead: str | None = None) -> LayoutError:
        """The error for a folder that is not laid out as the dataset is published."""
        wanted = _enumerate(f"'{each}'" for each in expected)
        return LayoutError(
            f"'{self.root}' is not laid out as the dataset '{self.dataset}': expected {wanted}, "
            f"found {instead or self.summary()}."
        )

    def summary(self, folder: str = "") -> str:
        """What a folder holds, in a few words, for messages."""
        path = self.root / folder
        if not path.is_dir():
            return f"no folder '{folder}'"
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(path))
        if not names:
            return "an empty folder"
        shown = ", ".join(names[:5])
        return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"

    def files(self, folder: str, suffixes: str | tuple[str, ...]) -> list[str]:
        """Every file below a folder whose name ends so, in a stable order; hidden files are left out."""
        endings = tuple(each.lower() for each in ((suffixes,) if isinstance(suffixes, str) else suffixes))
        paths: list[str] = []
        visited: set[str] = set()
        for directory, folders, names in os.walk(self.root / folder, followlinks=True):
            real = os.path.realpath(directory)
            if real in visited:
                folders.clear()
                continue
            visited.add(real)
            folders[:] = [name for name in folders if not name.startswith(".")]
            inside = Path(directory).relative_to(self.root).as_posix()
            prefix = "" if inside == "." else f"{inside}/"
            paths.extend(prefix + name for name in names if not name.startswith(".") and name.lower().endswith(endings))
        return sorted(paths)

    def lines(self, relative: str) -> list[str]:
        """The lines of a text file that are not empty, stripped."""
        try:
            text = self.path(relative).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise GauntletError(f"the file list '{self.root / relative}' cannot be read: {error}.") from error
        return [line.strip() for line in text.splitlines() if line.strip()]


def check_relative(path: str, where: str) -> None:
    """An error for a path that is absolute or climbs with ".."; what a file list may name stays below its root.

    Args:
        path: as written, with "/" or "\\" between the parts.
        where: what wrote it, for the message ("the list 'train.txt'").
    """
    parts = PurePosixPath(path.replace("\\", "/"))
    drive = len(path) > 1 and path[1] == ":"
    if not path or "\0" in path or parts.is_absolute() or drive or ".." in parts.parts:
        raise GauntletError(
            f"{where} names the path '{path}', which leads out of its folder; paths must be relative, without '..'."
        )


def check_files_exist(tree: Tree, wanted: Sequence[str], present: Collection[str], what: str) -> None:
    """An error that counts the files that are missing and names the first one."""
    available = set(present)
    missing = [each for each in wanted if each not in available]
    if missing:
        raise GauntletError(
            f"{len(missing)} of {len(wanted)} {what} of the dataset '{tree.dataset}' are missing in '{tree.root}'; "
            f"the first one is '{missing[0]}'."
        )


def _enumerate(items: Iterable[str]) -> str:
    *head, last = list(items)
    return f"{', '.join(head)} and {last}" if head else last
