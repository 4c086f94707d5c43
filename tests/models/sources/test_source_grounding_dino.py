"""hf: Grounding DINO: the class names are the prompt; scores and losses equal those of the library's own pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import DetectionModel, resolve_model
from gauntlet.samples import Boxes

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.zoo

# 48 x 60 goes to 64 x 80, as the processor below says.
PIXELS = np.random.default_rng(1).integers(0, 256, (2, 48, 60, 3), dtype=np.uint8)
IMAGES = torch.from_numpy(PIXELS).permute(0, 3, 1, 2).float() / 255
TARGETS = [
    Boxes(np.array([[3, 6, 33, 42], [15, 20, 45, 36]], np.float32), np.array([1, 2])),
    Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64)),
]
NAMES = ["person", "Traffic_light", "kites"]
# Where the tokens of each class are in: [CLS] person . traffic light . kite ##s . [SEP]
PLACES = [[1], [3, 4], [6, 7]]
QUERIES = 12
# The library knows these numbers of BERT's vocabulary by heart; words of the tests come behind.
VOCABULARY = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: ".", 1029: "?"} | {
    1030 + index: word for index, word in enumerate(["person", "traffic", "light", "kite", "##s", "dog"])
}
KINDS = ("GroundingDino", "MMGroundingDino")


def write_tokenizer(folder: Path) -> None:
    size = max(VOCABULARY) + 1
    lines = [VOCABULARY.get(index, f"[unused{index}]") for index in range(size)]
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def build(kind: str, num_queries: int = QUERIES) -> Any:
    """A network of a few thousand weights, on a ResNet, or on a Swin Transformer as the published ones are."""
    torch.manual_seed(0)
    maps = {"depths": [1, 1, 1, 1], "out_features": ["stage2", "stage3", "stage4"]}
    if kind == "GroundingDino":
        backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], layer_type="basic", **maps)
    else:
        backbone = transformers.SwinConfig(image_size=64, embed_dim=8, num_heads=[1, 2, 2, 2], window_size=4, **maps)
    text = transformers.BertConfig(
        vocab_size=max(VOCABULARY) + 1,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    config = getattr(transformers, f"{kind}Config")(
        backbone_config=backbone,
        text_config=text,
        num_queries=num_queries,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_feature_levels=3,
        max_text_len=24,
        auxiliary_loss=True,
    )
    return getattr(transformers, f"{kind}ForObjectDetection")(config).eval()


@pytest.fixture(scope="module", params=KINDS)
def detector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """A network of the library, its processor, and the model that `load_model` makes of their folder."""
    folder = tmp_path_factory.mktemp("checkpoint")
    network = build(request.param)
    # Clear differences between tokens and between queries, as a trained network has them.
    with torch.no_grad():
        network.model.text_projection.weight.normal_()
        for layer in network.bbox_embed:
            layer.layers[-1].weight.normal_()
    network.save_pretrained(folder)
    words = tmp_path_factory.mktemp("vocabulary")
    write_tokenizer(words)
    images = transformers.GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    processor = transformers.GroundingDinoProcessor(images, transformers.AutoTokenizer.from_pretrained(words))
    processor.save_pretrained(folder)
    source = resolve_model(f"hf:{folder}", class_names=NAMES)
    assert source.task == "detection"
    model = source.load()
    assert isinstance(model, DetectionModel)
    assert model.identity == source.identity
    return network, processor, model


def asked(network: Any, processor: Any, model: Any, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the library's processor gives the network for the classes' names, with our pixels."""
    given = processor(images=list(PIXELS), text=[["person", "traffic light", "kites"]] * 2, return_tensors="pt")
    # A processor resamples in whole grey levels.
    torch.testing.assert_close(model.prepare(images), given["pixel_values"], rtol=0, atol=1.01 / 255 / 0.224)
    tokens = [101, 1030, 1012, 1031, 1032, 1012, 1033, 1034, 1012, 102]
    assert given["input_ids"].tolist() == [tokens, tokens]
    return {
        **{name: value for name, value in given.items() if not name.startswith("pixel")},
        "pixel_values": model.prepare(images),
    }


