"""SegFormer (Xie et al. 2021, arXiv:2105.15203) B0 to B5 with the names of its authors' files."""

from __future__ import annotations

import torch

from gauntlet.models.architectures.base import Rule, State
from gauntlet.models.architectures.published.network import Parts, Published
from gauntlet.models.architectures.segformer import SegFormer, initialise

STAGES = 4


def segformer(num_classes: int, *, variant: str) -> Parts:
    """SegFormer; logits at 1/4."""
    network = SegFormer(num_classes, variant=variant, reduction_epsilon=1e-5)
    return Parts(network.encoder, network.decoder)


def convert(state: State) -> State:
    """Linear projections of the decoder to 1x1 convolutions, and their maps from the coarsest first to the finest."""
    result = dict(state)
    for stage in range(STAGES):
        name = f"decoder.projections.{stage}.weight"
        if name in result and result[name].ndim == 2:
            result[name] = result[name][:, :, None, None]
    fusion = result.get("decoder.fusion.0.weight")
    if fusion is not None:
        result["decoder.fusion.0.weight"] = torch.cat(fusion.chunk(STAGES, dim=1)[::-1], dim=1)
    return result


NAMES: tuple[Rule, ...] = (
    (r"^backbone\.patch_embed(\d)\.", lambda match: f"encoder.stages.{int(match[1]) - 1}.embedding."),
    (r"\.embedding\.proj\.", ".embedding.convolution."),
    (r"\.embedding\.norm\.", ".embedding.normalisation."),
    (r"^backbone\.norm(\d)\.", lambda match: f"encoder.stages.{int(match[1]) - 1}.normalisation."),
    (r"^backbone\.block(\d)\.", lambda match: f"encoder.stages.{int(match[1]) - 1}.blocks."),
    (r"\.norm1\.", ".attention_norm."),
    (r"\.norm2\.", ".feed_forward_norm."),
    (r"\.attn\.q\.", ".attention.query."),
    (r"\.attn\.kv\.", ".attention.key_value."),
    (r"\.attn\.proj\.", ".attention.output."),
    (r"\.attn\.sr\.", ".attention.reduction."),
    (r"\.attn\.norm\.", ".attention.normalisation."),
    (r"\.mlp\.fc1\.", ".feed_forward.expand."),
    (r"\.mlp\.dwconv\.dwconv\.", ".feed_forward.convolution."),
    (r"\.mlp\.fc2\.", ".feed_forward.reduce."),
    (r"^decode_head\.linear_c(\d)\.proj\.", lambda match: f"decoder.projections.{int(match[1]) - 1}."),
    (r"^decode_head\.linear_fuse\.conv\.", "decoder.fusion.0."),
    (r"^decode_head\.linear_fuse\.bn\.", "decoder.fusion.1."),
    (r"^decode_head\.linear_pred\.", "decoder.classifier."),
)

NETWORKS = {
    f"segformer_{variant}": Published(
        segformer,
        {"variant": variant},
        NAMES,
        "arXiv:2105.15203",
        "NVlabs/SegFormer",
        stride=32,
        unused=(r"^decode_head\.conv_seg\.",),
        convert=convert,
        initialise=initialise,
    )
    for variant in ("b0", "b1", "b2", "b3", "b4", "b5")
}
