"""mmseg: a configuration and a checkpoint of OpenMMLab's framework, in the user's own OpenMMLab environment.

A configuration is Python code and a checkpoint a pickle, so both need trust=True. Inference is the model's own, with
the mode of its configuration (whole images, or OpenMMLab's sliding windows).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import OPTIONS, Adapter, check_options, digested
from gauntlet.models.sources.contract import ModelSource, file_digest


@dataclass(frozen=True)
class OpenMMLabModel(ModelSource):
    """A configuration (a file, or the name of one in the package) and a checkpoint (a file or an address)."""

    config: str
    checkpoint: str
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        settings = digested(self.options) | {"config": Path(self.config).stem}
        file = Path(self.checkpoint)
        if file.is_file():
            files = [*([Path(self.config)] if Path(self.config).is_file() else []), file]
            digest = file_digest(files, settings)
        else:
            # OpenMMLab's addresses end in a digest of the file.
            digest = file_digest([], settings | {"checkpoint": self.checkpoint})
        return ModelIdentity(self.options.get("name") or Path(self.config).stem, digest)

    def load(self) -> GauntletModel:
        mmseg = _require_mmseg()
        config = _config_file(mmseg, self.config)
        try:
            network: nn.Module = mmseg.apis.init_model(str(config), self.checkpoint, device="cpu")
        # OpenMMLab raises whatever its registries, its configuration code and the download raise.
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise GauntletError(f"mmseg could not load {self.config} with {self.checkpoint}: {reason}.") from error
        adapter = _adapter(network).overruled(self.options)
        return adapter.wrap(OwnInference(network), self.identity)


class OwnInference(nn.Module):
    """Logits by the model's own inference, which its configuration sets to whole images or sliding windows."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        size = tuple(images.shape[-2:])
        facts = {"ori_shape": size, "img_shape": size, "pad_shape": size, "padding_size": [0, 0, 0, 0]}
        logits: torch.Tensor = self.network.inference(images, [dict(facts) for _ in images])  # type: ignore[operator]
        return logits


def source(config: str, options: Mapping[str, Any]) -> ModelSource:
    """mmseg:CONFIG with weights (or checkpoint) and trust=True; also the options of `Adapter`."""
    address = f"mmseg:{config}"
    check_options(address, options, (*OPTIONS, "weights", "checkpoint", "trust"))
    checkpoint = options.get("weights") or options.get("checkpoint")
    if checkpoint is None:
        raise GauntletError(f"{address} needs its checkpoint: weights='PATH or URL', on the command line --weights.")
    if not options.get("trust"):
        raise GauntletError(
            f"{address} is Python code and its checkpoint a pickle, and both would run here; pass trust=True (--trust) "
            "if you trust where they come from."
        )
    return OpenMMLabModel(config, str(checkpoint), {**options, "checkpoint": None})


def _require_mmseg() -> Any:
    try:
        import mmseg
        import mmseg.apis
    except ImportError as error:
        raise GauntletError(
            f"mmseg: runs in an OpenMMLab environment of yours, but mmseg cannot be imported here ({error}); install "
            "mmsegmentation with its mmengine and mmcv, and vision-gauntlet beside it."
        ) from None
    return mmseg


def _config_file(mmseg: Any, config: str) -> Path:
    """A configuration by its path, or by its name among those that come with the package."""
    path = Path(config).expanduser()
    if path.is_file():
        return path
    folder = Path(mmseg.__file__).parent / ".mim" / "configs"
    configs = sorted(folder.rglob(f"{path.stem}.py"))
    if not configs:
        raise GauntletError(
            f"there is no configuration file {config}, and none of that name among those of mmseg in {folder}; give "
            "the path of the file."
        )
    return configs[0]


def _adapter(network: Any) -> Adapter:
    """What the model's data preprocessor and head say."""
    preprocessor = network.data_preprocessor
    mean, std = (getattr(preprocessor, name, None) for name in ("mean", "std"))
    # Images come as OpenCV reads them, blue first; the preprocessor swaps them for networks trained on RGB.
    order = "RGB" if getattr(preprocessor, "channel_conversion", False) else "BGR"
    meta = getattr(network, "dataset_meta", None) or {}
    outputs = int(getattr(network, "num_classes", None) or network.decode_head.num_classes)
    names = meta.get("classes")
    return Adapter(
        outputs,
        mean=_levels(mean, 0.0),
        std=_levels(std, 1.0),
        channel_order=order,
        class_names=list(names) if names is not None and len(names) == outputs else None,
    )


def _levels(values: Any, otherwise: float) -> list[float]:
    """Grey levels 0..255 on the [0, 1] scale."""
    if values is None:
        return [otherwise / 255] * 3
    return [float(value) / 255 for value in torch.as_tensor(values).flatten().tolist()]
