"""Where evaluations live: a SQLite file by default, PostgreSQL by URL, safe with several writers at once."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from sqlalchemy import ColumnElement, Connection, RowMapping, Text, cast, func, select

from gauntlet.errors import DamageError, GauntletError
from gauntlet.metrics import Metric, Views, build_metric
from gauntlet.metrics.contract import NAN, Figure, metric_version
from gauntlet.metrics.intervals import METHOD
from gauntlet.models.probe import PROBE
from gauntlet.notebooks import facts_table
from gauntlet.numbers import counted
from gauntlet.registry import import_target
from gauntlet.results import schema
from gauntlet.results.checksums import OTHER_ROWS, damaged_evaluations, row_checksum, rows_checksum, seal, seal_again
from gauntlet.results.claims import Claims
from gauntlet.results.database import MEMORY, Database
from gauntlet.results.model_facts import FIELD as FACTS
from gauntlet.results.model_facts import facts_frame, join_facts, read_facts
from gauntlet.results.model_names import KnownModel, find_known, known_models
from gauntlet.results.origin import FIELD, Origin, read_origin
from gauntlet.results.record import Evaluation, ImageRow, Job, Recorded, read_counts
from gauntlet.results.schema import COMPLETE, RUNNING
from gauntlet.results.tidy import figures_frame, read_mapping, write_frame
from gauntlet.secrecy import without_password

_PAGE = 256
_Key = TypeVar("_Key", str, int)
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Started:
    """An evaluation the store knows: where to put counts, and what of it was fixed by whoever began it.

    Attributes:
        id, key, state: in the store.
        batch_size: images computed together.
        views: what the views of the counts are; None before the first.
        preparation: steps with which the model's passes were made faster; None when nobody chose yet.
        rows_checksum: of all counts of a finished evaluation; None before, and where nobody recorded it.
    """

    id: int
    key: str
    state: str
    batch_size: int
    views: Views | None
    preparation: tuple[str, ...] | None = None
    rows_checksum: str | None = None


class Store:
    """Evaluations, their figures and their per-image counts.

    Args:
        address: path of a SQLite file, ":memory:", or a SQLAlchemy URL such as postgresql+psycopg://user@host/name.
        read_only: fail instead of creating or migrating anything.
    """

    def __init__(self, address: str | Path = MEMORY, *, read_only: bool = False) -> None:
        self.address = str(address)
        self.read_only = read_only
        self._database = Database(self.address, read_only)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back the connections."""
        self._database.close()

    def claims(self, say: Callable[[str], None]) -> Claims:
        """The claims of a driver on what it computes: `with store.claims(progress.note_once) as claims`."""
        return Claims(self._database, self.address != MEMORY, say)

    # Writing -----------------------------------------------------------------------------------------------------

    def begin(
        self, job: Job, *, images: int, batch_size: int, metric: Mapping[str, Any], provenance: Mapping[str, Any]
    ) -> Started:
        """Registers an evaluation, or takes up the one that has this key already (then its batch size holds)."""
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
            "state": RUNNING,
            "created": provenance["started"],
            "duration": 0.0,
            "provenance": dict(provenance),
            "threat_version": job.threat_version,
            "metric_version": metric_version(job.task, metric),
            "code": job.code,
            "family": job.family,
        }
        with self._database.write() as connection:
            connection.execute(self._database.insert_new(schema.evaluations, ["key"]), [values])
            row = _row(connection, schema.evaluations.c.key == job.key)
        if row is None:
            raise GauntletError(f"the store {self.address} did not keep the evaluation {job.key}.")
        return _started(row)

    def keep_preparation(self, started: Started, steps: Sequence[str]) -> tuple[str, ...]:
        """Records how the model of an evaluation is prepared; gives what holds: the first choice that was recorded."""
        table = schema.evaluations
        with self._database.write() as connection:
            row = _row(connection, table.c.id == started.id)
            self._still_there(0 if row is None or row["key"] != started.key else 1, started)
            assert row is not None
            provenance = dict(row["provenance"])
            if provenance.get("preparation") is None and row["state"] != COMPLETE:
                provenance["preparation"] = list(steps)
                connection.execute(table.update().where(table.c.id == started.id).values(provenance=provenance))
        return tuple(provenance.get("preparation") or ())

    def note_host(self, started: Started, host: str, facts: Mapping[str, str]) -> None:
        """Records a machine that computes some images of an evaluation, and its versions."""
        table = schema.evaluations
        with self._database.write() as connection:
            row = _row(connection, table.c.id == started.id)
            self._still_there(0 if row is None or row["key"] != started.key else 1, started)
            assert row is not None
            if row["state"] == COMPLETE:
                return
            hosts = {**row["provenance"].get("hosts", {}), host: dict(facts)}
            provenance = {**row["provenance"], "hosts": hosts}
            connection.execute(table.update().where(table.c.id == started.id).values(provenance=provenance))

    def renew_origins(self, jobs: Sequence[tuple[Job, Origin]]) -> None:
        """Tells evaluations that are finished what their model is called now, and where it was found last.

        What version 0.1.0 stored gets an origin that way, and files that moved are found again.
        """
        if self.read_only:
            return
        table, known = schema.evaluations, {job.key: (job, origin.as_dict()) for job, origin in jobs}
        changed: dict[int, dict[str, Any]] = {}
        with self._database.read() as connection:
            for keys in _pages(list(known)):
                columns = table.c.id, table.c.key, table.c.model, table.c.provenance
                finished = select(*columns).where(table.c.key.in_(keys), table.c.state == COMPLETE)
                for row in connection.execute(finished):
                    job, origin = known[row.key]
                    parts = {name: origin[name] or row.provenance.get(FIELD, {}).get(name) for name in origin}
                    if row.model != job.model or row.provenance.get(FIELD) != parts:
                        changed[row.id] = {"model": job.model, "provenance": {**row.provenance, FIELD: parts}}
        if changed:
            with self._database.write() as connection:
                self._change(connection, changed)

    def add_images(self, started: Started, rows: Sequence[ImageRow], views: Views, seconds: float = 0.0) -> None:
        """Commits the counts of a unit of images in one transaction; a row that is there already stays as it is.

        Nothing is written into an evaluation that another driver has finished meanwhile.
        """
        table = schema.evaluations
        values = [
            {
                "evaluation_id": started.id,
                "position": row.position,
                "image_id": row.image_id,
                "counts": row.counts,
                "details": dict(row.details),
                "digest": row.digest,
                "checksum": _checksum_of(started.key, row),
            }
            for row in rows
        ]
        with self._database.write() as connection:
            update = table.update().where(table.c.id == started.id, table.c.key == started.key)
            more = {"views": views.to_json(), "duration": table.c.duration + seconds}
            touched = connection.execute(update.where(table.c.state != COMPLETE).values(**more))
            if touched.rowcount != 1:
                row = _row(connection, table.c.id == started.id)
                self._still_there(0 if row is None or row["key"] != started.key else 1, started)
            elif values:
                connection.execute(
                    self._database.insert_new(schema.image_counts, ["evaluation_id", "position"]), values
                )

    def finish(self, started: Started, all_figures: Iterable[Figure]) -> Evaluation:
        """Writes the figures and marks the evaluation complete, in one transaction; returns the evaluation."""
        figures = list(all_figures)
        values = _figure_values(started.id, figures)
        table = schema.evaluations
        with self._database.write() as connection:
            update = table.update().where(table.c.id == started.id, table.c.key == started.key)
            self._still_there(connection.execute(update.values(state=COMPLETE, intervals=METHOD)).rowcount, started)
            key = ["evaluation_id", "view", "metric", "class_name"]
            connection.execute(self._database.insert_new(schema.figures, key), values)
            seal(connection, started.id)
            connection.execute(schema.claims.delete().where(schema.claims.c.key == started.key))
            row = _row(connection, table.c.id == started.id)
        assert row is not None  # it was updated in this transaction
        return self._evaluation(row, figures, from_store=False)

    def read_as(self, key: str, metric: Mapping[str, Any]) -> Evaluation:
        """A complete evaluation whose figures are computed anew from its counts, with other options of its metric.

        Both are kept, unless the store is read only.
        """
        started, views = self._counted(key)
        other = build_metric(self._task_and_metric(key)[0], metric)
        counts = (read_counts(other, row) for row in self.image_rows(started))
        figures = list(other.compute(counts, views))
        table = schema.evaluations
        if not self.read_only:
            with self._database.write() as connection:
                self._check(connection, table.c.id == started.id)
                values = {"metric": dict(metric), "metric_version": other.version, "intervals": METHOD}
                update = table.update().where(table.c.id == started.id, table.c.key == key)
                self._still_there(connection.execute(update.values(**values)).rowcount, started)
                connection.execute(schema.figures.delete().where(schema.figures.c.evaluation_id == started.id))
                connection.execute(schema.figures.insert(), _figure_values(started.id, figures))
                seal(connection, started.id)
        with self._database.read() as connection:
            row = _row(connection, table.c.key == key)
        assert row is not None
        return self._evaluation(row, figures, from_store=True)

    def outdated(self, key: str | None = None) -> list[str]:
        """Keys of finished evaluations whose intervals an older method made: they are left out where figures are read.

        Args:
            key: of the evaluation that is asked about; all by default.
        """
        table = schema.evaluations
        query = select(table.c.key).where(table.c.state == COMPLETE, table.c.intervals != METHOD).order_by(table.c.id)
        with self._database.read() as connection:
            return list(connection.execute(query if key is None else query.where(table.c.key == key)).scalars())

    def renew_intervals(self) -> int:
        """Compute figures whose intervals an older method made anew from their counts; return of how many evaluations.

        An evaluation without counts of its images stays as it is.
        """
        started = [self.started(key) for key in self.outdated()]
        keys = [each.key for each in started if each is not None and each.views is not None]
        for key in keys:
            self.read_as(key, self.metric_options(key))
        return len(keys)

    def set_aside(self, started: Started, start: int, stop: int, error: str) -> None:
        """Remembers a unit that failed for good, with its error."""
        values = {"evaluation_id": started.id, "start": start, "stop": stop, "error": error}
        table = schema.failures
        with self._database.write() as connection:
            connection.execute(table.delete().where(table.c.evaluation_id == started.id, table.c.start == start))
            connection.execute(table.insert().values(**values))

    def forget_failures(self, started: Started) -> None:
        """Gives the units of an evaluation that were set aside another chance."""
        table = schema.failures
        with self._database.write() as connection:
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
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return pd.DataFrame(rows, columns=["key", "model", "threat", "start", "stop", "error"])

    def save_run(self, run: Mapping[str, Any]) -> None:
        """Writes the state of a run, new or known."""
        table = schema.runs
        with self._database.write() as connection:
            connection.execute(table.delete().where(table.c.id == run["id"]))
            connection.execute(table.insert().values(**run))

    def runs(self) -> pd.DataFrame:
        """Every run that wrote into this store, newest first."""
        table = schema.runs
        with self._database.read() as connection:
            rows = connection.execute(select(table).order_by(table.c.started.desc())).all()
        return pd.DataFrame(rows, columns=[column.name for column in table.columns])

    def delete(self, key: str) -> bool:
        """Removes an evaluation with its figures and counts; whether there was one."""
        with self._database.write() as connection:
            return self._delete(connection, key)

    def _delete(self, connection: Connection, key: str) -> bool:
        table = schema.evaluations
        row_id = connection.execute(select(table.c.id).where(table.c.key == key)).scalar_one_or_none()
        if row_id is None:
            return False
        for child in (schema.figures, schema.image_counts, schema.failures):
            connection.execute(child.delete().where(child.c.evaluation_id == row_id))
        connection.execute(table.delete().where(table.c.id == row_id))
        return True

    def _change(self, connection: Connection, changed: Mapping[int, Mapping[str, Any]]) -> None:
        """Changes fields of finished evaluations by their id, and their checksums with them; damaged ones stay."""
        table = schema.evaluations
        for page in _pages(list(changed)):
            damaged = damaged_evaluations(connection, table.c.id.in_(page))
            rows = connection.execute(select(table.c.id, table.c.key).where(table.c.id.in_(page)))
            whole = [row.id for row in rows if row.key not in damaged]
            for number in whole:
                connection.execute(table.update().where(table.c.id == number).values(**changed[number]))
            seal_again(connection, whole)

    def _check(self, connection: Connection, condition: ColumnElement[bool]) -> None:
        """An error where an evaluation does not fit its checksum."""
        for key, what in damaged_evaluations(connection, condition).items():
            raise self._damaged(key, what)

    def _damaged(self, key: str, what: str) -> DamageError:
        return DamageError(
            f"the evaluation {key} of the store {self.address} is damaged: {what}; everything else of the store can be "
            "used; 'gauntlet store check' lists the damage, 'gauntlet run --again' computes the evaluation anew."
        )

    def _still_there(self, rows: int, started: Started) -> None:
        if rows != 1:
            raise GauntletError(f"the evaluation {started.key} was removed from {self.address} while it ran.")

    # Reading -----------------------------------------------------------------------------------------------------

    def started(self, key: str) -> Started | None:
        """The evaluation with this key, complete or not."""
        with self._database.read() as connection:
            row = _row(connection, schema.evaluations.c.key == key)
        return None if row is None else _started(row)

    def probes(self, keys: Sequence[str]) -> dict[str, str]:
        """The probe of the model (`gauntlet.models.probe`) of those keys that have one, as JSON, in few queries."""
        table = schema.evaluations
        # As text: one record that is no JSON would end a query that looks into it.
        text = cast(table.c.provenance, Text).label("text")
        probes: dict[str, str] = {}
        with self._database.read() as connection:
            for page in _pages(keys):
                for row in connection.execute(select(table.c.key, text).where(table.c.key.in_(page))):
                    probe = read_mapping(row.text).get(PROBE)
                    if probe is not None:
                        probes[row.key] = json.dumps(probe)
        return probes

    def provenance(self, key: str) -> dict[str, Any]:
        """How an evaluation, complete or not, was obtained; empty where there is none of this key."""
        with self._database.read() as connection:
            row = _row(connection, schema.evaluations.c.key == key)
        return {} if row is None else dict(row["provenance"])

    def states(self, keys: Sequence[str]) -> dict[str, str]:
        """State ("running" or "complete") of those keys that the store knows, in few queries."""
        table = schema.evaluations
        states: dict[str, str] = {}
        with self._database.read() as connection:
            for page in _pages(keys):
                query = select(table.c.key, table.c.state).where(table.c.key.in_(page))
                states.update({row.key: row.state for row in connection.execute(query)})
        return states

    def counted_images(
        self, family: str, metric: Mapping[str, Any], digests: Mapping[str, str]
    ) -> tuple[Started, list[ImageRow]] | None:
        """Counts of some images that another evaluation of the same family has; None where there are none.

        Of several such evaluations the one with most of the images is taken, so that all rows share its batches.

        Args:
            family: see `Job.family`.
            metric: the options of the metric; others make other counts.
            digests: of the images that are wanted, by id.
        """
        if not family:
            return None
        table = schema.evaluations
        of_family = table.c.family == family
        with self._database.read() as connection:
            damaged = damaged_evaluations(connection, of_family)
            fit = table.c.key.not_in(list(damaged)), table.c.state == COMPLETE
            rows = connection.execute(select(table).where(of_family, *fit).order_by(table.c.id)).mappings()
            relatives = [_started(row) for row in rows if row["metric"] == dict(metric)]
        best: tuple[Started, list[ImageRow]] | None = None
        for each in relatives:
            try:
                shared = [row for row in self.image_rows(each) if digests.get(row.image_id) == row.digest != ""]
            except DamageError as error:  # damaged counts are computed anew
                _LOGGER.warning("%s", error)
                continue
            if len(shared) > (0 if best is None else len(best[1])):
                best = each, shared
        return best

    def positions(self, started: Started) -> set[int]:
        """Positions of the images whose counts are committed."""
        table = schema.image_counts
        with self._database.read() as connection:
            return set(
                connection.execute(select(table.c.position).where(table.c.evaluation_id == started.id)).scalars()
            )

    def image_rows(self, started: Started) -> Iterator[ImageRow]:
        """Committed counts in the order of the dataset, a page at a time."""
        table, after = schema.image_counts, -1
        checksums: list[tuple[int, str]] = []
        columns = [cast(c, Text).label(c.name) if c.name == "details" else c for c in table.c]
        while True:
            query = select(*columns).where(table.c.evaluation_id == started.id, table.c.position > after)
            with self._database.read() as connection:
                page = connection.execute(query.order_by(table.c.position).limit(_PAGE)).all()
            if not page:
                if started.rows_checksum is not None and started.rows_checksum != rows_checksum(checksums):
                    raise self._damaged(started.key, OTHER_ROWS)
                return
            for row in page:
                yield self._checked_row(started.key, row)
                checksums.append((row.position, row.checksum or ""))
            after = page[-1].position

    def _checked_row(self, key: str, row: Any) -> ImageRow:
        """Counts of an image; an error where they do not fit their checksum."""
        if row.checksum is not None or row.digest:  # who writes one writes the other
            found = row_checksum(key, row.position, row.image_id, row.digest, row.details, row.counts)
            if found != row.checksum:
                raise self._damaged(key, f"the counts of the image '{row.image_id}' do not fit their checksum")
        try:
            details = json.loads(row.details)
        except (ValueError, TypeError):
            raise self._damaged(key, f"what is told of the image '{row.image_id}' is no JSON") from None
        return ImageRow(row.position, row.image_id, row.counts, details, row.digest)

    def load(self, key: str) -> Evaluation | None:
        """The finished evaluation with this key, or None; an error where it does not fit its checksum."""
        with self._database.read() as connection:
            self._check(connection, schema.evaluations.c.key == key)
            row = _row(connection, schema.evaluations.c.key == key)
            if row is None or row["state"] != COMPLETE:
                return None
            of_this = select(schema.figures).where(schema.figures.c.evaluation_id == row["id"])
            of_this = of_this.order_by(schema.figures.c.position)
            same = row["intervals"] == METHOD  # intervals of another method cover otherwise: they are left out
            figures = [
                Figure(f.metric, _number(f.value), f.view, f.class_name, *map(_number, (f.low, f.high) if same else ()))
                for f in connection.execute(of_this)
            ]
        return self._evaluation(row, figures, from_store=True)

    def _evaluation(self, row: RowMapping, figures: list[Figure], *, from_store: bool) -> Evaluation:
        started = _started(row)
        views = Views.from_json(row["views"] or ())
        return Evaluation(
            key=row["key"],
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
            from_store=from_store,
            dataset_identity=row["dataset_identity"],
            threat_version=row["threat_version"],
            metric_version=row["metric_version"],
            code=row["code"],
            _per_image=self._per_image_reader(started, views, row["task"], row["metric"]),
        )

    def metric(self, key: str) -> Metric:
        """The metric that made the counts of an evaluation: reads them, and computes any figure from them."""
        return build_metric(*self._task_and_metric(key))

    def metric_options(self, key: str) -> dict[str, Any]:
        """The options of the metric that the figures of an evaluation were computed with."""
        return self._task_and_metric(key)[1]

    def _task_and_metric(self, key: str) -> tuple[str, dict[str, Any]]:
        table = schema.evaluations
        with self._database.read() as connection:
            row = connection.execute(select(table.c.task, table.c.metric).where(table.c.key == key)).one_or_none()
        if row is None:
            raise GauntletError(f"the store {self.address} has no evaluation with the key '{key}'.")
        return str(row.task), dict(row.metric)

    def recompute(self, key: str) -> list[Figure]:
        """Every figure of an evaluation from its per-image counts alone; no model, no dataset."""
        started, views = self._counted(key)
        metric = self.metric(key)
        return metric.compute((read_counts(metric, row) for row in self.image_rows(started)), views)

    def _counted(self, key: str) -> tuple[Started, Views]:
        """A complete evaluation with its counts, and their views."""
        started = self.started(key)
        if started is None or started.views is None:
            raise GauntletError(f"the store {self.address} has no per-image counts under the key '{key}'.")
        if started.state != COMPLETE:  # figures of some of the images would look like those of all
            raise GauntletError(
                f"the store {self.address} has no complete evaluation with the key '{key}'; run it again to finish it."
            )
        return started, started.views

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
                of_image = metric.per_image(read_counts(metric, row), views)
                rows += [{"image_id": row.image_id, **of_view, **row.details} for of_view in of_image]
            return pd.DataFrame(rows)

        return read

    def damage(self) -> dict[str, str]:
        """What is wrong with evaluations that do not fit their checksum, by key; reads no counts."""
        with self._database.read() as connection:
            return damaged_evaluations(connection)

    def damaged(self, keys: Sequence[str]) -> dict[str, str]:
        """A sentence for each of these evaluations that does not fit its checksum, by key; reads no counts."""
        found: dict[str, str] = {}
        with self._database.read() as connection:
            for page in _pages(keys):
                found |= damaged_evaluations(connection, schema.evaluations.c.key.in_(page))
        return {key: str(self._damaged(key, what)) for key, what in found.items()}

    def unrecorded(self) -> int:
        """Number of finished evaluations of version 0.2.0 or older, whose data and code are not recorded."""
        table = schema.evaluations
        query = select(func.count()).where(table.c.state == COMPLETE, table.c.code == "")
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def without_record(self) -> list[Evaluation]:
        """Finished evaluations of version 0.2.0 or older, oldest first."""
        table = schema.evaluations
        query = select(table.c.key).where(table.c.state == COMPLETE, table.c.code == "")
        with self._database.read() as connection:
            keys = list(connection.execute(query.order_by(table.c.id)).scalars())
        return [found for key in keys if (found := self.load(key)) is not None]

    def adopt(self, key: str, known: Recorded, digests: Sequence[str], note: Mapping[str, Any]) -> None:
        """Gives an evaluation without record the key, the digests and the checksums that it would have now.

        Args:
            key: of the evaluation.
            known: its record; a finished evaluation that is there under its key already makes the old one superfluous,
                one that is not finished makes way.
            digests: of the images by position.
            note: what was done to make sure, for the provenance.
        """
        started = self.started(key)
        if started is None:
            raise GauntletError(f"the store {self.address} has no evaluation with the key '{key}'.")
        state = self.states([known.key]).get(known.key)
        if state == COMPLETE:
            self.delete(key)
            return
        rows = [replace(row, digest=digests[row.position]) for row in self.image_rows(started)]
        table, counts = schema.evaluations, schema.image_counts
        with self._database.write() as connection:
            row = _row(connection, table.c.id == started.id)
            self._still_there(0 if row is None or row["key"] != key else 1, started)
            assert row is not None
            if state is not None:
                self._delete(connection, known.key)
            values = {
                "key": known.key,
                "dataset_identity": dict(known.dataset),
                "threat_version": known.threat_version,
                "metric_version": metric_version(row["task"], row["metric"]),
                "code": known.code,
                "family": known.family,
                "provenance": {**row["provenance"], "adopted": dict(note)},
            }
            connection.execute(table.update().where(table.c.id == started.id).values(**values))
            for each in rows:
                chosen = counts.update().where(counts.c.evaluation_id == started.id, counts.c.position == each.position)
                connection.execute(chosen.values(digest=each.digest, checksum=_checksum_of(known.key, each)))
            seal(connection, started.id)

    def counts_of(self, key: str) -> Iterator[ImageRow]:
        """Counts of all images of an evaluation; an error where they do not fit their checksums."""
        started = self.started(key)
        if started is None:
            raise GauntletError(f"the store {self.address} has no evaluation with the key '{key}'.")
        return self.image_rows(started)

    def frame(self, *, facts: bool = False) -> pd.DataFrame:
        """Every figure of every finished evaluation as one tidy table.

        Damaged evaluations are left out, and the log says so.

        Args:
            facts: with the columns of `model_facts`, which the analyses of capacity, backbone and date take.
        """
        with self._database.read() as connection:
            damaged = damaged_evaluations(connection)
            figures = figures_frame(connection)
        for key, what in damaged.items():
            _LOGGER.warning("%s", self._damaged(key, what))
        outdated = self.outdated()
        if outdated:
            _LOGGER.warning(
                "the intervals of %s of the store %s were made by an older method and are left out; the same "
                "'gauntlet run' again makes them from the stored counts.",
                counted(len(outdated), "evaluation"),
                self.address,
            )
        figures = figures[~figures["key"].isin(damaged)].reset_index(drop=True)
        return join_facts(figures, self.model_facts()) if facts else figures

    def model_facts(self) -> pd.DataFrame:
        """What is known about each model of the finished evaluations, one row each: see `results.model_facts`."""
        table = schema.evaluations
        columns = table.c.model, table.c.model_digest, table.c.task, table.c.provenance
        query = select(*columns).where(table.c.state == COMPLETE).order_by(table.c.id)
        with self._database.read() as connection:
            return facts_frame(tuple(row) for row in connection.execute(query))

    def describe_model(self, model: str, **facts: Any) -> None:
        """Says something about a model of the store, such as backbone="swin-t" and date="2021-03-25".

        Args:
            model: its label, name or address.
            facts: by the names of `model_facts`; None takes a fact back.
        """
        known, table = self.find_model(model), schema.evaluations
        read_facts(facts)
        of_model = (table.c.model == known.name, table.c.model_digest == known.digest)
        with self._database.write() as connection:
            for row in connection.execute(select(table.c.id, table.c.provenance).where(*of_model)).all():
                said = {**row.provenance.get(FACTS, {}), **facts}
                provenance = {
                    **row.provenance,
                    FACTS: {name: value for name, value in said.items() if value is not None},
                }
                self._change(connection, {row.id: {"provenance": provenance}})

    def models(self) -> list[KnownModel]:
        """The models of the finished evaluations, oldest first, with names that tell them apart."""
        table = schema.evaluations
        query = select(table.c.model, table.c.model_digest, table.c.provenance).where(table.c.state == COMPLETE)
        evaluated: dict[tuple[str, str], list[tuple[str, str]]] = {}
        with self._database.read() as connection:
            for row in connection.execute(query.order_by(table.c.id)):
                places, origin = evaluated.setdefault((row.model, row.model_digest), []), read_origin(row.provenance)
                if origin.model is not None:
                    places.append((origin.model["address"], origin.folder))
        return known_models(evaluated)

    def find_model(self, text: str) -> KnownModel:
        """The model that a label, a name or an address means; an error where it means none or several."""
        return find_known(text, self.models(), f"the store {self.address}")

    def keys(self) -> list[str]:
        """Keys of the finished evaluations, oldest first."""
        table = schema.evaluations
        query = select(table.c.key).where(table.c.state == COMPLETE).order_by(table.c.id)
        with self._database.read() as connection:
            return list(connection.execute(query).scalars())

    def count(self) -> int:
        """Number of finished evaluations."""
        table = schema.evaluations
        query = select(func.count()).select_from(table).where(table.c.state == COMPLETE)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def leaderboard(
        self, metric: str | None = None, *, sort_by: str | None = None, view: str = "all", facts: bool = False
    ) -> pd.DataFrame:
        """The models of every dataset, best first: `gauntlet.analysis.leaderboard` of `frame()`."""
        rank = import_target("gauntlet.analysis:leaderboard")
        ranked: pd.DataFrame = rank(self.frame(facts=facts), metric, sort_by=sort_by, view=view)
        return ranked

    def __repr__(self) -> str:
        facts = ", ".join(counted(count, word) for word, count in self._contents().items())
        return f"<Store {without_password(self.address)}: {facts or 'cannot be read'}>"

    def _repr_html_(self) -> str:
        facts = {f"{word}s": count for word, count in self._contents().items()}
        return facts_table(f"Store {without_password(self.address)}", facts or {"state": "cannot be read"})

    def _contents(self) -> dict[str, int]:
        """How many finished evaluations, models, datasets and threats there are; empty where the store cannot be read:
        whoever looks at an object in a debugger is helped by no error."""
        table = schema.evaluations
        counts = [func.count(), *(func.count(table.c[name].distinct()) for name in ("model", "dataset", "threat"))]
        query = select(*counts).select_from(table).where(table.c.state == COMPLETE)
        try:
            with self._database.read() as connection:
                row = connection.execute(query).one()
        except Exception:  # a lost file or server, each driver in its own way
            return {}
        return dict(zip(("evaluation", "model", "dataset", "threat"), row, strict=True))

    def export(self, path: str | Path) -> Path:
        """Writes `frame()` to a .csv, .json or .parquet file."""
        return write_frame(self.frame(), Path(path))


