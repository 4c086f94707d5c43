"""net: a published network of `models/architectures/published` with a file of its authors' weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.published.catalogue import find, full_name
from gauntlet.models.architectures.published.loading import count_logits, fill
from gauntlet.models.architectures.published.network import PublishedNetwork
from gauntlet.models.code_identity import OWN_CODE
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import OPTIONS, Adapter, check_options, digested
from gauntlet.models.sources.contract import ModelSource, file_digest, make_source
from gauntlet.models.sources.weights import read_state, weights_path

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class NetModel(ModelSource):
    """A network of the catalogue and the file with its weights."""

    network: str
    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        settings = {**digested(self.options), "network": self.network}
        digest = file_digest([self.path], settings)
        return ModelIdentity(self.options.get("name") or self.network, digest, code=OWN_CODE)

    def load(self) -> GauntletModel:
        state = read_state(self.path, trust=bool(self.options.get("trust")))
        wanted = self.options.get("num_classes")
        logits = count_logits(self.network, state) or wanted or find(self.network).classes
        if wanted is not None and wanted > logits:
            raise GauntletError(f"num_classes is {wanted}, but the weights {self.path} have {logits} logits.")
        network = PublishedNetwork(logits, network=self.network)
        left_out = fill(network, state, self.path)
        for what, names in (("unused", left_out.unused), ("auxiliary", left_out.auxiliary)):
            if names:
                _LOG.info("%s: %d %s weights left out: %s", self.path, len(names), what, ", ".join(names))
        adapter = Adapter(logits, stride=network.stride)
        return adapter.overruled(self.options).wrap(network, self.identity)


def source(name: str, options: Mapping[str, Any]) -> ModelSource:
    """net:NAME, with the options of every source, weights and trust."""
    address = f"net:{name}"
    network = full_name(name)
    behind = find(network).behind
    if behind is not None:
        prefix, _, rest = behind.partition(":")
        return make_source(prefix, rest, options)
    check_options(address, options, (*OPTIONS, "weights", "trust"))
    return NetModel(network, weights_path(address, options.get("weights")), dict(options))
