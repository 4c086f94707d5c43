"""Which models of a benchmark can be loaded here, and why the others cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.loading import choose_checkpoint, resolve_model
from gauntlet.models.sources.openmmlab import OpenMMLabSource
from gauntlet.models.zoo import ZooEntry, entries
from gauntlet.models.zoo.spelling import canonical_dataset

BENCHMARKS = ("semsegbench", "detecbench")
_PACKAGES = {"mmseg": "mmsegmentation", "mmdet": "mmdet", "hf": "transformers", "torchvision": "torchvision"}
_MODULES = {"hf": "transformers"}

Chosen = tuple[str, dict[str, Any]]
"""An address and the options that go with it."""


def choose(
    benchmark: str, datasets: Sequence[str], options: Mapping[str, Any]
) -> tuple[list[Chosen], list[tuple[str, str]]]:
    """The models of a benchmark that can be loaded, and the others with the reason.

    Nothing is loaded: what is missing is seen from the installed packages, from the files of a folder and from
    OpenMMLab's configurations, which name the packages that they need.

    Args:
        benchmark: "semsegbench" or "detecbench".
        datasets: what the models were trained on; all where there is none.
        options: of every model; `checkpoints` is a folder with OpenMMLab's files, `trust` lets them run.
    """
    if benchmark not in BENCHMARKS:
        raise unknown_name("benchmark of the zoo", benchmark, BENCHMARKS)
    folder = options.get("checkpoints")
    if folder is not None and not options.get("trust"):
        raise GauntletError(
            f"the checkpoints in {folder} are pickles and their configurations Python code, and both would run here; "
            "pass trust=True (--trust) if you trust where they come from."
        )
    wanted = {canonical_dataset(name).removesuffix("0712") for name in datasets}
    rows = [entry for entry in entries() if entry.benchmark == benchmark]
    kept = [entry for entry in rows if not wanted or entry.dataset in wanted]
    if not kept:
        known = ", ".join(sorted({entry.dataset for entry in rows}))
        raise GauntletError(f"no model of {benchmark} was trained on {', '.join(datasets)}; known: {known}.")
    chosen: list[Chosen] = []
    left_out: list[tuple[str, str]] = []
    for entry in kept:
        checked = _checked(entry, options)
        if isinstance(checked, str):
            crop = f" ({entry.crop_size})" if entry.crop_size else ""
            left_out.append((f"{entry.title}{crop}", checked))
        else:
            chosen.append(checked)
    return chosen, left_out


def _checked(entry: ZooEntry, options: Mapping[str, Any]) -> Chosen | str:
    """Address and options of a model, or what is missing, in one sentence."""
    try:
        return _require(entry, options)
    except GauntletError as error:
        return str(error)


def _require(entry: ZooEntry, options: Mapping[str, Any]) -> Chosen:
    address, own = choose_checkpoint(entry, options)
    prefix = address.partition(":")[0]
    if entry.loads.startswith("no:"):
        raise GauntletError(f"it cannot be loaded: it {entry.loads.removeprefix('no: ')}.")
    if find_spec(_MODULES.get(prefix, prefix)) is None:
        raise GauntletError(f"the package {_PACKAGES[prefix]} is not installed.")
    source = resolve_model(address, **own)
    source.identity  # noqa: B018 - reads the file, or asks the hub
    if isinstance(source, OpenMMLabSource):
        source.read_config()
    return address, own