def open_store(address: str | Path = MEMORY, *, read_only: bool = False) -> Store:
    """Opens or creates a store.

    Args:
        address: path of a SQLite file, ":memory:", or a URL such as postgresql+psycopg://user@host/name.
        read_only: fail instead of creating or migrating anything.
    """
    return Store(address, read_only=read_only)


def _pages(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Keys or ids in parts that fit into one query."""
    return (keys[start : start + 500] for start in range(0, len(keys), 500))


def _figure_values(evaluation: int, figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The rows of an evaluation's figures."""
    return [
        {
            "evaluation_id": evaluation,
            "view": f.view,
            "metric": f.metric,
            "class_name": f.class_name,
            "position": position,
            "value": _null(f.value),
            "low": _null(f.low),
            "high": _null(f.high),
        }
        for position, f in enumerate(figures)
    ]


def _null(value: float) -> float | None:
    return None if math.isnan(value) else value


def _number(value: float | None) -> float:
    return NAN if value is None else value


def _row(connection: Connection, condition: ColumnElement[bool]) -> RowMapping | None:
    """The row of the evaluation that meets a condition, or None."""
    return connection.execute(select(schema.evaluations).where(condition)).mappings().one_or_none()


def _started(row: RowMapping) -> Started:
    views = Views.from_json(row["views"]) if row["views"] is not None else None
    steps = row["provenance"].get("preparation")
    preparation = None if steps is None else tuple(steps)
    return Started(row["id"], row["key"], row["state"], row["batch_size"], views, preparation, row["rows_checksum"])


def _checksum_of(key: str, row: ImageRow) -> str:
    return row_checksum(key, row.position, row.image_id, row.digest, json.dumps(dict(row.details)), row.counts)
