"""The database behind a store: SQLite or PostgreSQL, its tables brought up to date, its transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, InvalidRequestError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from gauntlet.errors import GauntletError, first_line
from gauntlet.extras import install_command
from gauntlet.results import schema

MEMORY = ":memory:"
_BUSY_SECONDS = 60
_IMMEDIATE = "gauntlet_immediate"


class Database:
    """Connections to the tables of a store.

    Args:
        address: path of a SQLite file, ":memory:", or a SQLAlchemy URL.
        read_only: fail instead of creating or migrating anything.
    """

    def __init__(self, address: str, read_only: bool) -> None:
        self._address, self._read_only = address, read_only
        self._engine = _engine(address, read_only)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        try:
            # Look before writing: a store that is up to date, or too new, is opened without a write.
            with self.read() as connection:
                known = inspect(connection).has_table("meta")
                current = known and schema.stored_version(connection, self._address) == schema.SCHEMA_VERSION
                current = current and (self._read_only or inspect(connection).has_table(schema.claims.name))
            if current:
                return
            if self._read_only and known and self._is_file:
                self._copy_into_memory()
            elif self._read_only:
                state = "needs migrating" if known else "is not a Gauntlet store"
                raise GauntletError(f"{self._address} {state}; open it for writing once.")
            with self.write() as connection:
                schema.prepare(connection, self._address)
        except DBAPIError as error:
            raise _store_error(self._address, error) from error

    @property
    def _is_file(self) -> bool:
        return "://" not in self._address and self._address != MEMORY

    def _copy_into_memory(self) -> None:
        """Goes on with a copy of an older store in memory, which can be migrated; the file stays as it is."""
        memory = _engine(MEMORY, read_only=False)
        with closing(self._engine.raw_connection()) as source, closing(memory.raw_connection()) as target:
            source.driver_connection.backup(target.driver_connection)  # type: ignore[union-attr]
        self._engine.dispose()
        self._engine = memory

    def close(self) -> None:
        """Gives back the connections."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read with; all its queries see one state of the store."""
        try:
            with self._engine.connect() as connection:
                if connection.dialect.name == "postgresql":  # SQLite's transactions see one state anyway
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                yield connection
        except DBAPIError as error:
            raise _store_error(self._address, error) from error
        except GauntletError:
            raise
        # Texts that are none, JSON that is none, a version that is not there.
        except (ValueError, InvalidRequestError) as error:
            raise GauntletError(f"the store {self._address} is damaged: {first_line(error)}") from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction; on PostgreSQL, the first creation is serialised by an advisory lock."""
        try:
            with self._engine.execution_options(**{_IMMEDIATE: True}).begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7219446)")
                yield connection
        except DBAPIError as error:
            raise _store_error(self._address, error) from error

    def insert_new(self, table: Table, key: list[str]) -> Any:
        """An INSERT that leaves rows alone whose key is there already."""
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        return dialect.insert(table).on_conflict_do_nothing(index_elements=key)


def _engine(address: str, read_only: bool) -> Engine:
    if "://" in address:
        try:
            return create_engine(address, pool_pre_ping=True)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise GauntletError(
                f"no driver for {address.split('://')[0]}; install it with: {install_command('postgres')}."
            ) from error
    if address == MEMORY:
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        path = Path(address)
        if read_only and not path.is_file():
            raise GauntletError(f"there is no store at {address}; 'gauntlet run' makes one.")
        if path.is_dir():
            raise GauntletError(f"{address} is a folder; a store is a file, for example {path / 'results.db'}.")
        if not read_only:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise GauntletError(f"the folder of the store {address} cannot be made: {error.strerror}.") from None
        where = f"sqlite:///file:{path}?mode=ro&uri=true" if read_only else f"sqlite:///{path}"
        engine = create_engine(where, connect_args={"timeout": _BUSY_SECONDS})
    _configure_sqlite(engine, write_ahead=address != MEMORY and not read_only)
    return engine


def _configure_sqlite(engine: Engine, *, write_ahead: bool) -> None:
    """WAL, foreign keys, and transactions that take the write lock when they begin (no upgrade can fail later)."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _: object) -> None:
        # Bytes that are no text must be found as damage by a checksum, not end a query about everything.
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        connection.isolation_level = None  # SQLAlchemy's "begin" event below decides
        connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
        if write_ahead:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get(_IMMEDIATE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _store_error(address: str, error: DBAPIError) -> GauntletError:
    reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no reason given"
    return GauntletError(f"the store {address} cannot be used: {reason}.")
