"""The tables of a store, their version, and the steps that bring an older store up to date."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
)
from sqlalchemy.schema import CreateColumn

from gauntlet.errors import GauntletError

SCHEMA_VERSION = 2

RUNNING, COMPLETE = "running", "complete"
"""States of an evaluation."""

metadata = MetaData()

meta = Table("meta", metadata, Column("name", String(64), primary_key=True), Column("value", Text, nullable=False))

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("task", String(32), nullable=False),
    Column("model", Text, nullable=False),
    Column("model_digest", String(64), nullable=False),
    Column("dataset", Text, nullable=False),
    Column("split", Text, nullable=False),
    Column("dataset_identity", JSON, nullable=False),
    Column("threat", Text, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("description", JSON, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("images", Integer, nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("views", JSON, nullable=True),
    Column("metric", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created", String(32), nullable=False),
    Column("duration", Float, nullable=False, default=0.0),
    Column("provenance", JSON, nullable=False),
    # Versions of threat and metric; 0 where version 0.2.0 or an older one did not record them.
    Column("threat_version", Integer, nullable=False, server_default="0"),
    Column("metric_version", Integer, nullable=False, server_default="0"),
    Column("code", String(64), nullable=False, server_default=""),
    # By which method the intervals of the figures were made (`metrics.intervals.METHOD`); "" by an older one.
    Column("intervals", String(32), nullable=False, server_default=""),
    Column("family", String(64), nullable=False, server_default=""),
    Column("rows_checksum", String(64), nullable=True),
    Column("checksum", String(64), nullable=True),
    sqlite_autoincrement=True,  # an id is never used again: a writer that lost its evaluation cannot hit another
)

figures = Table(
    "figures",
    metadata,
    Column("evaluation_id", ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True),
    Column("view", String(128), primary_key=True),
    Column("metric", String(64), primary_key=True),
    Column("class_name", String(128), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("value", Float, nullable=True),
    Column("low", Float, nullable=True),
    Column("high", Float, nullable=True),
)

image_counts = Table(
    "image_counts",
    metadata,
    Column("evaluation_id", ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("image_id", Text, nullable=False),
    Column("counts", LargeBinary, nullable=False),
    Column("details", JSON, nullable=False),
    Column("digest", String(64), nullable=False, server_default=""),
    Column("checksum", String(64), nullable=True),
)

failures = Table(
    "failures",
    metadata,
    Column("evaluation_id", ForeignKey("evaluations.id", ondelete="CASCADE"), primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, nullable=False),
    Column("error", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("started", String(32), nullable=False),
    Column("updated", String(32), nullable=False),
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("command", Text, nullable=False),
    Column("log", Text, nullable=False),
)

# Who computes an evaluation now, see `results.claims`. Versions without it can use a store that has it, so the version
# stays; a store of theirs is given the table when it is opened for writing.
claims = Table(
    "claims",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("beat", Integer, nullable=False),
)

Index("evaluations_by_model", evaluations.c.model, evaluations.c.dataset)
_BY_FAMILY = Index("evaluations_by_family", evaluations.c.family)


def _add_what_things_are(connection: Connection) -> None:
    """Columns for versions, code, digests of images and checksums."""
    added = {
        evaluations: ("threat_version", "metric_version", "code", "intervals", "family", "rows_checksum", "checksum"),
        image_counts: ("digest", "checksum"),
    }
    for table, names in added.items():
        for name in names:
            described = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {described}")
    _BY_FAMILY.create(connection)


# Step n brings a store of version n to version n + 1, inside the transaction that opens it.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _add_what_things_are}


def prepare(connection: Connection, where: str) -> None:
    """Creates the tables of a new store, or migrates an older one; refuses a newer one and changes nothing.

    Args:
        connection: inside a write transaction.
        where: the store's address, for the message.
    """
    if not inspect(connection).has_table("meta"):
        metadata.create_all(connection)
        connection.execute(meta.insert().values(name="schema_version", value=str(SCHEMA_VERSION)))
        return
    version = stored_version(connection, where)
    claims.create(connection, checkfirst=True)
    for step in range(version, SCHEMA_VERSION):
        MIGRATIONS[step](connection)
    if version < SCHEMA_VERSION:
        connection.execute(meta.update().where(meta.c.name == "schema_version").values(value=str(SCHEMA_VERSION)))


def stored_version(connection: Connection, where: str) -> int:
    """The schema version of an existing store; an error when it is newer than this package."""
    value = connection.execute(select(meta.c.value).where(meta.c.name == "schema_version")).scalar_one()
    version = int(value)
    if version > SCHEMA_VERSION:
        raise GauntletError(
            f"the store {where} was written by a newer Gauntlet (schema {version}, this one reads up to "
            f"{SCHEMA_VERSION}); upgrade vision-gauntlet, nothing was changed."
        )
    return version
