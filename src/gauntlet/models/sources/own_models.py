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

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import WRAPPED, check_options, digested
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.wrapping import wrap_model
from gauntlet.own_code import find_callable

WRAPPING = ("task", *WRAPPED, "name", "trust")
"""Options of `wrap_model`, and trust."""


@dataclass(frozen=True)
class ScriptModel(ModelSource):
    """A TorchScript archive (.pt) or an exported program (.pt2)."""

    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        settings = digested(_for_wrapping(self.options))
        return ModelIdentity(self.options.get("name") or self.path.stem, file_digest([self.path], settings))

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
        model = wrap_model(module, **{**_for_wrapping(self.options), "name": None})
        model._identity = self.identity
        return model


@dataclass(frozen=True)
class PythonModel(ModelSource):
    """What a callable returns: "package.module:function". It gets the options it names, `wrap_model` the others."""

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _model(self) -> GauntletModel:
        function = find_callable(self.target)
        wanted = {name: self.options[name] for name in _parameters(function) if name in self.options}
        others = {name: value for name, value in self.options.items() if name not in wanted}
        check_options(f"python:{self.target}", others, WRAPPING)
        built = function(**wanted)
        if isinstance(built, GauntletModel):
            built._identity = self._marked(built.identity, built, wanted)
            built.freeze()
            return built
        if not isinstance(built, nn.Module):
            raise GauntletError(f"python:{self.target} returned a {type(built).__name__}; expected a torch module.")
        _need_classes(f"python:{self.target}", self.options)
        settings = {name: value for name, value in self.options.items() if name in WRAPPING and name != "trust"}
        model = wrap_model(built, **{"name": self.target, **settings})
        model._identity = self._marked(model.identity, built, wanted)
        return model

    def _marked(self, identity: ModelIdentity, module: nn.Module, wanted: Mapping[str, Any]) -> ModelIdentity:
        """The identity with what the weights do not tell: the callable's options and the layers themselves.

        A model that was never given a name is called by its address: a class name is that of many networks. Version
        0.1.0 did call it so, and its results are stored under that name.
        """
        digest = identity.digest + file_digest([], {**wanted, "layers": repr(module)})[:8]
        if "name" in self.options:
            return ModelIdentity(self.options["name"], digest)
        if identity.name in (type(module).__name__, type(getattr(module, "module", None)).__name__):
            return ModelIdentity(self.target, digest, identity.name)
        return ModelIdentity(identity.name, digest)

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


def _parameters(function: Any) -> list[str]:
    """The names of a callable's parameters; none where it does not say (builtins)."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _need_classes(address: str, options: Mapping[str, Any]) -> None:
    if "num_classes" not in options:
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
