"""mmcv._ext in Python: what mmcv-lite leaves out, by torch's own operators, so that mmcv.ops imports and runs on a CPU.

`make mm-test` puts it at mmcv/_ext.py of its mmcv-lite. Operators that are not here raise NotImplementedError when
called. NMS equals that of mmcv 2.1.0 compiled, RoIAlign and deformable convolutions agree with it to 1e-5; the focal
loss and the masked convolution were not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Pair = tuple[int, int]
Geometry = tuple[Pair, Pair, Pair, int]


def _gradients(call: Callable[..., Tensor], tensors: Sequence[Tensor], grad_output: Tensor) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        return torch.autograd.grad(call(*leaves), leaves, grad_output)


def _overlaps(box: Tensor, boxes: Tensor, offset: int) -> Tensor:
    corner, far = torch.maximum(box[:2], boxes[:, :2]), torch.minimum(box[2:4], boxes[:, 2:4])
    inter = (far - corner + offset).clamp(min=0).prod(1)
    areas = (boxes[:, 2:4] - boxes[:, :2] + offset).prod(1)
    return inter / ((box[2:4] - box[:2] + offset).prod() + areas - inter)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    order, kept = scores.argsort(descending=True, stable=True), []
    while len(order):
        kept.append(order[0])
        order = order[1:][~(_overlaps(boxes[order[0]], boxes[order[1:]], offset) > iou_threshold)]
    return torch.stack(kept) if kept else order


def softnms(
    boxes: Tensor,
    scores: Tensor,
    dets: Tensor,
    iou_threshold: float,
    sigma: float,
    min_score: float,
    method: int,
    offset: int,
) -> Tensor:
    kept: list[Tensor] = []
    scores, left = scores.clone(), torch.arange(len(boxes))
    while len(left):
        best = left[scores[left].argmax()]
        dets[len(kept)] = torch.cat([boxes[best], scores[best][None]])
        kept.append(best)
        left = left[left != best]
        iou = _overlaps(boxes[best], boxes[left], offset)
        if method == 2:
            scores[left] *= torch.exp(-(iou**2) / sigma)
        else:
            scores[left] *= torch.where(iou >= iou_threshold, (1 - iou) * method, torch.ones_like(iou))
        left = left[scores[left] >= min_score]
    return torch.stack(kept) if kept else left


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    order, groups = dets[:, 4].argsort(descending=True, stable=True), []
    while len(order):
        near = _overlaps(dets[order[0]], dets[order], 0) >= iou_threshold
        near[0] = True
        groups.append(order[near].tolist())
        order = order[~near]
    return groups


def _grid(x: Tensor, y: Tensor, width: int, height: int) -> Tensor:
    return torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)


def _roi_align(input: Tensor, rois: Tensor, shape: Pair, scale: float, sampling_ratio: int, aligned: bool) -> Tensor:
    height, width = input.shape[-2:]
    corners = rois[:, 1:] * scale - (0.5 if aligned else 0.0)
    sizes = corners[:, 2:] - corners[:, :2]
    if not aligned:
        sizes = sizes.clamp(min=1.0)
    bins = sizes / sizes.new_tensor([shape[1], shape[0]])
    counts = torch.full_like(bins, sampling_ratio) if sampling_ratio > 0 else bins.ceil()
    pooled = input.new_zeros(len(rois), input.shape[1], *shape)
    groups = {tuple(map(int, group)) for group in torch.cat([rois[:, :1], counts], 1).tolist()}
    for image, across, down in sorted(groups):
        if across < 1 or down < 1:
            continue
        chosen = (rois[:, 0] == image) & (counts[:, 0] == across) & (counts[:, 1] == down)
        places = chosen.nonzero()[:, 0]
        for some in (places[start : start + 64] for start in range(0, len(places), 64)):
            x = corners[some, 0, None] + bins[some, :1] * (torch.arange(shape[1] * across) + 0.5) / across
            y = corners[some, 1, None] + bins[some, 1:] * (torch.arange(shape[0] * down) + 0.5) / down
            inside = ((y >= -1) & (y <= height))[:, :, None] & ((x >= -1) & (x <= width))[:, None]
            shape_of_points = (len(some), y.shape[1], x.shape[1])
            points = _grid(
                x[:, None].expand(shape_of_points), y[:, :, None].expand(shape_of_points), width, height
            ).flatten(0, 1)
            values = F.grid_sample(input[image, None], points[None], padding_mode="border", align_corners=False)[0]
            values = values.reshape(len(values), *shape_of_points).transpose(0, 1) * inside[:, None]
            values = values.reshape(len(some), -1, shape[0], down, shape[1], across).mean((3, 5))
            pooled = pooled.index_copy(0, some, values)
    return pooled


def roi_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    assert pool_mode == 1, "only the average"
    output.copy_(_roi_align(input, rois, (aligned_height, aligned_width), spatial_scale, sampling_ratio, aligned))


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    shape = (aligned_height, aligned_width)
    if len(rois):
        grad_input += _gradients(
            lambda input: _roi_align(input, rois, shape, spatial_scale, sampling_ratio, aligned),
            [grad_input],
            grad_output,
        )[0]


def _deform(
    input: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Tensor:
    """Deformable convolution: the kernel's points moved by offset, y before x, and weighted by mask."""
    (batch, channels, height, width), (down, across) = input.shape, weight.shape[2:]
    high, wide = offset.shape[2:]
    offset = offset.reshape(batch, -1, down, across, 2, high, wide)
    parts = offset.shape[1]
    y = (torch.arange(high) * stride[0] - padding[0])[:, None] + (torch.arange(down) * dilation[0])[:, None, None, None]
    x = (torch.arange(wide) * stride[1] - padding[1]) + (torch.arange(across) * dilation[1])[:, None, None]
    grid = _grid(offset[..., 1, :, :] + x, offset[..., 0, :, :] + y, width, height).reshape(batch * parts, -1, wide, 2)
    values = F.grid_sample(input.reshape(batch * parts, -1, height, width), grid, align_corners=False)
    values = values.reshape(batch, parts, channels // parts, down * across, high, wide)
    if mask is not None:
        values = values * mask.reshape(batch, parts, 1, down * across, high, wide)
    columns = values.reshape(batch, groups, -1, high * wide)
    return (weight.reshape(groups, len(weight) // groups, -1) @ columns).reshape(batch, -1, high, wide)


def _geometry(s: dict[str, int]) -> Geometry:
    return (s["dH"], s["dW"]), (s["padH"], s["padW"]), (s["dilationH"], s["dilationW"]), s["group"]


def deform_conv_forward(
    input: Tensor, weight: Tensor, offset: Tensor, output: Tensor, columns: Tensor, ones: Tensor, **settings: int
) -> None:
    output.copy_(_deform(input, offset, None, weight, *_geometry(settings)))


def deform_conv_backward_input(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    weight: Tensor,
    columns: Tensor,
    **settings: int,
) -> None:
    found = _gradients(lambda i, o: _deform(i, o, None, weight, *_geometry(settings)), [input, offset], grad_output)
    grad_input += found[0]
    grad_offset += found[1]


def deform_conv_backward_parameters(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_weight: Tensor,
    columns: Tensor,
    ones: Tensor,
    scale: float,
    **settings: int,
) -> None:
    def call(weight: Tensor) -> Tensor:
        return _deform(input, offset, None, weight, *_geometry(settings))

    grad_weight += scale * _gradients(call, [grad_weight], grad_output)[0]


def _modulated_geometry(s: dict[str, int]) -> Geometry:
    return (s["stride_h"], s["stride_w"]), (s["pad_h"], s["pad_w"]), (s["dilation_h"], s["dilation_w"]), s["group"]


def modulated_deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    output: Tensor,
    columns: Tensor,
    with_bias: bool,
    **settings: int,
) -> None:
    output.copy_(_deform(input, offset, mask, weight, *_modulated_geometry(settings)))
    if with_bias:
        output += bias[:, None, None]


def modulated_deform_conv_backward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    columns: Tensor,
    grad_input: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor,
    grad_output: Tensor,
    with_bias: bool,
    **settings: int,
) -> None:
    geometry = _modulated_geometry(settings)
    found = _gradients(lambda i, o, m, w: _deform(i, o, m, w, *geometry), [input, offset, mask, weight], grad_output)
    for target, value in zip((grad_input, grad_offset, grad_mask, grad_weight), found, strict=True):
        target += value
    if with_bias:
        grad_bias += grad_output.sum((0, 2, 3))


def _focal(input: Tensor, target: Tensor, weight: Tensor, gamma: float, alpha: float) -> Tensor:
    hot = F.one_hot(target, input.shape[1] + 1)[:, : input.shape[1]].to(input)
    p = input.sigmoid()
    loss = F.binary_cross_entropy_with_logits(input, hot, reduction="none")
    loss = loss * (alpha * hot + (1 - alpha) * (1 - hot)) * ((1 - p) * hot + p * (1 - hot)) ** gamma
    return loss * weight if len(weight) else loss


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    output.copy_(_focal(input, target, weight, gamma, alpha))


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    found = _gradients(lambda i: _focal(i, target, weight, gamma, alpha), [input], torch.ones_like(input))
    grad_input += found[0]


def masked_im2col_forward(
    im: Tensor,
    mask_h_idx: Tensor,
    mask_w_idx: Tensor,
    col: Tensor,
    kernel_h: int,
    kernel_w: int,
    pad_h: int,
    pad_w: int,
) -> None:
    padded = F.pad(im, (pad_w, pad_w, pad_h, pad_h))[0]
    points = [padded[:, mask_h_idx + i, mask_w_idx + j] for i in range(kernel_h) for j in range(kernel_w)]
    col.copy_(torch.stack(points, 1).flatten(0, 1))


def masked_col2im_forward(
    col: Tensor, mask_h_idx: Tensor, mask_w_idx: Tensor, im: Tensor, height: int, width: int, channels: int
) -> None:
    im[0, :, mask_h_idx, mask_w_idx] = col


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*arguments: object, **settings: object) -> None:
        raise NotImplementedError(f"mmcv._ext.{name} is not among the operators in Python")

    return absent
