"""hf: models of Hugging Face transformers, from the hub or from a folder made by `save_pretrained`.

Detectors are in `hf_detection` and `grounding_dino`.

Mask classification (MaskFormer, Mask2Former) has no logits per pixel. Its class scores are those of the papers'
semantic inference: with the class probabilities p_q of a query q, the null class left out, and its mask m_q,

    score(class c, pixel x) = sum over q of p_q(c) sigmoid(m_q(x))

(MaskFormer, arXiv:2107.06278, section 3.4). Scores are used in place of logits, as in SemSegBench; the largest one is
the prediction, but their softmax is flat, so that the confidence of these models is not comparable to that of others.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.code_identity import code_of_packages
from gauntlet.models.contract import GauntletModel, LabelSpace, ModelIdentity, default_names
from gauntlet.models.sources import grounding_dino, hf_detection
from gauntlet.models.sources.adapting import (
    OPTIONS,
    Adapter,
    Picked,
    check_options,
    checkpoint_identity,
    require,
)
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.sources.detecting import Labels
from gauntlet.models.wrapping import Normalisation

MASK_CLASSIFICATION = ("maskformer", "mask2former")
MASK_RESOLUTIONS = ("library", "input")
DETECTORS = (*hf_detection.KINDS, *grounding_dino.KINDS)

# Networks whose position embeddings belong to one size; the others take any.
_ONE_SIZE = ("beit", "data2vec-vision", "dpt")
# What transformers' processors normalise by where the file beside the weights does not say.
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
_USUAL = {
    "segformer": _IMAGENET,
    "upernet": _IMAGENET,
    "maskformer": _IMAGENET,
    "mask2former": _IMAGENET,
    "beit": _HALF,
    "data2vec-vision": _HALF,
    "dpt": _HALF,
    "mobilenet_v2": _HALF,
    **dict.fromkeys(DETECTORS, _IMAGENET),
}
# MobileViT's processor does not normalise, and swaps the channels.
_SWAPPED = ("mobilevit", "mobilevitv2")
_NOT_NORMALISED = (*_SWAPPED, "rt_detr", "rt_detr_v2", "d_fine")
_RESAMPLING = {2: "bilinear", 3: "bicubic"}


@dataclass(frozen=True)
class HuggingFaceModel(ModelSource):
    """A checkpoint on the hub ("owner/name") or in a folder."""

    location: str
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        # A network of transformers may have a backbone of timm, and then its configuration names it.
        packages = ["transformers", *(["timm"] if "timm" in str(self._config) else [])]
        code = code_of_packages(*packages)
        return checkpoint_identity(self.location, self.options, self._commit, code, also=("vocab.txt",))

    def _commit(self) -> str | None:
        """The commit that the revision stands for."""
        commit: str | None = self._config._commit_hash or self.options.get("revision")
        return commit

    @property
    def task(self) -> str:
        return "detection" if self._config.model_type in DETECTORS else "segmentation"

    @property
    def label_space(self) -> LabelSpace:
        chosen = Adapter(self._config.num_labels, class_names=self._labels).overruled(self.options)
        names = default_names(chosen.num_classes) if chosen.class_names is None else tuple(chosen.class_names)
        return LabelSpace(names, chosen.ignore_index)

    @property
    def _labels(self) -> list[str]:
        """The classes of the checkpoint, whatever the user's options choose of them."""
        names = self._config.id2label
        return [str(names[index]) for index in sorted(names)]

    @cached_property
    def _config(self) -> Any:
        """The model's configuration; on the hub a small file."""
        transformers = require("transformers", "hf")
        return self._fetched(transformers.AutoConfig)

    def load(self) -> GauntletModel:
        transformers = require("transformers", "hf")
        kind = self._config.model_type
        if kind in MASK_CLASSIFICATION:
            network: nn.Module = self._fetched(transformers.AutoModelForUniversalSegmentation, **self._safely)
            network = MaskClassScores(network, kind, self.options.get("mask_resolution", "library"))
        elif kind in _semantic_kinds():
            network = self._fetched(transformers.AutoModelForSemanticSegmentation, **self._safely)
            network = Picked(network, lambda output: output.logits)
        elif kind in DETECTORS:
            return self._detector(kind)
        else:
            known = ", ".join([*_semantic_kinds(), *MASK_CLASSIFICATION, *DETECTORS])
            raise GauntletError(
                f"hf:{self.location} is a '{kind}' model, which is neither one for semantic segmentation nor a known "
                f"detector; known: {known}."
            )
        check_options(f"hf:{self.location}", self.options, (*OPTIONS, "revision", "mask_resolution", "trust"))
        adapter = self._adapter(kind).overruled(self.options)
        # Checkpoints in half precision are computed in single precision, like all others.
        return adapter.wrap(network.float(), self.identity)

    def _detector(self, kind: str) -> GauntletModel:
        transformers = require("transformers", "hf")
        address, config, processor = f"hf:{self.location}", self._config, self._processor()
        told = kind in grounding_dino.KINDS
        check_options(address, self.options, grounding_dino.OPTIONS if told else hf_detection.OPTIONS)
        mean, std = _normalisation(kind, processor, self.location, self.options)
        settings: dict[str, Any] = {
            "kind": kind,
            "normalisation": Normalisation(
                self.options.get("mean", mean), self.options.get("std", std), self.options.get("channel_order", "RGB")
            ),
            "resizing": hf_detection.Resizing.of(kind, processor, self.options.get("input_size")),
        }
        if told:
            labels = grounding_dino.read_names(address, self.options)
            tokenizer = self._fetched(transformers.AutoTokenizer)
            prompt = grounding_dino.Prompt.of(address, labels.class_names or (), tokenizer, config.max_text_len)
            network = self._fetched(transformers.AutoModelForZeroShotObjectDetection, **self._safely)
            return grounding_dino.GroundedDetector(network.float(), labels, self.identity, prompt, **settings).freeze()
        names = hf_detection.label_names(config)
        network = self._fetched(transformers.AutoModelForObjectDetection, **self._safely)
        return hf_detection.QueryDetector(
            network.float(), Labels.of(address, names, self.options), len(names), self.identity, **settings
        ).freeze()

    @property
    def _safely(self) -> dict[str, Any]:
        """Only tensors are unpickled, the library's default, unless the user trusts the checkpoint."""
        from transformers import PreTrainedModel

        # Older versions have no way to unpickle anything else.
        settable = "weights_only" in inspect.signature(PreTrainedModel.from_pretrained).parameters
        return {"weights_only": False} if self.options.get("trust") and settable else {}

    def _fetched(self, kind: Any, **options: Any) -> Any:
        """`kind.from_pretrained` of this location, its many errors in one sentence."""
        try:
            with _without_bars():
                return kind.from_pretrained(
                    self.location,
                    revision=self.options.get("revision"),
                    trust_remote_code=bool(self.options.get("trust", False)),
                    **options,
                )
        except pickle.UnpicklingError:
            raise GauntletError(
                f"hf:{self.location} holds more than tensors: unpickling it would run code from the file; pass "
                "trust=True (--trust) if you trust where it comes from."
            ) from None
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> GauntletError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        if Path(self.location).is_dir():
            return GauntletError(f"the folder {self.location} holds no model that transformers can load: {reason}.")
        return GauntletError(
            f"hf:{self.location} is neither a folder here nor in the Hugging Face cache and could not be fetched from "
            f"the hub ({reason}); check the name and the network, or give a folder that save_pretrained wrote."
        )

    def _adapter(self, kind: str) -> Adapter:
        """What the configuration and the image processor's file say."""
        config, processor = self._config, self._processor()
        mean, std = _normalisation(kind, processor, self.location, self.options)
        # Older files have the name without "order".
        swapped = processor.get("do_flip_channel_order", processor.get("do_flip_channels", kind in _SWAPPED))
        return Adapter(
            num_classes=config.num_labels,
            mean=mean,
            std=std,
            channel_order="BGR" if swapped else "RGB",
            class_names=self._labels,
            stride=int(processor.get("size_divisor") or 32) if kind in MASK_CLASSIFICATION else 1,
            input_size=_one_size(kind, config, processor),
            resampling=_RESAMPLING.get(processor.get("resample", 2), "bilinear"),
        )

    def _processor(self) -> dict[str, Any]:
        """The settings of the image processor; empty where the checkpoint has none."""
        from transformers.image_processing_utils import BaseImageProcessor

        try:
            settings, _ = BaseImageProcessor.get_image_processor_dict(
                self.location, revision=self.options.get("revision")
            )
        except (OSError, ValueError):
            return {}
        return dict(settings)


