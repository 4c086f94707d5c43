"""A segmentation model of Hugging Face transformers, from the hub or from a folder.

    python examples/hugging_face_model.py                                            # a tiny one, with random weights
    python examples/hugging_face_model.py hf:nvidia/segformer-b0-finetuned-ade-512-512

Needs `pip install 'vision-gauntlet[zoo]'`. From the command line, with images of your own:

    gauntlet run --model hf:FOLDER_OR_NAME --dataset folder:my_photos --suite quick
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import gauntlet


def save_tiny_model(folder: Path) -> str:
    """What your training leaves behind: a folder written by save_pretrained."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    torch.manual_seed(0)
    config = SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 8, 16, 16],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        id2label=dict(enumerate(("road", "building", "sky"))),
    )
    SegformerForSemanticSegmentation(config).save_pretrained(folder)
    return f"hf:{folder}"


def main() -> None:
    """Loads a model and attacks one image."""
    with tempfile.TemporaryDirectory() as folder:
        address = sys.argv[1] if len(sys.argv) > 1 else save_tiny_model(Path(folder) / "tiny-segformer")
        # Classes, normalisation and resizing are read from the files beside the weights; options overrule them.
        model = gauntlet.load_model(address)
    print(f"{model.identity.name}: {model.num_classes} classes, {', '.join(model.class_names[:3])}, ...")

    image = gauntlet.load_dataset("streets", split="val", limit=1)[0].image
    images = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
    with torch.no_grad():
        # Without labels: the attack leaves what the model itself says of the clean image.
        own = model(images).argmax(1)
    outcome = gauntlet.attacks.build("pgd", epsilon="4/255", steps=5)(model, images, own)
    print(f"changed by PGD at 4/255: {100 * float(outcome.share[0]):.1f} % of the pixels")


if __name__ == "__main__":
    main()
