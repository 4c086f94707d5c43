"""`.eval_results/*.yaml` of the Hugging Face Hub: figures for tasks of a benchmark (docs/specs/beyond.md, 10)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gauntlet.errors import GauntletError
from gauntlet.tasks import get_task
from gauntlet.yaml_files import read_mapping

FOLDER = ".eval_results"


class Source(BaseModel):
    """Where the figures can be read."""

    model_config = ConfigDict(extra="forbid")
    url: str
    name: str | None = None
    user: str | None = None
    org: str | None = None


class Benchmark(BaseModel):
    """A benchmark of the Hub: its dataset, and which of its tasks a threat is. Ids are the user's, none is made up.

    Attributes:
        id: of the dataset on the Hub, `org/benchmark`.
        tasks: for every task that the benchmark's `eval.yaml` declares the name of a threat in the store.
        dataset: of the store, where the model was evaluated on several.
        revision: of the dataset on the Hub.
        source: where the figures can be read.
    """

    model_config = ConfigDict(extra="forbid")
    id: str = Field(pattern=r"^[^/\s]+/[^/\s]+$")
    tasks: Mapping[str, str] = Field(min_length=1)
    dataset: str | None = None
    revision: str | None = None
    source: Source | None = None


def read_benchmark(path: Path) -> Benchmark:
    """A benchmark from a YAML file."""
    try:
        return Benchmark.model_validate(read_mapping(path, "the benchmark", "a mapping with 'id' and 'tasks'"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise GauntletError(f"the benchmark {path} is not understood: {where}: {first['msg']}.") from None


def entries(data: Mapping[str, Any], benchmark: Benchmark) -> list[dict[str, Any]]:
    """One entry per task: the main figure under its threat, in per cent as in the card's model-index.

    Args:
        data: what `model_card.card_data` knows about a model.
        benchmark: which tasks are asked for.
    """
    return [
        _entry(task, _find(data["results"], threat, benchmark), data, benchmark)
        for task, threat in benchmark.tasks.items()
    ]


def _find(results: Sequence[Mapping[str, Any]], threat: str, benchmark: Benchmark) -> Mapping[str, Any]:
    ours = [each for each in results if benchmark.dataset in (None, each["dataset"])]
    found = [each for each in ours if each["threat"] == threat]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(f"{each['dataset']}/{each['split']}, seed {each['seed']}" for each in found)
        raise GauntletError(
            f"the threat '{threat}' has several evaluations ({several}); keep one in the store, or name the dataset."
        )
    known = ", ".join(dict.fromkeys(str(each["threat"]) for each in ours)) or "none"
    raise GauntletError(f"the model has no evaluation under '{threat}'; the store has: {known}.")


def _entry(task: str, result: Mapping[str, Any], data: Mapping[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    figure = get_task(result["task"]).main_figure
    value = result["figures"].get(figure, math.nan)
    if not math.isfinite(value):
        raise GauntletError(f"{figure} under '{result['threat']}' is undefined; leave the task '{task}' out.")
    dataset = {"id": benchmark.id, "task_id": task}
    if benchmark.revision is not None:
        dataset["revision"] = benchmark.revision
    notes = [
        f"{figure} in per cent",
        f"{result['threat']} on {result['dataset']}/{result['split']}",
        f"N={result['images']}",
        f"seed={result['seed']}",
        _settings(result["description"]),
        f"gauntlet={data['gauntlet']}",
        f"key={result['key']}",
    ]
    entry: dict[str, Any] = {
        "dataset": dataset,
        "value": round(100 * value, 2),
        "date": str(result["created"])[:10],
        "notes": ", ".join(notes),
    }
    if benchmark.source is not None:
        entry["source"] = benchmark.source.model_dump(exclude_none=True)
    return entry


def _settings(description: Mapping[str, Any]) -> str:
    """The threat with every option, on one line."""
    return yaml.safe_dump(dict(description), default_flow_style=True, sort_keys=False, width=10**6).strip()


def write_eval_results(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Writes the entries into `.eval_results/gauntlet.yaml` of a model's folder; dates are quoted, as the Hub asks."""
    path = folder / FOLDER / "gauntlet.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(list(rows), sort_keys=False, allow_unicode=True), encoding="utf-8")
    except OSError as error:
        raise GauntletError(f"{path} cannot be written: {error.strerror}.") from None
    return path