class MaskClassScores(nn.Module):
    """Per-pixel class scores from the queries of a MaskFormer or Mask2Former; see the module.

    Args:
        network: from transformers.
        kind: "maskformer" or "mask2former".
        resolution: of the masks before sigmoid and sum. "library": that of transformers' own post-processing, which is
            the network's for MaskFormer and 384x384 for Mask2Former. "input": the input's, as in the authors' code;
            more exact at borders, and many times the memory.
    """

    def __init__(self, network: nn.Module, kind: str, resolution: str = "library") -> None:
        super().__init__()
        if resolution not in MASK_RESOLUTIONS:
            raise unknown_name("mask_resolution", str(resolution), MASK_RESOLUTIONS)
        self.network = network
        self.kind = kind
        self.resolution = resolution

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        output = self.network(images)
        masks = output.masks_queries_logits  # (N, Q, h, w)
        if self.resolution == "input" or self.kind == "mask2former":
            size = tuple(images.shape[-2:]) if self.resolution == "input" else (384, 384)
            masks = functional.interpolate(masks, size=size, mode="bilinear", align_corners=False)
        classes = output.class_queries_logits.softmax(dim=-1)[..., :-1]  # (N, Q, K), the null class is the last
        return torch.einsum("nqk,nqhw->nkhw", classes, masks.sigmoid())


