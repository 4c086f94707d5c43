"""Names and numbers of classes: checks that every class counts, and that void is none of them."""

from __future__ import annotations

from collections.abc import Sequence

from gauntlet.errors import GauntletError

VOID = 255
WIDE_VOID = 65535
"""Labels of void: the second for more than 255 classes, whose numbers include the first."""


def void_label(classes: int) -> int:
    """The usual label of void beside so many classes."""
    return VOID if classes <= VOID else WIDE_VOID


def check_class_names(names: Sequence[str]) -> None:
    """An error for a class without a name, or two of one name: figures of classes go by their names."""
    blank = next((index for index, name in enumerate(names) if not str(name).strip()), None)
    if blank is not None:
        raise GauntletError(f"the class {blank} has no name; figures of classes go by their names, so give it one.")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GauntletError(
                f"two classes are called '{name}'; figures of classes go by their names, so give each one its own."
            )
        seen.add(name)


def check_void(ignore_index: int | None, classes: int) -> None:
    """An error where void has the number of a class."""
    if ignore_index is not None and 0 <= ignore_index < classes:
        raise GauntletError(
            f"ignore_index {ignore_index} is the number of a class (0 to {classes - 1}); give void a number outside "
            f"the classes, such as {void_label(classes)}, or ignore_index=None where every pixel counts."
        )


def check_background(background_index: int | None, classes: int) -> None:
    """An error where the background is no class."""
    if background_index is not None and not 0 <= background_index < classes:
        raise GauntletError(
            f"background_index must be the number of a class, 0 to {classes - 1}, or None, not {background_index}."
        )
