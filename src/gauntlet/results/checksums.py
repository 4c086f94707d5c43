"""Checksums of a store: what was written is what is read, or the difference is found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Text, bindparam, cast, func, select

from gauntlet.results import schema

_LENGTH = 32

OTHER_ROWS = "counts of images were removed or added"
"""What is wrong where the counts of an evaluation are not those that were sealed."""
_OUTSIDE = ("id", "checksum")
"""Columns of an evaluation that its checksum leaves out."""


def row_checksum(key: str, position: int, image_id: str, digest: str, details: str, counts: bytes) -> str:
    """Checksum of the counts of one image.

    Args:
        key: of the evaluation.
        position, image_id, digest, counts: as stored.
        details: the JSON text that is stored.
    """
    head = "|".join(map(repr, (key, position, image_id, digest, details)))
    # A damaged cell may hold anything.
    body = counts if isinstance(counts, bytes) else repr(counts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(head.encode("utf-8", "surrogateescape") + b"|" + body).hexdigest()[:_LENGTH]


def rows_checksum(rows: Iterator[tuple[int, str]] | Sequence[tuple[int, str]]) -> str:
    """Number of the rows of an evaluation and their checksum; positions are in order."""
    digest, count = hashlib.sha256(), 0
    for position, checksum in rows:
        digest.update(f"{position}:{checksum}|".encode("utf-8", "surrogateescape"))
        count += 1
    return f"{count}:{digest.hexdigest()[:_LENGTH]}"


def seal(connection: Connection, number: int) -> None:
    """Writes the checksum of an evaluation as it stands now, with those of its rows.

    Args:
        connection: inside the transaction that completed or changed the evaluation.
        number: id of the evaluation.
    """
    table, counts = schema.evaluations, schema.image_counts
    rows = connection.execute(
        select(counts.c.position, counts.c.checksum).where(counts.c.evaluation_id == number).order_by(counts.c.position)
    )
    of_rows = rows_checksum((row.position, row.checksum or "") for row in rows)
    connection.execute(table.update().where(table.c.id == number).values(rows_checksum=of_rows, checksum=""))
    seal_again(connection, [number])


def seal_again(connection: Connection, numbers: Sequence[int]) -> None:
    """Writes the checksums of sealed evaluations whose record has changed, and whose counts have not."""
    table = schema.evaluations
    found = _checked(connection, table.c.id.in_(numbers))
    changed = [{"number": row["id"], "computed": computed} for row, computed, _ in found if row["checksum"] is not None]
    if changed:
        update = table.update().where(table.c.id == bindparam("number")).values(checksum=bindparam("computed"))
        connection.execute(update, changed)


def damaged_evaluations(connection: Connection, condition: ColumnElement[bool] | None = None) -> dict[str, str]:
    """What is wrong with sealed evaluations, by key: a checksum that does not fit, or one that is gone.

    Args:
        connection: to the store.
        condition: on the table of evaluations; all by default.
    """
    damaged = {}
    evaluations, counts = schema.evaluations, schema.image_counts
    numbers = select(counts.c.evaluation_id, func.count()).group_by(counts.c.evaluation_id)
    if condition is not None:
        numbers = numbers.where(counts.c.evaluation_id.in_(select(evaluations.c.id).where(condition)))
    images = {row[0]: row[1] for row in connection.execute(numbers)}
    for row, computed, figures in _checked(connection, condition):
        recorded = '"contents"' in str(row["dataset_identity"]) or row["code"] or row["rows_checksum"]
        if row["checksum"] is None:
            if recorded and row["state"] == schema.COMPLETE:
                damaged[str(row["key"])] = "its checksum is gone"
            elif row["state"] not in (schema.COMPLETE, schema.RUNNING):
                damaged[str(row["key"])] = f"its state is '{row['state']}'"
        elif row["checksum"] != computed:
            damaged[str(row["key"])] = f"its record and its {figures} figures do not fit their checksum"
        elif row["rows_checksum"] and not row["rows_checksum"].startswith(f"{images.get(row['id'], 0)}:"):
            damaged[str(row["key"])] = OTHER_ROWS
    return damaged


def _checked(
    connection: Connection, condition: ColumnElement[bool] | None
) -> Iterator[tuple[Mapping[str, Any], str, int]]:
    """Every evaluation with its checksum as computed now, and the number of its figures."""
    evaluations, figures = schema.evaluations, schema.figures
    # JSON as the text that is stored: what cannot be parsed can be compared.
    columns = [cast(c, Text).label(c.name) if isinstance(c.type, JSON) else c for c in evaluations.c]
    chosen = select(*columns).order_by(evaluations.c.id)
    of_figures = select(figures).order_by(figures.c.evaluation_id, figures.c.position, *figures.primary_key)
    if condition is not None:
        chosen = chosen.where(condition)
        of_figures = of_figures.where(figures.c.evaluation_id.in_(select(evaluations.c.id).where(condition)))
    values = [tuple(row) for row in connection.execute(of_figures)]
    by_evaluation = {number: [row[1:] for row in rows] for number, rows in groupby(values, key=itemgetter(0))}
    for found in connection.execute(chosen).mappings():
        row: dict[str, Any] = {str(name): value for name, value in found.items()}
        own = by_evaluation.get(row["id"], [])
        digest = hashlib.sha256()
        for name in sorted(set(row) - set(_OUTSIDE)):
            digest.update(f"{name}={row[name]!r}|".encode("utf-8", "surrogateescape"))
        for figure in own:
            digest.update(f"{figure!r}|".encode("utf-8", "surrogateescape"))
        yield row, digest.hexdigest()[:_LENGTH], len(own)
