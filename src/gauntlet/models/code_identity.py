"""Digest of the code of a model: classes and functions, files of the user's project, packages, plain attributes.

Weights alone do not tell two networks apart: a changed `forward`, helper module or attribute gives other figures with
the same weights. Files of the user's own project count by their text, installed packages by name and version. Gauntlet
and torch count for nothing: the probe (`models.probe`) guards them, and results record their versions.

The digest holds no address, no absolute path and no id, so that it is the same in every process and on every machine.
"""

from __future__ import annotations

import ast
import builtins
import dis
import enum
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import nn

LARGEST = 1 << 16
"""Elements of an array or a tensor that is no parameter and no buffer, up to which its content counts."""

_NOT_COUNTED = frozenset({"builtins", "gauntlet", "torch", "torchgen", "functorch", *sys.stdlib_module_names}) - {
    "__main__"
}
_MAIN = ("__main__", "__mp_main__")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|0x[0-9a-fA-F]{8,}")
_GAUNTLET = Path(__file__).resolve().parent.parent
_STANDARD_LIBRARY = tuple(Path(sysconfig.get_paths()[name]).resolve() for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
# What Gauntlet notes down on a model; it changes no answer.
_NOTED = frozenset({"_identity", "origin", "facts", "preparation"})
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_PLAIN = (type(None), bool, int, float, complex, bytes)


def code_of(*things: object) -> str:
    """Digest of the code and the plain attributes of networks, functions, classes or objects, 16 hex digits.

    The weights of these networks do not count: `weights_digest` has them. Those of networks that they hold beside the
    tree of their modules do.
    """
    collected = _Collected()
    return collected.digest([collected.root(thing) for thing in collected.known(things)])


def code_of_class(kind: type) -> str:
    """Digest of the code of a class and its bases; `OWN_CODE` where all of it is Gauntlet's or torch's."""
    collected = _Collected()
    collected.value(kind)
    return collected.digest([])


def code_of_others(*things: object) -> str:
    """Digest of the functions and classes among some that are not Gauntlet's own; "" where all are."""
    package = __name__.partition(".")[0]
    others = [thing for thing in things if str(getattr(thing, "__module__", "")).partition(".")[0] != package]
    return code_of(*others) if others else ""


def code_of_packages(*names: str) -> str:
    """Digest of installed packages, by the names that they are imported by, and their versions."""
    return _digest([[], {}, sorted(f"{name} {_version(name)}" for name in names)])


def code_of_target(target: str, folders: Sequence[str] = ()) -> str:
    """Digest of the code behind "package.module:callable", found by its files: nothing is imported or run.

    Args:
        target: module and attribute, without a prefix.
        folders: where to look besides everything that Python knows.
    """
    module = target.partition(":")[0]
    collected = _Collected([str(Path.cwd()), *folders])
    collected.add_module(module)
    return collected.digest([target])


def code_of_files(files: Iterable[Path]) -> str:
    """Digest of files of code, by their names and contents."""
    return _digest([[path.name, _read(path).digest] for path in files])


def joined_codes(codes: Sequence[str]) -> str:
    """Digest of a model that is made of several; things of Gauntlet change nothing. Empty where a part has none."""
    if not all(codes):
        return ""
    counted = [code for code in codes if code != OWN_CODE]
    if len(counted) < 2:
        return counted[0] if counted else OWN_CODE
    return _digest(list(codes))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


OWN_CODE = _digest([[], {}, []])
"""Digest of the models that are Gauntlet's own."""


class _Collected:
    """What is found on the way through a model.

    Attributes:
        files: modules of the user's project with their files.
        packages: names by which installed packages are imported.
    """

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self.files: dict[str, Path] = {}
        self.packages: set[str] = set()
        self._folders = folders
        self._classes: list[list[Any]] = []
        self._seen: dict[int, tuple[int, object]] = {}  # objects are kept, so that no id is used twice
        self._around: set[int] = set()

    def digest(self, told: Sequence[Any]) -> str:
        """Digest of everything found, and of what was told about it."""
        texts = {name: _read(path).digest for name, path in self.files.items()}
        packages = sorted(f"{name} {_version(name)}" for name in self.packages)
        return _digest([[*told, *self._classes], texts, packages])

    def known(self, things: Sequence[object]) -> Sequence[object]:
        """The things; the modules of their trees are known from now on, wherever else they are found."""
        for thing in things:
            for part in thing.modules() if isinstance(thing, nn.Module) else ():
                self._see(part)
        return things

    def root(self, thing: object) -> Any:
        """A thing whose code is asked for."""
        if isinstance(thing, nn.Module):
            return [[name, *self._part(part)] for name, part in thing.named_modules()]
        return self.value(thing)

    def _see(self, value: object) -> bool:
        """Whether a thing is met for the first time."""
        if id(value) in self._seen:
            return False
        self._seen[id(value)] = (len(self._seen), value)
        return True

    def value(self, value: object) -> Any:
        """A value as JSON, without addresses and absolute paths."""
        if isinstance(value, enum.Enum):
            return [self._class(type(value)), value.name]
        if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
            return _array(value)
        if isinstance(value, (*_PLAIN, torch.dtype, torch.Size, range, slice)):
            return repr(value)
        if isinstance(value, (str, PurePath)):
            return _without_place(str(value))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.BuiltinFunctionType):
            return _called(value)
        if isinstance(value, (list, tuple, set, frozenset, Mapping)):
            return self._container(value)
        if not self._see(value):
            return ["seen", self._seen[id(value)][0]]
        if isinstance(value, nn.Module):
            return self._network(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return [self.value(value.__func__), self.value(value.__self__)]
        if isinstance(value, functools.partial):
            return [self.value(value.func), self.value(value.args), self.value(value.keywords)]
        if isinstance(value, (staticmethod, classmethod)):
            return self.value(value.__func__)
        if isinstance(value, property):
            return [self.value(value.fget), self.value(value.fset)]
        if isinstance(value, types.ModuleType):
            self.add_module(value.__name__)
            return value.__name__
        return self._object(value)

    def add_module(self, name: str) -> None:
        """Adds a module of the user's project, and those that it imports; a package is noted by its name."""
        waiting = [name]
        while waiting:
            for found, path in _located(waiting.pop(), self._folders).items():
                if found in self.files:
                    continue
                self.files[found] = path
                waiting += _read(path).imports(found, path.name == "__init__.py")

    def _container(self, value: Any) -> Any:
        """The parts of a container; equal ones are told alike, whether or not they are one object."""
        if id(value) in self._around:
            return "around"
        self._around.add(id(value))
        try:
            if isinstance(value, Mapping):
                pairs = [[self.value(key), self.value(each)] for key, each in value.items()]
                return sorted(pairs, key=lambda pair: json.dumps(pair[0]))
            parts = [self.value(each) for each in value]
            return sorted(parts, key=json.dumps) if isinstance(value, (set, frozenset)) else parts
        finally:
            self._around.discard(id(value))

    def _network(self, network: nn.Module) -> Any:
        """A network that is held beside the tree of modules: with its weights, which the tree's digest lacks."""
        for part in network.modules():
            self._see(part)
        weights = {name: _array(value, None) for name, value in network.named_parameters()}
        weights |= {name: _array(value, None) for name, value in network.named_buffers()}
        return [weights, self.root(network)]

    def _part(self, part: nn.Module) -> list[Any]:
        """Class, settings as printed, plain attributes, hooks, and the buffers that no file of weights keeps."""
        told: list[Any] = [self._class(type(part)), _printed(part), _generated(part)]
        attributes = {name: value for name, value in vars(part).items() if _is_setting(part, name)}
        told.append({name: self.value(attributes[name]) for name in sorted(attributes)})
        fleeting = getattr(part, "_non_persistent_buffers_set", ())
        told.append({name: _array(part._buffers[name], None) for name in sorted(fleeting)})
        told.append([self.value(hook) for hooks in _HOOKS for hook in vars(part).get(hooks, {}).values()])
        return told

    def _object(self, value: object) -> Any:
        """An object of a class of the user's own with its attributes; of any other class only the name."""
        named = self._class(type(value))
        if not (_is_own(type(value).__module__) or isinstance(value, types.SimpleNamespace)):
            return named
        slots = [name for each in type(value).__mro__ for name in _texts(vars(each).get("__slots__", ()))]
        held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
        return [named, {name: self.value(held[name]) for name in sorted(held)}]

    def _class(self, kind: type) -> str:
        """The name of a class; the code of it and of its bases is added."""
        for each in kind.__mro__:
            if not self._counts(each.__module__) or not self._see(each):
                continue
            members = {name: member for name, member in vars(each).items() if _is_member(name)}
            told = {name: self.value(members[name]) for name in sorted(members)}
            self._classes.append([_called(each), told])
        return _called(kind)

    def _function(self, function: types.FunctionType) -> Any:
        """A function by its name, its text where no file of a module has it, and all that it holds."""
        held: list[Any] = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        held += [function.__defaults__, function.__kwdefaults__]
        told: list[Any] = [_called(function), [self.value(each) for each in held]]
        if not self._counts(function.__module__):
            return told
        in_file = function.__module__ in self.files
        if not in_file or function.__name__ == "<lambda>":
            told.append(_source(function))
        if not in_file:
            names = sorted(_globals_of(function.__code__) & set(function.__globals__))
            told.append({name: self.value(function.__globals__[name]) for name in names})
        return told

    def _counts(self, module: str | None) -> bool:
        """Whether the text of what a module defines counts; adds its file, or the package that it is of."""
        if not isinstance(module, str) or module in _MAIN:
            return True
        top = module.partition(".")[0]
        if top in _NOT_COUNTED:
            return False
        if not _is_own(module):
            self.packages.add(top)
            return False
        self.add_module(module)
        return True


@dataclass(frozen=True)
class _Text:
    """A file of code.

    Attributes:
        digest: of its text; line ends do not count.
        imported: level, module and names of its imports.
    """

    digest: str
    imported: tuple[tuple[int, str, tuple[str, ...]], ...]

    def imports(self, module: str, is_package: bool) -> Iterator[str]:
        """The full names of what it imports, and of what might be modules among them.

        Args:
            module: its own name.
            is_package: whether it is the `__init__` of a package.
        """
        parts = module.split(".")
        for level, name, members in self.imported:
            base = parts[: len(parts) - level + is_package] if level else []
            full = ".".join([*base, *([name] if name else [])])
            yield full
            yield from (f"{full}.{member}" for member in members if member != "*")


def _read(path: Path) -> _Text:
    status = path.stat()
    return _parsed(str(path), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=4096)
def _parsed(path: str, changed: int, size: int) -> _Text:
    """The file at a path; read anew where it has another time or size."""
    content = Path(path).read_bytes().replace(b"\r\n", b"\n")
    found: list[tuple[int, str, tuple[str, ...]]] = []
    try:
        tree = ast.parse(content) if path.endswith(".py") else ast.Module([], [])
    except (SyntaxError, ValueError):
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, each.name, ()) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", tuple(each.name for each in node.names)))
    return _Text(hashlib.sha256(content).hexdigest(), tuple(found))


