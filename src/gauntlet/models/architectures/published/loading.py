"""An authors' state dict into a published network: names translated, everything accounted for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import State
from gauntlet.models.architectures.published.network import PublishedNetwork

WRAPPERS = ("module.", "model.")
"""What data-parallel training and training programs put before every name, in this order."""
NAMED_AT_MOST = 6


@dataclass(frozen=True)
class LeftOut:
    """The authors' names that a network has no use for.

    Attributes:
        unused: weights that inference never reads.
        auxiliary: weights of heads that only training needs, where the network was built without them.
    """

    unused: tuple[str, ...]
    auxiliary: tuple[str, ...]


def unwrapped(state: Mapping[str, torch.Tensor]) -> State:
    """A state dict without the prefixes of training programs."""
    result: State = {}
    for name, value in state.items():
        for wrapper in WRAPPERS:
            name = name.removeprefix(wrapper)
        result[name] = value
    return result


def count_logits(name: str, state: Mapping[str, torch.Tensor]) -> int | None:
    """How many logits the weights of a network have; None where its classifier is not among them.

    Args:
        name: of the network.
        state: the authors' names, or ours, to tensors.
    """
    few, more = 3, 5
    with torch.device("meta"):
        small, large = (PublishedNetwork(logits, network=name) for logits in (few, more))
    larger = large.state_dict()
    places = {
        key: axis
        for key, value in small.state_dict().items()
        for axis, (here, there) in enumerate(zip(value.shape, larger[key].shape, strict=True))
        if (here, there) == (few, more)
    }
    plain = unwrapped(state)
    for translated in (plain, small.rename_published(plain)):
        for key, axis in places.items():
            if key in translated and translated[key].ndim > axis:
                return translated[key].shape[axis]
    return None


def fill(network: PublishedNetwork, state: Mapping[str, torch.Tensor], where: object) -> LeftOut:
    """Loads the authors' weights, or a state dict of ours; what is missing or unknown is an error that lists it.

    Args:
        network: with the number of logits of the weights.
        state: names to tensors.
        where: the file they are from, for errors.
    """
    plain = unwrapped(state)
    expected = network.state_dict()
    if set(plain) == set(expected):
        translated, unused, ours = plain, [], dict.fromkeys(plain, "")
    else:
        unused = [name for name in plain if any(re.search(pattern, name) for pattern in network.row.unused)]
        used = {name: value for name, value in plain.items() if name not in unused}
        ours = {next(iter(network.rename_published({name: value}))): name for name, value in used.items()}
        translated = network.rename_published(used)
    # Counters of old batch norms are missing in files written before PyTorch 0.4.1; nothing reads them here.
    missing = [name for name in expected if name not in translated and not name.endswith("num_batches_tracked")]
    unknown = [name for name in translated if name not in expected]
    auxiliary = [] if len(network.auxiliary) else [name for name in unknown if name.startswith("auxiliary.")]
    left_over = [ours[name] for name in unknown if name not in auxiliary]
    shapes = [
        f"{name} is {tuple(value.shape)} there and {tuple(expected[name].shape)} here"
        for name, value in translated.items()
        if name in expected and value.shape != expected[name].shape
    ]
    for problem, names in (
        ("tensors are missing", missing),
        ("tensors are unknown", left_over),
        ("shapes differ", shapes),
    ):
        if names:
            shown = ", ".join(names[:NAMED_AT_MOST]) + (", ..." if len(names) > NAMED_AT_MOST else "")
            raise GauntletError(f"the weights {where} do not fit {network.name}: {len(names)} {problem}: {shown}.")
    network.load_state_dict({name: value for name, value in translated.items() if name in expected}, strict=False)
    return LeftOut(tuple(unused), tuple(ours[name] for name in auxiliary))
