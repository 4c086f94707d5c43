"""The compiled matching of boxes."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def match_boxes(overlaps, ignored, crowd, thresholds):  # type: ignore[no-untyped-def]
    """(T, d) object that each detection takes at each threshold, or -1; pycocotools' evaluateImg.

    Rows of `overlaps` (d, n) are in score order; the objects that count stand before the ignored ones.
    """
    detections, objects = overlaps.shape
    matched = np.full((thresholds.size, detections), -1, np.int64)
    for t in range(thresholds.size):
        taken = np.zeros(objects, np.bool_)
        for d in range(detections):
            best, overlap = -1, min(thresholds[t], 1 - 1e-10)
            for g in range(objects):
                if taken[g] and not crowd[g]:
                    continue
                if best > -1 and not ignored[best] and ignored[g]:
                    break  # one that counts was found, only ignored ones follow
                if overlaps[d, g] < overlap:
                    continue
                best, overlap = g, overlaps[d, g]
            if best > -1:
                taken[best] = True
                matched[t, d] = best
    return matched
