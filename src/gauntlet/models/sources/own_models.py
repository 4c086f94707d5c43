"""Models of the user's own: TorchScript or exported programs (script:), any callable (python:)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.code_identity import OWN_CODE, code_of, joined_codes
from gauntlet.models.contract import GauntletModel, ModelIdentity, SegmentationModel
from gauntlet.models.network_outputs import check_binary_classes
from gauntlet.models.sources.adapting import WRAPPED, Adapter, check_options, digested
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.sources.option_values import check_values
from gauntlet.models.sources.weights import fill, read_state, weights_path
from gauntlet.models.wrapping import WrappedSegmentation, wrap_model
from gauntlet.own_code import find_callable

AROUND = ("input_size", "outputs", "binary")
"""Options that put something around the network before it is wrapped: see `Adapter`."""
WRAPPING = ("task", *WRAPPED, *AROUND, "name", "gives", "trust")
"""Options of `wrap_model`, those around the network, and trust."""


@dataclass(frozen=True)
class ScriptModel(ModelSource):
    """A TorchScript archive (.pt) or an exported program (.pt2)."""

    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        settings = digested(_for_wrapping(self.options))
        digest = file_digest([self.path], settings)  # of the code too: the file has it
        return ModelIdentity(self.options.get("name") or self.path.stem, digest, code=OWN_CODE)

    @property
    def needs_num_classes(self) -> bool:
        return _lacks_classes(self.options)

    def load(self) -> GauntletModel:
        _need_classes(f"script:{self.path}", self.options)
        if self.path.suffix == ".pt2" and not self.options.get("trust"):
            # torch.export.load falls back to plain pickles and evaluates the symbolic sizes of the graph.
            raise GauntletError(
                f"{self.path} is an exported program, and loading one can run code from the file; pass trust=True "
                "(--trust) if you trust where it comes from, or use TorchScript or ONNX."
            )
        try:
            if self.path.suffix == ".pt2":
                module: nn.Module = torch.export.load(self.path).module()
                # An exported module has its mode baked in and refuses to be switched.
                module.eval = lambda: module  # type: ignore[method-assign]
                module.train = lambda mode=True: module  # type: ignore[method-assign]
            else:
                module = torch.jit.load(self.path, map_location="cpu")  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise GauntletError(f"{self.path} is not a TorchScript archive or exported program: {reason}") from None
        model = _wrapped(module, self.options)
        model._identity = self.identity
        return model


@dataclass(frozen=True)
class PythonModel(ModelSource):
    """What a callable returns: "package.module:function". It gets the options it names, `wrap_model` the others.

    A file of weights that the callable does not ask for is loaded into the network.
    """

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_num_classes(self) -> bool:
        if not _lacks_classes(self.options):
            return False
        parameter = inspect.signature(self._function).parameters.get("num_classes") if self._parameters else None
        required = parameter is not None and parameter.default is inspect.Parameter.empty
        return required or not isinstance(self._built, GauntletModel)

    @cached_property
    def _function(self) -> Any:
        """The callable."""
        return find_callable(self.target)

    @cached_property
    def _parameters(self) -> list[str]:
        """The names of the callable's parameters; none where it does not say (builtins)."""
        function = self._function
        try:
            return list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return []

    @cached_property
    def _wanted(self) -> dict[str, Any]:
        """The options that the callable names."""
        return {name: self.options[name] for name in self._parameters if name in self.options}

    @cached_property
    def _others(self) -> dict[str, Any]:
        """The options that it does not name: those of `wrap_model`, and weights."""
        others = {name: value for name, value in self.options.items() if name not in self._wanted}
        check_options(f"python:{self.target}", others, (*WRAPPING, "weights"))
        return others

    @cached_property
    def _built(self) -> object:
        """What the callable returned, with its weights."""
        weights = self._others.get("weights")
        try:
            built = self._function(**self._wanted)
        except GauntletError:
            raise
        except Exception as error:  # the user's code, which may fail in any way
            raise GauntletError(f"python:{self.target} could not build the model: {_said(error)}") from error
        if weights is not None and isinstance(built, nn.Module):
            path = weights_path(f"python:{self.target}", weights)
            fill(built, read_state(path, trust=bool(self.options.get("trust"))), path)
        return built

    @cached_property
    def _model(self) -> GauntletModel:
        built, wanted = self._built, self._wanted
        if isinstance(built, GauntletModel):
            chosen = self._chosen(built, self._others)
            built._identity = self._marked(built.identity, built, {**wanted, **chosen})
            built.freeze()
            return built
        asked = self.options.get("gives") == "labels" and callable(built)
        if not isinstance(built, nn.Module) and not asked:
            raise GauntletError(
                f"python:{self.target} returned a {type(built).__name__}; expected a torch module, or with "
                "gives=labels (--gives labels) anything that can be called with images and returns label maps."
            )
        _need_classes(f"python:{self.target}", self.options)
        # What a callable names it may do itself: num_classes counts for both, nothing is resized or chosen twice.
        settings = {
            name: value
            for name, value in self.options.items()
            if name in WRAPPING and not (name in AROUND and name in wanted)
        }
        model = _wrapped(built, {"name": self.target, **settings})
        around = {name: settings[name] for name in AROUND if name in settings}
        model._identity = self._marked(model.identity, built, {**wanted, **around})
        return model

    def _chosen(self, model: GauntletModel, others: Mapping[str, Any]) -> dict[str, Any]:
        """Puts the outputs of a model in the order that the user asks for; an error for what it has settled itself."""
        agreed = {"num_classes": model.num_classes, "class_names": model.class_names, "task": model.task}
        given = {**others, "class_names": tuple(others.get("class_names", model.class_names))}
        settled = [
            name
            for name, value in given.items()
            if name not in ("outputs", "name", "trust", "weights") and (name not in agreed or agreed[name] != value)
        ]
        if settled:
            raise GauntletError(
                f"python:{self.target} returns a model that is wrapped already, so {', '.join(settled)} would have no "
                "effect; return the torch module, or set it where the model is wrapped."
            )
        if "outputs" not in others:
            return {}
        if not isinstance(model, WrappedSegmentation):
            raise GauntletError(f"outputs cannot be chosen of a {type(model).__name__}, which is wrapped already.")
        adapter = Adapter(model.num_classes, class_names=model.class_names).overruled(others)
        model.module = adapter.around(model.module)
        model.num_classes, model.class_names = adapter.num_classes, tuple(adapter.class_names or ())
        return {"outputs": list(adapter.outputs or ())}

    def _marked(self, identity: ModelIdentity, module: Any, wanted: Mapping[str, Any]) -> ModelIdentity:
        """The identity with what the weights do not tell: the callable, its options and the layers themselves.

        A model that was never given a name is called by its address: a class name is that of many networks. Version
        0.1.0 did call it so, and its results are stored under that name.
        """
        layers = repr(module) if isinstance(module, nn.Module) else type(module).__name__  # the rest is an address
        digest = identity.digest + file_digest([], {**wanted, "layers": layers})[:8]
        code = joined_codes([identity.code, code_of(self._function)])
        if "name" in self.options:
            return ModelIdentity(self.options["name"], digest, code=code)
        if identity.name in (type(module).__name__, type(getattr(module, "module", None)).__name__):
            return ModelIdentity(self.target, digest, identity.name, code)
        return ModelIdentity(identity.name, digest, code=code)

    @property
    def identity(self) -> ModelIdentity:
        return self._model.identity

    @property
    def task(self) -> str:
        return self._model.task

    def load(self) -> GauntletModel:
        return self._model


