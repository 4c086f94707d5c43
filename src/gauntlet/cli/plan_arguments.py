"""From the options of `gauntlet run` to a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.evaluation.plan import Plan


def plan_from_file(
    path: Path, instead: Sequence[object], beside: Mapping[str, object], model_options: Mapping[str, object]
) -> Plan:
    """The plan of a YAML file; an error where options were given that only work without one.

    Args:
        path: of the file.
        instead: the values of options that stand in for a plan; all must be empty.
        beside: options by name that belong into the plan, None where they were not given.
        model_options: options of a model.
    """
    from gauntlet.evaluation.plan import read_plan

    if any(instead):
        raise GauntletError("give either a plan or --model, --dataset, --threat and --suite, not both.")
    without_effect = list(given(beside))
    if without_effect:
        raise GauntletError(f"write {', '.join(without_effect)} into the plan; beside a plan it has no effect.")
    if model_options:
        raise GauntletError(
            f"with a plan, write {', '.join(model_options)} into it, as options of the model they are meant for."
        )
    return read_plan(path)


def plan_from_options(
    models: Sequence[str] | None,
    model_options: Mapping[str, object],
    datasets: Sequence[str] | None,
    dataset_options: Mapping[str, object],
    suites: Sequence[str] | None,
    threats: Sequence[str] | None,
    zoo: str | None = None,
    **settings: object,
) -> Plan:
    """The plan that the command line describes; the clean images of streets where it names no threat and no dataset.

    Args:
        models: addresses, all with the same options; or YAML mappings with address and options, as in a plan.
        model_options: of every model.
        datasets: names, all with the same options; or YAML mappings, as in a plan.
        dataset_options: of every dataset, None where they were not given.
        suites: names of suites.
        threats: names, files or YAML descriptions.
        zoo: a benchmark, of which every model is taken that was trained on one of the datasets and can be loaded.
        settings: further keys of the plan (seeds, batch_size, precision, prepare).
    """
    from gauntlet.evaluation.plan import parse_plan

    if not models and zoo is None:
        raise GauntletError("say which model to evaluate: --model streets/enet, or give a plan.")
    if (zoo is not None or len(models or []) > 1) and "name" in model_options:
        raise GauntletError("--name is for one model; with several, give a plan with a name in the options of each.")
    named = [plan_entry(each, "address", {"options": dict(model_options)}) for each in models or []]
    content = {
        "models": [*named, *([] if zoo is None else zoo_models(zoo, datasets or [], model_options))],
        "datasets": [plan_entry(each, "name", given(dataset_options)) for each in datasets or ["streets"]],
        "suites": list(suites or []),
        "threats": [parse_threat(each) for each in threats or ([] if suites else ["clean"])],
        **settings,
    }
    return parse_plan(content, "the command line")


def zoo_models(benchmark: str, datasets: Sequence[str], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The models of a benchmark as a plan has them; those that cannot be loaded are named on the error output.

    Args:
        benchmark: "semsegbench" or "detecbench".
        datasets: names; models that were trained on one of them are taken.
        options: of the command line, for every model.
    """
    import typer

    from gauntlet.models.zoo.choosing import choose

    chosen, left_out = choose(benchmark, datasets, options)
    for title, reason in left_out:
        typer.echo(f"left out: {title}: {reason}", err=True)
    if not chosen:
        raise GauntletError(
            f"none of the {len(left_out)} models of {benchmark} can be loaded here, for the reasons above."
        )
    return [{"address": address, "options": own} for address, own in chosen]


def plan_entry(text: str, key: str, options: Mapping[str, object]) -> dict[str, Any]:
    """A model or a dataset as a plan has it: a name with the options of the command line, or a mapping over them."""
    if not text.lstrip().startswith("{"):
        return {key: text, **options}
    mapping = parse_mapping(text)
    if mapping is None or key not in mapping:
        raise GauntletError(f"{text} is not a YAML or JSON mapping with '{key}', as in a plan.")
    merged = {**options, **mapping}
    if isinstance(options.get("options"), dict) and isinstance(mapping.get("options", {}), dict):
        merged["options"] = {**options["options"], **mapping.get("options", {})}  # type: ignore[dict-item]
    return merged


def parse_mapping(text: str) -> dict[str, Any] | None:
    """A YAML or JSON mapping; None where the text is none."""
    from gauntlet.yaml_files import parse_yaml

    try:
        value = parse_yaml(text)
    except GauntletError:
        return None
    return value if isinstance(value, dict) else None


def parse_threat(text: str) -> str | dict[str, Any]:
    """A name or path as it is; a YAML or JSON mapping as a description."""
    if not text.lstrip().startswith("{"):
        return text
    value = parse_mapping(text)
    if value is None:
        example = json.dumps({"attack": {"name": "pgd", "epsilon": "8/255"}})
        raise GauntletError(f"the threat {text} is not a YAML or JSON mapping; write for example {example}.")
    return value


def given(options: Mapping[str, object]) -> dict[str, object]:
    """Those of some options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