def test_a_class_has_the_mean_probability_of_its_tokens(detector: tuple[Any, Any, Any]) -> None:
    network, processor, model = detector
    assert model.class_names == tuple(NAMES)
    assert not any(module.training for module in model.modules())
    with torch.no_grad():
        output = network(**asked(network, processor, model, IMAGES))
    tokens = output.logits.sigmoid()
    chances = torch.stack([tokens[..., places].mean(dim=-1) for places in PLACES], dim=-1)
    centre, sides = output.pred_boxes.chunk(2, dim=-1)
    corners = torch.cat([centre - sides / 2, centre + sides / 2], dim=-1) * torch.tensor([60, 48, 60, 48])

    actual = model.candidates(IMAGES)
    torch.testing.assert_close(actual.scores.sigmoid(), chances, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(actual.scores[..., 0], output.logits[..., 1], rtol=1e-4, atol=1e-4)  # one token
    torch.testing.assert_close(actual.boxes, corners, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(actual.objectness, actual.scores.amax(dim=-1))

    for row, boxes in enumerate(model.predict(IMAGES)):
        # Fewer than 300 pairs of a query and a class: all of them, best first, in the pixels of the image.
        order = chances[row].flatten().argsort(descending=True)
        assert len(boxes) == len(order) == QUERIES * 3
        np.testing.assert_allclose(boxes.scores, chances[row].flatten()[order], rtol=1e-4)
        assert boxes.classes[0] == int(order[0]) % 3
        np.testing.assert_allclose(boxes.xyxy[0], corners[row, int(order[0]) // 3], atol=1e-3)
        assert sorted(boxes.classes.tolist()) == sorted([0, 1, 2] * QUERIES)


def test_losses_are_the_librarys_one_image_at_a_time(detector: tuple[Any, Any, Any]) -> None:
    network, processor, model = detector
    images = IMAGES.clone().requires_grad_()
    losses = model.losses(images, TARGETS)
    assert losses.shape == (2,)
    corners = torch.tensor([[3, 6, 33, 42], [15, 20, 45, 36.0]]) / torch.tensor([60, 48, 60, 48])
    boxes = torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], dim=1)
    given = {name: value[:1] for name, value in asked(network, processor, model, IMAGES).items()}
    for classes, equal in (([1, 2], True), ([2, 1], False)):
        labels = [{"class_labels": torch.tensor(classes), "boxes": boxes}]
        library = network(**given, labels=labels).loss
        assert torch.allclose(losses[0], library.reshape(()), rtol=1e-4) is equal
    torch.testing.assert_close(model.losses(IMAGES[1:], TARGETS[1:])[0], losses[1].detach(), rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(losses[0], images)
    assert torch.isfinite(gradient).all()
    assert gradient[0].abs().sum() > 0
    assert gradient[1].abs().sum() == 0
    (other,) = torch.autograd.grad(model.losses(images, TARGETS)[1], images)
    assert other[1].abs().sum() > 0
    (rising,) = torch.autograd.grad(model.candidates(images).objectness.sum(), images)
    assert (rising.abs().amax(dim=(1, 2, 3)) > 0).all()


def test_gradients_go_through_resizing_and_normalisation(detector: tuple[Any, Any, Any]) -> None:
    network, processor, model = detector
    images = IMAGES[:1].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.losses(images, TARGETS[:1])[0], images)
    given = {name: value[:1] for name, value in asked(network, processor, model, IMAGES).items()}
    pixels = given["pixel_values"].requires_grad_()
    corners = torch.from_numpy(TARGETS[0].xyxy) / torch.tensor([60, 48, 60, 48])
    boxes = torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], dim=1)
    labels = [{"class_labels": torch.tensor([1, 2]), "boxes": boxes}]
    (inner,) = torch.autograd.grad(network(**given | {"pixel_values": pixels}, labels=labels).loss, pixels)
    # What stands before the network is linear up to a constant: a change of the image is one of its pixels there.
    change = gradient.sign() / 10
    there = model.prepare(IMAGES[:1] + change) - model.prepare(IMAGES[:1])
    assert float((gradient * change).sum()) == pytest.approx(float((inner * there).sum()), rel=1e-3)


def test_it_is_attacked(tmp_path: Path) -> None:
    # With random weights the first stage's choice of queries would jump from step to step: here all places are
    # chosen, 8 x 10, 4 x 5 and 2 x 3 of them, and their order makes no difference.
    network = build("GroundingDino", num_queries=106)
    with torch.no_grad():
        weights = network.model.query_position_embeddings.weight
        weights.copy_(weights[:1].expand_as(weights))
    network.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    model = gauntlet.load_model(f"hf:{tmp_path}", class_names=NAMES, input_size=[64, 80])
    assert isinstance(model, DetectionModel)
    assert [len(boxes) for boxes in model.predict(IMAGES)] == [300, 300]  # of 318
    settings = {"epsilon": "8/255", "alpha": "2/255", "steps": 4}
    changed = gauntlet.attacks.build("pgd", **settings)(model, IMAGES, TARGETS).images
    assert float((changed - IMAGES).abs().max()) <= 8 / 255 + 1e-6
    assert (model.losses(changed, TARGETS) > model.losses(IMAGES, TARGETS)).all()
    changed = gauntlet.attacks.build("tog-vanishing", **settings)(model, IMAGES, TARGETS).images
    before, after = (model.candidates(images).objectness.sigmoid().sum(dim=1) for images in (IMAGES, changed))
    assert (after < before).all()


def test_names_that_make_no_prompt_are_one_sentence(tmp_path: Path) -> None:
    build("GroundingDino").save_pretrained(tmp_path)
    address = f"hf:{tmp_path}"
    with pytest.raises(GauntletError, match="give class_names"):
        gauntlet.load_model(address)
    with pytest.raises(GauntletError, match="has no tokenizer with BERT's vocabulary"):
        gauntlet.load_model(address, class_names=["dog"])
    write_tokenizer(tmp_path)
    with pytest.raises(GauntletError, match="num_classes is 3, but 1 class_names"):
        gauntlet.load_model(address, class_names=["dog"], num_classes=3)
    with pytest.raises(GauntletError, match="the 2 class names are 3 phrases"):
        gauntlet.load_model(address, class_names=["dog", "traffic. light"])
    with pytest.raises(GauntletError, match="the 2 class names are 1 phrases"):
        gauntlet.load_model(address, class_names=["dog", "_"])
    with pytest.raises(GauntletError, match="the names of the 12 classes are 26 tokens"):
        gauntlet.load_model(address, class_names=["dog"] * 12)
    with pytest.raises(GauntletError, match=r"option of the model .* 'outputs'"):
        gauntlet.load_model(address, class_names=["dog"], outputs=[0])
    one, other = (resolve_model(address, class_names=names).identity for names in (["dog"], ["kite"]))
    assert one.digest != other.digest