def _located(name: str, folders: Sequence[str] = ()) -> dict[str, Path]:
    """Files of a module and of the packages around it, by name, as far as they are the user's own; runs nothing."""
    files: dict[str, Path] = {}
    parts = name.split(".")
    if parts[0] in _NOT_COUNTED or parts[0] in _MAIN or not parts[0]:
        return files
    spec = _top_spec(parts[0], folders)
    for depth in range(len(parts)):
        if spec is None:
            break
        if spec.origin is not None and (path := Path(spec.origin)).is_file():
            if not _is_own_file(path):
                break
            files[".".join(parts[: depth + 1])] = path.resolve()
        places = spec.submodule_search_locations
        if places is None or depth + 1 == len(parts):
            break
        spec = PathFinder.find_spec(".".join(parts[: depth + 2]), list(places))
    return files


def _top_spec(name: str, folders: Sequence[str]) -> Any:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        found = None
    return PathFinder.find_spec(name, list(folders)) if found is None and folders else found


def _is_own(module: str) -> bool:
    """Whether a module that is loaded is of the user's project; one without a file was made in this process."""
    if module in _MAIN:
        return True
    if module.partition(".")[0] in _NOT_COUNTED:
        return False
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    return _is_own_file(Path(file)) if file else True


@functools.lru_cache(maxsize=4096)
def _is_own_file(path: Path) -> bool:
    """Whether a file belongs to the user's project: not to an installed package, to Python or to Gauntlet."""
    if any(part in _INSTALLED for part in path.parts):
        return False
    return not any(path.resolve().is_relative_to(folder) for folder in (_GAUNTLET, *_STANDARD_LIBRARY))


