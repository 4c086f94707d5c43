"""hf: Grounding DINO and MM Grounding DINO, open-vocabulary detectors: the names of the classes are the prompt.

The prompt is "name. name. ... name.", as the library's processor writes it. The network gives a logit for every query
and token. The probability of a class is the mean of the probabilities p_t of its name's tokens, in the authors'
evaluation on COCO (PostProcessCocoGrounding) as in OpenMMLab's (convert_grounding_to_cls_scores), with 300 detections
an image. Its logit, with z_t the logits of the n tokens, is

    logit(mean p_t) = log Σ sigmoid(z_t) - log Σ sigmoid(-z_t)

since 1 - mean p_t is the mean of sigmoid(-z_t). A name of one token has the token's logit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources import hf_detection
from gauntlet.models.sources.detecting import Labels
from gauntlet.models.sources.hf_detection import QueryDetector

KINDS = ("grounding-dino", "mm-grounding-dino")
OPTIONS = tuple(option for option in hf_detection.OPTIONS if option != "outputs")
_MOST = 300
# The network knows the tokens that divide a prompt by their numbers in the vocabulary of BERT.
_DIVIDERS = {"[CLS]": 101, "[SEP]": 102, ".": 1012}


@dataclass(frozen=True)
class Prompt:
    """The names of classes as the network takes them.

    Attributes:
        tokens: (1, T) the whole prompt.
        places: (K, n) where the tokens of every class are; -1 fills up shorter names.
    """

    tokens: torch.Tensor
    places: torch.Tensor

    @classmethod
    def of(cls, address: str, names: Sequence[str], tokenizer: Any, most: int) -> Prompt:
        """Puts the names together.

        Args:
            address: for errors.
            names: of the classes; underscores are blanks.
            tokenizer: of the checkpoint.
            most: how many tokens the network takes.
        """
        if tokenizer.convert_tokens_to_ids(list(_DIVIDERS)) != list(_DIVIDERS.values()):
            raise GauntletError(
                f"{address} has no tokenizer with BERT's vocabulary beside its weights; save the whole processor there."
            )
        phrases = [" ".join(name.replace("_", " ").lower().split()) for name in names]
        tokens = tokenizer(". ".join(phrases) + ".", return_tensors="pt")["input_ids"]
        if tokens.shape[1] > most:
            raise GauntletError(
                f"the names of the {len(names)} classes are {tokens.shape[1]} tokens, but {address} takes {most}; "
                "choose fewer classes or shorter names."
            )
        maps = _label_maps(tokens, most)
        if len(maps) != len(names):
            raise GauntletError(
                f"the {len(names)} class names are {len(maps)} phrases for {address}; every name must have letters or "
                "digits and neither '.' nor '?'."
            )
        places = [each.nonzero().flatten() for each in maps]
        return cls(tokens, nn.utils.rnn.pad_sequence(places, batch_first=True, padding_value=-1))


class GroundedDetector(QueryDetector):
    """A detector that is told its classes behind the contract.

    Args:
        network: gives logits (N, Q, tokens) and boxes as other networks with queries.
        prompt: one phrase per class.
        settings: as `QueryDetector` has them.
    """

    most = _MOST
    tokens: torch.Tensor
    places: torch.Tensor

    def __init__(
        self, network: nn.Module, labels: Labels, identity: ModelIdentity, prompt: Prompt, **settings: Any
    ) -> None:
        super().__init__(network, labels, len(labels.outputs), identity, **settings)
        self.register_buffer("tokens", prompt.tokens, persistent=False)
        self.register_buffer("places", prompt.places, persistent=False)

    def ask(self, images: torch.Tensor, **labels: Any) -> Any:
        return super().ask(images, input_ids=self.tokens.expand(len(images), -1), **labels)

    def label_logits(self, output: Any) -> torch.Tensor:
        tokens = output.logits[..., self.places.clamp(min=0)]  # (N, Q, K, n)
        empty = self.places < 0
        present, absent = (
            functional.logsigmoid(values).masked_fill(empty, float("-inf")).logsumexp(dim=-1)
            for values in (tokens, -tokens)
        )
        return present - absent


def read_names(address: str, options: Mapping[str, Any]) -> Labels:
    """The classes that the user names: this network has none of its own."""
    given = options.get("class_names")
    if given is None or isinstance(given, str) or not list(given):
        raise GauntletError(
            f"{address} finds what it is told to: give class_names, the names of the dataset's classes in their order."
        )
    names = tuple(str(name) for name in given)
    if int(options.get("num_classes", len(names))) != len(names):
        raise GauntletError(f"num_classes is {options['num_classes']}, but {len(names)} class_names are given.")
    return Labels(tuple(range(len(names))), names)


def _label_maps(tokens: torch.Tensor, most: int) -> torch.Tensor:
    """Which tokens are those of each phrase, (phrases, most), by the very function that the library's loss uses."""
    try:
        from transformers.models.grounding_dino.modeling_grounding_dino import build_label_maps
    except ImportError:
        raise GauntletError(
            "the installed transformers has no training loss for Grounding DINO yet; install a newer version."
        ) from None
    maps: torch.Tensor = build_label_maps(torch.empty(1, 0, most), tokens)[0]
    return maps