def source(location: str, options: Mapping[str, Any]) -> ModelSource:
    """hf:FOLDER or hf:OWNER/NAME, with the options of `Adapter`, revision, mask_resolution and trust."""
    if not location:
        raise GauntletError("hf: needs a folder or the name of a model on the hub, as in hf:nvidia/segformer-b0.")
    check_options(f"hf:{location}", options, (*OPTIONS, "revision", "mask_resolution", "trust"))
    folder = Path(location).expanduser()
    if not folder.is_dir() and (location.startswith((".", "/", "~")) or location.count("/") > 1):
        raise GauntletError(f"there is no folder {folder}; hf: takes one that save_pretrained wrote, or a hub name.")
    return HuggingFaceModel(str(folder) if folder.is_dir() else location, dict(options))


@contextmanager
def _without_bars() -> Iterator[None]:
    """Without the library's bars for reading files, which would break into the runner's own progress."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _semantic_kinds() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES

    return list(MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES)


def _normalisation(
    kind: str, processor: Mapping[str, Any], location: str, options: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """Mean and deviation on the [0, 1] scale: (255 f x - mean) / std is (x - mean / 255 f) / (std / 255 f)."""
    mean, std = _USUAL.get(kind, (None, None))
    mean, std = processor.get("image_mean", mean), processor.get("image_std", std)
    if not processor.get("do_normalize", kind not in _NOT_NORMALISED):
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if mean is None or std is None:
        if "mean" in options and "std" in options:
            return [0.0] * 3, [1.0] * 3
        raise GauntletError(f"hf:{location} does not say how its images are normalised; give mean and std.")
    scale = 255 * processor.get("rescale_factor", 1 / 255) if processor.get("do_rescale", True) else 255.0
    return [value / scale for value in mean], [value / scale for value in std]


def _one_size(kind: str, config: Any, processor: Mapping[str, Any]) -> tuple[int, int] | None:
    """The size that images are resized to: BEiT's own, DPT's processor's; None where any will do."""
    if kind not in _ONE_SIZE:
        return None
    size = processor.get("size") if kind == "dpt" else config.image_size
    if size is None:
        size = config.image_size
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return int(height), int(width)
