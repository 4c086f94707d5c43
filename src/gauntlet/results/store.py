"""Where evaluations live: a SQLite file by default, PostgreSQL by URL, safe with several writers at once."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import StaticPool

from gauntlet.errors import GauntletError
from gauntlet.metrics import Metric, Views, metrics
from gauntlet.metrics.contract import NAN, Figure
from gauntlet.results import schema
from gauntlet.results.record import Evaluation, ImageRow, Job, dataset_digest

MEMORY = ":memory:"
_PAGE = 256
_BUSY_SECONDS = 60
_IMMEDIATE = "gauntlet_immediate"
_FRAME_COLUMNS = (
    "key", "task", "model", "model_digest", "dataset", "split", "dataset_digest", "threat", "kind", "description",
    "seed", "view", "metric", "class_name", "value", "low", "high", "images", "created", "duration",
)  # fmt: skip


@dataclass(frozen=True)
class Started:
    """An evaluation the store knows: where to put counts, and what of it was fixed by whoever began it."""

    id: int
    key: str
    state: str
    batch_size: int
    views: Views | None


class Store:
    """Evaluations, their figures and their per-image counts.

    Args:
        address: path of a SQLite file, ":memory:", or a SQLAlchemy URL such as postgresql+psycopg://user@host/name.
        read_only: fail instead of creating or migrating anything.
    """

    def __init__(self, address: str | Path = MEMORY, *, read_only: bool = False) -> None:
        self.address = str(address)
        self.read_only = read_only
        self._engine = _engine(self.address, read_only)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        try:
            # Look before writing: a store that is up to date, or too new, is opened without a write.
            with self._engine.connect() as connection:
                known = inspect(connection).has_table("meta")
                current = known and schema.stored_version(connection, self.address) == schema.SCHEMA_VERSION
            if current:
                return
            if self.read_only:
                state = "needs migrating" if known else "is not a Gauntlet store"
                raise GauntletError(f"{self.address} {state}; open it for writing once.")
            with self._write() as connection:
                schema.prepare(connection, self.address)
        except DBAPIError as error:
            raise _store_error(self.address, error) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the connections."""
        self._engine.dispose()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """One write transaction; on PostgreSQL, the first creation is serialised by an advisory lock."""
        try:
            with self._engine.execution_options(**{_IMMEDIATE: True}).begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7219446)")
                yield connection
        except OperationalError as error:
            raise _store_error(self.address, error) from error

    # Writing -----------------------------------------------------------------------------------------------------

    def begin(
        self, job: Job, *, images: int, batch_size: int, metric: Mapping[str, Any], provenance: Mapping[str, Any]
    ) -> Started:
        """Registers an evaluation, or finds the one that has this key already (then its batch size holds)."""
        values = {
            "key": job.key,
            "task": job.task,
            "model": job.model,
            "model_digest": job.model_digest,
            "dataset": job.dataset["name"],
            "split": job.dataset["split"],
            "dataset_identity": dict(job.dataset),
            "threat": job.threat,
            "kind": job.kind,
            "description": dict(job.description),
            "seed": job.seed,
            "images": images,
            "batch_size": batch_size,
            "views": None,
            "metric": dict(metric),
            "state": "running",
            "created": provenance["started"],
            "duration": 0.0,
            "provenance": dict(provenance),
        }
        with self._write() as connection:
            connection.execute(self._insert_new(schema.evaluations, ["key"]), [values])
        found = self.started(job.key)
        if found is None:
            raise GauntletError(f"the store {self.address} did not keep the evaluation {job.key}.")
        return found

    def add_images(self, started: Started, rows: Sequence[ImageRow], views: Views, seconds: float = 0.0) -> None:
        """Commits the counts of a unit of images in one transaction; a row that is there already stays as it is."""
        table = schema.evaluations
        values = [
            {
                "evaluation_id": started.id,
                "position": row.position,
                "image_id": row.image_id,
                "counts": row.counts,
                "details": dict(row.details),
            }
            for row in rows
        ]
        with self._write() as connection:
            update = table.update().where(table.c.id == started.id, table.c.key == started.key)
            touched = connection.execute(update.values(views=views.to_json(), duration=table.c.duration + seconds))
            self._still_there(touched.rowcount, started)
            if values:
                connection.execute(self._insert_new(schema.image_counts, ["evaluation_id", "position"]), values)

    def finish(self, started: Started, all_figures: Iterable[Figure]) -> None:
        """Writes the figures and marks the evaluation complete, in one transaction."""
        values = [
            {
                "evaluation_id": started.id,
                "view": f.view,
                "metric": f.metric,
                "class_name": f.class_name,
                "position": position,
                "value": _null(f.value),
                "low": _null(f.low),
                "high": _null(f.high),
            }
            for position, f in enumerate(all_figures)
        ]
        table = schema.evaluations
        with self._write() as connection:
            update = table.update().where(table.c.id == started.id, table.c.key == started.key)
            self._still_there(connection.execute(update.values(state="complete")).rowcount, started)
            key = ["evaluation_id", "view", "metric", "class_name"]
            connection.execute(self._insert_new(schema.figures, key), values)

    def set_aside(self, started: Started, start: int, stop: int, error: str) -> None:
        """Remembers a unit that failed for good, with its error."""
        values = {"evaluation_id": started.id, "start": start, "stop": stop, "error": error}
        table = schema.failures
        with self._write() as connection:
            connection.execute(table.delete().where(table.c.evaluation_id == started.id, table.c.start == start))
            connection.execute(table.insert().values(**values))

    def forget_failures(self, started: Started) -> None:
        """Gives the units of an evaluation that were set aside another chance."""
        table = schema.failures
        with self._write() as connection:
            connection.execute(table.delete().where(table.c.evaluation_id == started.id))

    def failures(self) -> pd.DataFrame:
        """Units that were set aside: model, threat, images and the error."""
        evaluations, table = schema.evaluations, schema.failures
        columns = (
            evaluations.c.key,
            evaluations.c.model,
            evaluations.c.threat,
            table.c.start,
            table.c.stop,
            table.c.error,
        )
        query = select(*columns).join(table, table.c.evaluation_id == evaluations.c.id).order_by(evaluations.c.id)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return pd.DataFrame(rows, columns=["key", "model", "threat", "start", "stop", "error"])

    def save_run(self, run: Mapping[str, Any]) -> None:
        """Writes the state of a run, new or known."""
        table = schema.runs
        with self._write() as connection:
            connection.execute(table.delete().where(table.c.id == run["id"]))
            connection.execute(table.insert().values(**run))

    def runs(self) -> pd.DataFrame:
        """Every run that wrote into this store, newest first."""
        table = schema.runs
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).order_by(table.c.started.desc())).all()
        return pd.DataFrame(rows, columns=[column.name for column in table.columns])

    def delete(self, key: str) -> bool:
        """Removes an evaluation with its figures and counts; whether there was one."""
        table = schema.evaluations
        with self._write() as connection:
            found = connection.execute(select(table.c.id).where(table.c.key == key)).scalar_one_or_none()
            if found is None:
                return False
            for child in (schema.figures, schema.image_counts, schema.failures):
                connection.execute(child.delete().where(child.c.evaluation_id == found))
            connection.execute(table.delete().where(table.c.id == found))
        return True

    def _still_there(self, rows: int, started: Started) -> None:
        if rows != 1:
            raise GauntletError(f"the evaluation {started.key} was removed from {self.address} while it ran.")

    def _insert_new(self, table: Any, key: list[str]) -> Any:
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        return dialect.insert(table).on_conflict_do_nothing(index_elements=key)

    # Reading -----------------------------------------------------------------------------------------------------

    def started(self, key: str) -> Started | None:
        """The evaluation with this key, complete or not."""
        table = schema.evaluations
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.key == key)).mappings().one_or_none()
        if row is None:
            return None
        views = Views.from_json(row["views"]) if row["views"] is not None else None
        return Started(row["id"], row["key"], row["state"], row["batch_size"], views)

    def states(self, keys: Sequence[str]) -> dict[str, str]:
        """State ("running" or "complete") of those keys that the store knows, in few queries."""
        table, found = schema.evaluations, {}
        with self._engine.connect() as connection:
            for start in range(0, len(keys), 500):
                query = select(table.c.key, table.c.state).where(table.c.key.in_(keys[start : start + 500]))
                found.update({row.key: row.state for row in connection.execute(query)})
        return found

    def positions(self, started: Started) -> set[int]:
        """Positions of the images whose counts are committed."""
        table = schema.image_counts
        with self._engine.connect() as connection:
            return set(
                connection.execute(select(table.c.position).where(table.c.evaluation_id == started.id)).scalars()
            )

    def image_rows(self, started: Started) -> Iterator[ImageRow]:
        """Committed counts in the order of the dataset, a page at a time."""
        table, after = schema.image_counts, -1
        while True:
            query = select(table).where(table.c.evaluation_id == started.id, table.c.position > after)
            with self._engine.connect() as connection:
                page = connection.execute(query.order_by(table.c.position).limit(_PAGE)).all()
            if not page:
                return
            for row in page:
                yield ImageRow(row.position, row.image_id, row.counts, row.details)
            after = page[-1].position

    def load(self, key: str) -> Evaluation | None:
        """The finished evaluation with this key, or None."""
        table = schema.evaluations
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.key == key)).mappings().one_or_none()
            if row is None or row["state"] != "complete":
                return None
            of_this = select(schema.figures).where(schema.figures.c.evaluation_id == row["id"])
            of_this = of_this.order_by(schema.figures.c.position)
            figures = [
                Figure(f.metric, _number(f.value), f.view, f.class_name, _number(f.low), _number(f.high))
                for f in connection.execute(of_this)
            ]
        views = Views.from_json(row["views"] or ())
        started = Started(row["id"], key, row["state"], row["batch_size"], views)
        return Evaluation(
            key=key,
            task=row["task"],
            model=row["model"],
            model_digest=row["model_digest"],
            dataset=row["dataset"],
            split=row["split"],
            threat=row["threat"],
            kind=row["kind"],
            description=row["description"],
            seed=row["seed"],
            images=row["images"],
            views=views.names,
            all_figures=figures,
            provenance=row["provenance"],
            duration=row["duration"],
            created=row["created"],
            from_store=True,
            dataset_identity=row["dataset_identity"],
            _per_image=self._per_image_reader(started, views, row["task"], row["metric"]),
        )

    def metric(self, key: str) -> Metric:
        """The metric that made the counts of an evaluation: reads them, and computes any figure from them."""
        table = schema.evaluations
        with self._engine.connect() as connection:
            row = connection.execute(select(table.c.task, table.c.metric).where(table.c.key == key)).one_or_none()
        if row is None:
            raise GauntletError(f"the store {self.address} has no evaluation with the key '{key}'.")
        return build_metric(row.task, row.metric)

    def recompute(self, key: str) -> list[Figure]:
        """Every figure of an evaluation from its per-image counts alone; no model, no dataset."""
        started = self.started(key)
        if started is None or started.views is None:
            raise GauntletError(f"the store {self.address} has no per-image counts under the key '{key}'.")
        if started.state != "complete":  # figures of some of the images would look like those of all
            raise GauntletError(
                f"the store {self.address} has no complete evaluation with the key '{key}'; run it again to finish it."
            )
        metric = self.metric(key)
        return metric.compute((metric.decode(row.counts) for row in self.image_rows(started)), started.views)

    def per_image(self, key: str) -> pd.DataFrame:
        """One row per image and view of an evaluation."""
        evaluation = self.load(key)
        if evaluation is None:
            raise GauntletError(f"the store {self.address} has no complete evaluation with the key '{key}'.")
        return evaluation.per_image

    def _per_image_reader(
        self, started: Started, views: Views, task: str, options: Mapping[str, Any]
    ) -> Callable[[], pd.DataFrame]:
        def read() -> pd.DataFrame:
            metric = build_metric(task, options)
            rows = []
            for row in self.image_rows(started):
                of_image = metric.per_image(metric.decode(row.counts), views)
                rows += [{"image_id": row.image_id, **of_view, **row.details} for of_view in of_image]
            return pd.DataFrame(rows)

        return read

    def frame(self) -> pd.DataFrame:
        """Every figure of every finished evaluation as one tidy table."""
        evaluations, figures = schema.evaluations, schema.figures
        columns = [
            figures.c[name] if name in figures.c and name != "evaluation_id" else evaluations.c[name]
            for name in _FRAME_COLUMNS
            if name != "dataset_digest"
        ]
        query = (
            select(*columns)
            .join(figures, figures.c.evaluation_id == evaluations.c.id)
            .where(evaluations.c.state == "complete")
            .order_by(evaluations.c.id, figures.c.position)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
            data = connection.execute(select(evaluations.c.key, evaluations.c.dataset_identity)).all()
        frame = pd.DataFrame(rows, columns=[column.name for column in columns])
        digests = {key: dataset_digest(identity) for key, identity in data}
        frame["dataset_digest"] = frame["key"].map(digests).astype(object)
        frame = frame[list(_FRAME_COLUMNS)]
        frame["description"] = [_canonical(each) for each in frame["description"]]
        for name in ("value", "low", "high", "duration"):
            frame[name] = frame[name].astype("float64")
        return frame

    def keys(self) -> list[str]:
        """Keys of the finished evaluations, oldest first."""
        table = schema.evaluations
        query = select(table.c.key).where(table.c.state == "complete").order_by(table.c.id)
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def count(self) -> int:
        """Number of finished evaluations."""
        table = schema.evaluations
        query = select(func.count()).select_from(table).where(table.c.state == "complete")
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def export(self, path: str | Path) -> Path:
        """Writes `frame()` to a .csv, .json or .parquet file."""
        path, frame = Path(path), self.frame()
        if path.suffix == ".csv":
            frame.to_csv(path, index=False)
        elif path.suffix == ".json":
            frame.to_json(path, orient="records", indent=1)
        elif path.suffix == ".parquet":
            try:
                frame.to_parquet(path, index=False)
            except ImportError:
                raise GauntletError(
                    "Parquet needs pyarrow; install it with: pip install 'vision-gauntlet[parquet]'."
                ) from None
        else:
            raise GauntletError(f"the ending of '{path}' must be .csv, .json or .parquet.")
        return path


def open_store(address: str | Path = MEMORY, *, read_only: bool = False) -> Store:
    """Opens or creates a store.

    Args:
        address: path of a SQLite file, ":memory:", or a URL such as postgresql+psycopg://user@host/name.
        read_only: fail instead of creating or migrating anything.
    """
    return Store(address, read_only=read_only)


def build_metric(task: str, options: Mapping[str, Any]) -> Metric:
    """The metric that made (and reads) the counts of an evaluation, from the options the store keeps."""
    if task not in metrics:
        raise GauntletError(f"this version has no metric for the task '{task}'; upgrade vision-gauntlet.")
    return metrics[task](**options)


def _engine(address: str, read_only: bool) -> Engine:
    if "://" in address:
        try:
            return create_engine(address, pool_pre_ping=True)
        except (NoSuchModuleError, ModuleNotFoundError) as error:
            raise GauntletError(
                f"no driver for {address.split('://')[0]}; install it with: pip install 'vision-gauntlet[postgres]'."
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
            path.parent.mkdir(parents=True, exist_ok=True)
        where = f"sqlite:///file:{path}?mode=ro&uri=true" if read_only else f"sqlite:///{path}"
        engine = create_engine(where, connect_args={"timeout": _BUSY_SECONDS})
    _configure_sqlite(engine, write_ahead=address != MEMORY and not read_only)
    return engine


def _configure_sqlite(engine: Engine, *, write_ahead: bool) -> None:
    """WAL, foreign keys, and transactions that take the write lock when they begin (no upgrade can fail later)."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _: object) -> None:
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


def _canonical(description: Any) -> str:
    return json.dumps(description, sort_keys=True)


def _null(value: float) -> float | None:
    return None if math.isnan(value) else value


def _number(value: float | None) -> float:
    return NAN if value is None else value