@functools.lru_cache(maxsize=256)
def _version(package: str) -> str:
    """The version of what is imported by a name, "" where it is not installed; without what says which processor."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        try:
            there = importlib.util.find_spec(package) is not None
        except (ImportError, ValueError):
            there = package in sys.modules
        names = importlib.metadata.packages_distributions().get(package, []) if there else []
        known = sorted({f"{name} {importlib.metadata.version(name)}" for name in names})
        version = ", ".join(known) or str(getattr(sys.modules.get(package), "__version__", ""))
    return version.partition("+")[0]


def _array(value: Any, largest: int | None = LARGEST) -> list[Any]:
    """Type, shape and content of an array or a tensor."""
    if isinstance(value, torch.Tensor):
        told = [str(value.dtype), list(value.shape)]
        if value.is_meta or (largest is not None and value.numel() > largest):
            return told
        value = value.detach().int_repr() if value.is_quantized else value.detach()
        dense = (value.to_dense() if value.layout != torch.strided else value).cpu().contiguous()
        content = dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""
    elif value is None:
        return []
    else:
        array = np.asarray(value)
        told = [str(array.dtype), list(array.shape)]
        if largest is not None and array.size > largest:
            return told
        content = _ADDRESS.sub("", repr(array.tolist())).encode() if array.dtype.hasobject else array.tobytes()
    return [*told, hashlib.sha256(content).hexdigest()[:16]]


def _is_setting(part: nn.Module, name: str) -> bool:
    """Whether an attribute of a module is its own, not one that Gauntlet or torch note down on it."""
    if name in _OF_EVERY_MODULE or (name in _NOTED and hasattr(part, "_identity")):
        return False
    made_in = type(part).__module__
    ours = made_in.partition(".")[0] in _NOT_COUNTED
    return not (ours and (name.startswith("_") or made_in.startswith("torch._dynamo")))


def _printed(part: nn.Module) -> str:
    """The settings of a layer as it prints them."""
    try:
        return _ADDRESS.sub("", part.extra_repr())
    except Exception:  # the user's code, which may fail in any way
        return ""


def _generated(part: nn.Module) -> str:
    """The code of a module that was traced, scripted or exported: no file has it."""
    if not isinstance(part, (torch.jit.ScriptModule, torch.fx.GraphModule)):
        return ""
    try:
        return str(part.code)
    except (AttributeError, RuntimeError):  # a scripted container has no forward
        return ""


def _called(thing: Any) -> str:
    """Module and name of a class or a function; the main module has one name in every process."""
    module = getattr(thing, "__module__", None) or ""
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{_MAIN[0] if module in _MAIN else module}.{name}"


def _is_member(name: str) -> bool:
    """Whether an attribute of a class may change what it does, and is not what Python notes down about it."""
    return name not in _BOOKKEEPING


_BOOKKEEPING = frozenset(
    {
        *("__abstractmethods__", "__annotations__", "__dict__", "__doc__", "__firstlineno__", "__match_args__"),
        *("__module__", "__parameters__", "__orig_bases__", "__qualname__", "__slots__", "__static_attributes__"),
        *("__weakref__", "_abc_impl", "__dataclass_fields__", "__dataclass_params__", "__annotate__", "__classcell__"),
        *("__annotate_func__", "__annotations_cache__"),
    }
)


def _texts(value: Any) -> Sequence[str]:
    return (value,) if isinstance(value, str) else tuple(value)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # not filled yet
        return False


def _source(function: Callable[..., Any]) -> Any:
    """The text of a function; its compiled code where there is no text, as in a program given by -c."""
    try:
        return inspect.getsource(function).replace("\r\n", "\n")
    except (OSError, TypeError):
        return _compiled(function.__code__)


def _compiled(code: types.CodeType) -> list[Any]:
    """Instructions, constants and names of compiled code; no file name and no line."""
    constants = [_constant(each) for each in code.co_consts]
    names = [code.co_names, code.co_varnames, code.co_freevars]
    return [code.co_code.hex(), constants, *(list(each) for each in names)]


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _compiled(value)
    if isinstance(value, (tuple, frozenset)):
        parts = [_constant(each) for each in value]
        return sorted(parts, key=json.dumps) if isinstance(value, frozenset) else parts
    return repr(value)


def _globals_of(code: types.CodeType) -> set[str]:
    """Names of the globals that compiled code reads; those of Python itself are no user's."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_of(constant)
    return {name for name in names if not hasattr(builtins, name)}


def _without_place(text: str) -> str:
    """A text without addresses; of an absolute path only the last part."""
    place = os.path.isabs(text) and "\n" not in text
    return "str " + (PurePath(text).name if place else _ADDRESS.sub("", text))
