"""What more passes buy: the worst case of a battery after each of its attacks."""

from __future__ import annotations

import pandas as pd

from gauntlet.analysis.frames import require_columns
from gauntlet.errors import GauntletError

CLEAN = "clean"


def strength_over_cost(per_image: pd.DataFrame, metric: str = "accuracy") -> pd.DataFrame:
    """The worst case of a battery after every attack, over the passes that it took so far.

    An image that a battery skipped costs nothing and keeps its worst case. Where the curve is flat at its end, more of
    the same would not help; where it still falls, the worst case is not reached.

    Args:
        per_image: of a battery's evaluation (`Evaluation.per_image`): image_id, view (the clean image, then the
            attacks in their order), the metric, and "forwards NAME" of every attack.
        metric: "accuracy" or "mIoU" of an image; for detectors "F1".

    Returns:
        One row per attack, in order, after a first one for the clean images: attack, passes (forward passes per image
        so far, looks at the clean image and at what each attack made included, a mean over images), value (mean over
        images of their smallest figure so far).
    """
    require_columns(per_image, ["image_id", "view", metric], "strength over cost")
    views = list(dict.fromkeys(per_image["view"]))
    attacks = [name for name in views if name != CLEAN]
    missing = [name for name in attacks if f"forwards {name}" not in per_image]
    if CLEAN not in views or missing:
        raise GauntletError(
            "strength over cost is told of batteries whose passes are stored by attack; run this one again "
            "with --again to store them."
        )
    table = per_image.set_index(["image_id", "view"])[metric].unstack("view")[views]  # images x views
    counted = table[table[CLEAN].notna()]  # an image without a pixel that counts says nothing
    worst = counted.cummin(axis=1).ffill(axis=1)
    passes = per_image.drop_duplicates("image_id").set_index("image_id").loc[counted.index]
    own = passes[[f"forwards {name}" for name in attacks]]
    looks = (own > 0).astype(float)  # at what an attack made; it is skipped where it asked nothing
    spent = (1 + (own + looks).mean().cumsum()).tolist()
    return pd.DataFrame({"attack": views, "passes": [1.0, *spent], "value": worst.mean().tolist()})