def _for_wrapping(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `wrap_model` takes."""
    return {name: value for name, value in options.items() if name != "trust"}


def _wrapped(module: Any, options: Mapping[str, Any]) -> SegmentationModel:
    """A network of the user's own as a model."""
    check_values(str(options.get("name", "")) or "of your own", options)
    if options.get("binary"):
        check_binary_classes(options.get("num_classes"))
        count = 2
    else:
        count = len(options["outputs"]) if "outputs" in options else options["num_classes"]
    if options.get("num_classes", count) != count and not options.get("binary"):
        raise GauntletError(f"num_classes is {options['num_classes']}, but {count} outputs are chosen.")
    shaped = {name: options[name] for name in ("mean", "std", *AROUND) if name in options}
    settings = {name: value for name, value in _for_wrapping(options).items() if name not in AROUND}
    if settings.get("gives") == "labels":
        fixed = [name for name in AROUND if name in options]
        if fixed:
            raise GauntletError(f"{', '.join(fixed)} cannot be set for a model that gives label maps; leave it out.")
        return wrap_model(module, **{**settings, "num_classes": count})
    return wrap_model(Adapter(count, **shaped).around(module), **{**settings, "num_classes": count})


def _said(error: Exception) -> str:
    """What the user's code failed with, as the end of a sentence."""
    return f"{type(error).__name__}: {first_line(error)}"


def _lacks_classes(options: Mapping[str, Any]) -> bool:
    return "num_classes" not in options and "outputs" not in options and not options.get("binary")


def _need_classes(address: str, options: Mapping[str, Any]) -> None:
    if _lacks_classes(options):
        raise GauntletError(f"{address} needs num_classes (and usually mean and std) to be given.")


def script(path: str, options: Mapping[str, Any]) -> ModelSource:
    """script:PATH, with the options of `wrap_model`."""
    if not Path(path).is_file():
        raise GauntletError(f"there is no file {path}; script: takes the path of a TorchScript archive.")
    check_options(f"script:{path}", options, WRAPPING)
    return ScriptModel(Path(path), dict(options))


def python(target: str, options: Mapping[str, Any]) -> ModelSource:
    """python:package.module:callable, with the options of `wrap_model`."""
    return PythonModel(target, dict(options))
