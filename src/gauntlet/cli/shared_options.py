"""Options that several commands share; those of a model become what its source takes."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from gauntlet.errors import GauntletError

DEFAULT_STORE = "gauntlet-results.db"

StoreOption = Annotated[
    str, typer.Option("--store", help="SQLite file or postgresql+psycopg:// URL.", envvar="GAUNTLET_STORE")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps or auto.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of all randomness.")]
SpreadOption = Annotated[
    bool, typer.Option("--spread", help="With --limit: images at equal distances, as for frames of a video.")
]
DepthRuleOption = Annotated[
    str,
    typer.Option(
        "--depth-rule",
        metavar="metric|estimated",
        help="How corruptions in 3D read depth; DetecBench's own copies are 'estimated'.",
    ),
]

PANEL = "Options of the model"
ModelOptions = Mapping[str, Any]
"""Options by their names in Python, those that were given only: what `load_model` takes."""


def _option(flag: str, help: str, **settings: Any) -> Any:
    return typer.Option(flag, help=help, rich_help_panel=PANEL, **settings)


def read_model_options(
    weights: Annotated[
        str | None,
        _option("--weights", "File with the weights (camvid/, mmseg:, mmdet:, net:, python:, smp:, torchvision:)."),
    ] = None,
    checkpoints: Annotated[
        str | None, _option("--checkpoints", "Folder with OpenMMLab's files, for --zoo, mmseg: and mmdet:.")
    ] = None,
    name: Annotated[str | None, _option("--name", "What the model is called in results.")] = None,
    num_classes: Annotated[
        int | None, _option("--num-classes", "Classes of the model, where it does not say.", min=1)
    ] = None,
    class_names: Annotated[
        str | None, _option("--class-names", "The model's classes, where it has none: car,person,traffic light.")
    ] = None,
    outputs: Annotated[
        str | None, _option("--outputs", "Which of the model's outputs are the dataset's classes, in order: 0,2,1.")
    ] = None,
    mean: Annotated[
        str | None, _option("--mean", "What the model subtracts, on the [0, 1] scale: 0.485,0.456,0.406.")
    ] = None,
    std: Annotated[
        str | None, _option("--std", "What the model divides by, on the [0, 1] scale: 0.229,0.224,0.225.")
    ] = None,
    channel_order: Annotated[
        str | None, _option("--channel-order", "RGB or BGR, what the model was trained on.")
    ] = None,
    stride: Annotated[
        int | None,
        _option("--stride", "Height and width that the model takes are multiples of it; others are padded.", min=1),
    ] = None,
    input_size: Annotated[
        str | None, _option("--input-size", "HEIGHTxWIDTH that images are resized to inside the model: 512x1024.")
    ] = None,
    decode: Annotated[
        str | None, _option("--decode", "How an ONNX detector writes boxes: yolov8, or {name: yolov8, most: 100}.")
    ] = None,
    gives: Annotated[
        str | None, _option("--gives", "What a model of your own gives: logits, or labels for label maps alone.")
    ] = None,
    binary: Annotated[
        bool,
        _option("--binary", "The network has one output per pixel: class 1 where its sigmoid is above 0.5."),
    ] = False,
    runtime: Annotated[
        str | None,
        _option("--runtime", "Who computes an ONNX file: onnx2torch (with gradients) or onnxruntime (without)."),
    ] = None,
    trust: Annotated[
        bool,
        _option("--trust", "Let files run code: pickles, .pt2, OpenMMLab configurations, Python that a store names."),
    ] = False,
) -> dict[str, object]:
    """The options that were given, as `load_model` takes them."""
    read: dict[str, object] = {
        "weights": weights,
        "checkpoints": checkpoints,
        "name": name,
        "num_classes": num_classes,
        "class_names": None if class_names is None else [each.strip() for each in class_names.split(",")],
        "outputs": whole_numbers("--outputs", outputs, ",", "0,2,1"),
        "mean": _channels("--mean", mean),
        "std": _channels("--std", std),
        "channel_order": channel_order,
        "stride": stride,
        "input_size": whole_numbers("--input-size", input_size, "x", "512x1024", count=2),
        "decode": _decode_rule(decode),
        "gives": gives,
        "binary": binary or None,
        "runtime": runtime,
        "trust": trust or None,
    }
    return {option: value for option, value in read.items() if value is not None}


def model_flags(options: ModelOptions) -> list[str]:
    """The words of a command line that give options of a model again."""
    words: list[str] = []
    for option, value in options.items():
        flag = f"--{option.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [flag, json.dumps(value)]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            words += [flag, ("x" if option == "input_size" else ",").join(str(each) for each in value)]
        else:
            words += [flag, str(value)]
    return words


def takes_model_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of a model; the command gets those that were given as `model_options`.

    Args:
        names: only these, as they are called in Python; all by default.
    """
    return takes_options(read_model_options, "model_options", *names)


def takes_options(
    read: Callable[..., object], as_name: str, *names: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of a function; the command gets what the function makes of them as one argument.

    Args:
        read: its parameters are options, annotated as those of a command.
        as_name: keyword of the command that takes what `read` returns.
        names: only these parameters; all by default.
    """
    shared = inspect.signature(read, eval_str=True).parameters
    parameters = [shared[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in names or shared]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != as_name]

        @functools.wraps(command)
        def called(**values: Any) -> None:
            given = {each.name: values.pop(each.name) for each in parameters}
            command(**values, **{as_name: read(**given)})

        # What typer reads the options of a command from: keyword-only ones last, as a signature must have them.
        ordered = sorted([*own, *parameters], key=lambda each: each.kind)
        called.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
        return called

    return decorate


def _channels(option: str, text: str | None) -> list[float] | None:
    """Three numbers, one for each channel, from "a,b,c"."""
    if text is None:
        return None
    from gauntlet.numbers import parse_number

    values = [parse_number(part, option) for part in text.split(",")]
    if len(values) != 3:
        raise GauntletError(f"{option} needs three numbers such as 0.485,0.456,0.406, not '{text}'.")
    return values


def whole_numbers(
    option: str, text: str | None, separator: str, example: str, count: int | None = None
) -> list[int] | None:
    """Whole numbers from a text such as the example, as many as there must be."""
    if text is None:
        return None
    try:
        values = [int(part) for part in text.lower().split(separator)]
    except ValueError:
        values = []
    if not values or (count is not None and len(values) != count):
        raise GauntletError(f"{option} must look like {example}, not '{text}'.")
    return values


def _decode_rule(text: str | None) -> object:
    """The name of a decode rule as it is; a YAML or JSON mapping as a description."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    from gauntlet.yaml_files import parse_yaml

    try:
        return parse_yaml(text)
    except GauntletError:
        raise GauntletError(
            f"--decode {text} is not a YAML or JSON mapping; write for example {{name: yolov8, most: 100}}."
        ) from None
