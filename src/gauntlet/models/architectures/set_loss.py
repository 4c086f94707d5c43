"""Losses of a set of predictions, each object matched with one query (Carion et al. 2020, arXiv:2005.12872)."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from gauntlet.models.architectures.dense import ALPHA, GAMMA, focal_loss
from gauntlet.models.architectures.detector import Targets
from gauntlet.models.architectures.geometry import generalised_iou

CLASS_WEIGHT, CORNER_WEIGHT, GIOU_WEIGHT = 2.0, 5.0, 2.0
"""Of the costs and of the losses, as in Deformable DETR."""

Matches = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Indices (P,) of the matched pairs: decoder layer, image, query, object."""


@torch.no_grad()
def matching_costs(logits: torch.Tensor, boxes: torch.Tensor, targets: Targets, size: torch.Tensor) -> torch.Tensor:
    """What it costs to match a query with an object, (D, N, Q, M).

    Args:
        logits: (D, N, Q, K) of D decoder layers.
        boxes: (D, N, Q, 4) corners in pixels.
        targets: M objects of every image.
        size: (4,) width, height, width, height of the images.
    """
    probability = logits.sigmoid().clamp(1e-6, 1 - 1e-6)
    # The focal loss of a query as the class of an object, less that of it as background.
    positive = -ALPHA * (1 - probability) ** GAMMA * probability.log()
    negative = -(1 - ALPHA) * probability**GAMMA * (1 - probability).log()
    classes = targets.classes[None, :, None].expand(len(logits), -1, logits.shape[2], -1)
    class_cost = (positive - negative).gather(-1, classes)
    true_boxes, boxes = targets.boxes[None, :, None], boxes[:, :, :, None]
    corner_cost = ((boxes - true_boxes) / size).abs().sum(dim=-1)
    return CLASS_WEIGHT * class_cost + CORNER_WEIGHT * corner_cost - GIOU_WEIGHT * generalised_iou(boxes, true_boxes)


def match(costs: torch.Tensor, present: torch.Tensor) -> Matches:
    """The cheapest one-to-one matching of every layer and image, from costs (D, N, Q, M) and the objects (N, M)."""
    # A diverged network must end in a loss that is not finite, which training reports, not in an error of scipy's.
    table = np.nan_to_num(costs.cpu().numpy())
    objects = [np.flatnonzero(each) for each in present.cpu().numpy()]
    parts = [np.zeros((4, 0), dtype=np.int64)]
    for layer, image in np.ndindex(*table.shape[:2]):
        query, column = linear_sum_assignment(table[layer, image][:, objects[image]])
        parts.append(np.stack([np.full_like(query, layer), np.full_like(query, image), query, objects[image][column]]))
    layers, images, queries, chosen = torch.from_numpy(np.concatenate(parts, axis=1)).to(costs.device)
    return layers, images, queries, chosen


def set_losses(logits: torch.Tensor, boxes: torch.Tensor, targets: Targets, size: torch.Tensor) -> torch.Tensor:
    """(N,): focal, corner and GIoU losses of all decoder layers, over the number of objects; arguments as for costs."""
    layer, image, query, chosen = match(matching_costs(logits, boxes, targets, size), targets.present)
    truth = torch.zeros_like(logits)
    truth[layer, image, query, targets.classes[image, chosen]] = 1.0
    centres = (boxes[..., :2] + boxes[..., 2:]).detach() / 2
    counted = ~torch.stack([targets.ignores(each) for each in centres])
    counted[layer, image, query] = True
    losses = CLASS_WEIGHT * (focal_loss(logits, truth).sum(dim=-1) * counted).sum(dim=(0, 2))
    predicted, true_boxes = boxes[layer, image, query], targets.boxes[image, chosen]
    corners = ((predicted - true_boxes) / size).abs().sum(dim=-1)
    located = CORNER_WEIGHT * corners + GIOU_WEIGHT * (1 - generalised_iou(predicted, true_boxes))
    return losses.index_add(0, image, located) / targets.present.sum(dim=-1).clamp(min=1)
