"""What mmdet's detectors propose before suppression: class logits and boxes on the canvas, differentiable.

The library decides on candidates inside functions that detach them, so its heads are asked for their raw outputs here
and decoded by their own coders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from gauntlet.errors import GauntletError

# The logit of a candidate that fills up a batch, in place of a class's.
FILLER = -100.0

Proposed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Class logits (N, Q, K), corners on the canvas (N, Q, 4), objectness (N, Q)."""


def propose(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """The candidates of normalised images (N, 3, h, w).

    Args:
        network: of mmdet.
        inputs: as its data preprocessor makes them.
        samples: what goes with them (DetDataSample).
    """
    return _kind(network)(network, inputs, samples)


def joined(parts: Sequence[Proposed]) -> Proposed:
    """Candidates of several batches as one; an image that has fewer than another is filled up."""
    scores, boxes, objectness = ([image for batch in each for image in batch] for each in zip(*parts, strict=True))
    return (
        pad_sequence(scores, batch_first=True, padding_value=FILLER),
        pad_sequence(boxes, batch_first=True),
        pad_sequence(objectness, batch_first=True, padding_value=float("-inf")),
    )


def _kind(network: Any) -> Callable[[Any, torch.Tensor, Sequence[Any]], Proposed]:
    if hasattr(network, "forward_transformer"):
        return _queries
    if hasattr(network, "roi_head"):
        return _learned_proposals if hasattr(network.rpn_head, "num_proposals") else _proposals
    head = network.bbox_head
    known = {"CenterNetHead": _centres, "TOODHead": _decoded, "RepPointsHead": _points, "FoveaHead": _points}
    if type(head).__name__ in known:
        return known[type(head).__name__]
    if _decodes_as_usual(head):
        return _places
    raise GauntletError(
        f"the candidates of mmdet's {type(head).__name__} are not known here, so attacks on candidates (tog, dag) "
        "cannot be computed; attacks on the loss can (pgd)."
    )


def _decodes_as_usual(head: Any) -> bool:
    """Whether a head's boxes are what its coder makes of its priors and outputs."""
    from mmdet.models.dense_heads import PAAHead
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead

    own = getattr(type(head), "_predict_by_feat_single", None)
    usual = own in (BaseDenseHead._predict_by_feat_single, PAAHead._predict_by_feat_single)
    return usual and hasattr(head, "prior_generator") and hasattr(head, "bbox_coder")


def _over_background(logits: torch.Tensor, independent: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Class logits and objectness: the largest of independent logits, else those over the last, the background's."""
    if independent:
        return logits, logits.amax(dim=-1)
    scores = logits[..., :-1] - logits[..., -1:]
    return scores, scores.logsumexp(dim=-1)


def _queries(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """DETR and its kin: the queries of the last layer; their boxes are fractions of the image."""
    outputs = network._forward(inputs, samples)
    logits, boxes = outputs[0][-1], outputs[1][-1]
    scores, objectness = _over_background(logits, bool(network.bbox_head.loss_cls.use_sigmoid))
    height, width = samples[0].metainfo["img_shape"][:2]
    centre, sides = boxes.chunk(2, dim=-1)
    corners = torch.cat([centre - sides / 2, centre + sides / 2], dim=-1)
    return scores, corners * boxes.new_tensor([width, height, width, height]), objectness


def _proposals(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """Detectors of two and more stages: their proposals, with the box of their best class."""
    from mmdet.structures.bbox import bbox2roi

    features = network.extract_feat(inputs)
    proposals = [each.bboxes for each in network.rpn_head.predict(features, samples, rescale=False)]
    counts = [len(each) for each in proposals]
    rois, roi_head = bbox2roi(proposals), network.roi_head
    facts = [sample.metainfo for sample in samples]
    if hasattr(roi_head, "num_stages"):
        rois, logits, changes = roi_head._refine_roi(features, rois, facts, counts)
        bbox_head = roi_head.bbox_head[-1]
    else:
        found = roi_head._bbox_forward(features, rois)
        bbox_head = roi_head.bbox_head
        rois, logits = rois.split(counts), found["cls_score"].split(counts)
        changes = _split(bbox_head, found["bbox_pred"], counts)
    parts: list[Proposed] = []
    for roi, logit, change, fact in zip(rois, logits, changes, facts, strict=True):
        scores, objectness = _over_background(logit, bool(bbox_head.loss_cls.use_sigmoid))
        boxes = roi[:, 1:]
        if change is not None:
            boxes = bbox_head.regress_by_class(boxes, scores.argmax(dim=1), change, fact)
        parts.append((scores[None], boxes[None], objectness[None]))
    return joined(parts)


def _split(bbox_head: Any, changes: Any, counts: list[int]) -> Sequence[Any]:
    """The outputs for boxes, image by image: None for a head without any, more than a tensor for SABL's."""
    if changes is None:
        return [None] * len(counts)
    parts: Sequence[Any] = (
        bbox_head.bbox_pred_split(changes, counts) if isinstance(changes, tuple) else changes.split(counts)
    )
    return parts


def _learned_proposals(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """Sparse R-CNN: as many proposals for every image, refined by every stage."""
    from mmdet.structures.bbox import bbox2roi

    features = network.extract_feat(inputs)
    proposed = network.rpn_head.predict(features, samples)
    facts = [sample.metainfo for sample in samples]
    boxes = [each.bboxes for each in proposed]
    objects = torch.stack([each.features for each in proposed])
    head = network.roi_head
    for stage in range(head.num_stages):
        found = head._bbox_forward(stage, features, bbox2roi(boxes), objects, facts)
        objects, boxes = found["object_feats"], found["detached_proposals"]
    corners = found["decoded_bboxes"].reshape(len(samples), -1, 4)
    scores, objectness = _over_background(found["cls_score"], bool(head.bbox_head[-1].loss_cls.use_sigmoid))
    return scores, corners, objectness


def _levels(maps: Sequence[torch.Tensor], width: int) -> list[torch.Tensor]:
    """Maps (N, A * width, h, w) of every level as (N, A * h * w, width)."""
    return [each.permute(0, 2, 3, 1).reshape(len(each), -1, width) for each in maps]


def _places(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """Detectors of one stage: every anchor or place."""
    head = network.bbox_head
    maps, changes, *_ = network._forward(inputs, samples)
    priors = torch.cat(
        head.prior_generator.grid_priors([each.shape[-2:] for each in maps], dtype=inputs.dtype, device=inputs.device)
    )
    changes = torch.cat(_levels(changes, head.bbox_coder.encode_size), dim=1)
    limits = samples[0].metainfo["img_shape"]
    boxes = torch.stack([head.bbox_coder.decode(priors, each, max_shape=limits) for each in changes])
    logits = torch.cat(_levels(maps, head.cls_out_channels), dim=1)
    scores, objectness = _over_background(logits, bool(head.use_sigmoid_cls))
    return scores, boxes, objectness


def _points(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """RepPoints and FoveaBox: every place, with boxes in a unit of its level."""
    head = network.bbox_head
    units = head.point_strides if hasattr(head, "point_strides") else head.base_edge_list
    maps, changes = network._forward(inputs, samples)
    priors = head.prior_generator.grid_priors([each.shape[-2:] for each in maps], device=inputs.device)
    limits = samples[0].metainfo["img_shape"]
    boxes = [
        torch.stack([head._bbox_decode(prior, each, unit, limits) for each in level])
        for prior, level, unit in zip(priors, _levels(changes, 4), units, strict=True)
    ]
    logits = torch.cat(_levels(maps, head.cls_out_channels), dim=1)
    scores, objectness = _over_background(logits, bool(head.use_sigmoid_cls))
    return scores, torch.cat(boxes, dim=1), objectness


def _decoded(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """TOOD: probabilities, and boxes in units of the stride."""
    head = network.bbox_head
    maps, corners = network._forward(inputs, samples)
    strides = [stride[0] for stride in head.prior_generator.strides]
    boxes = [level * stride for level, stride in zip(_levels(corners, 4), strides, strict=True)]
    scores = torch.cat(_levels(maps, head.cls_out_channels), dim=1).logit(eps=1e-6)
    return scores, torch.cat(boxes, dim=1), scores.amax(dim=-1)


def _centres(network: Any, inputs: torch.Tensor, samples: Sequence[Any]) -> Proposed:
    """CenterNet: every place of its map, local maximum or not."""
    (heat,), (sides,), (offsets,) = network._forward(inputs, samples)
    rows, columns = heat.shape[-2:]
    y, x = torch.meshgrid(
        torch.arange(rows, device=heat.device), torch.arange(columns, device=heat.device), indexing="ij"
    )
    centres = torch.stack([x, y])[None] + offsets
    stride = heat.new_tensor([inputs.shape[-1] / columns, inputs.shape[-2] / rows])[None, :, None, None]
    corners = torch.cat([(centres - sides / 2) * stride, (centres + sides / 2) * stride], dim=1)
    scores = heat.flatten(2).transpose(1, 2).logit(eps=1e-6)
    return scores, corners.flatten(2).transpose(1, 2), scores.amax(dim=-1)
