"""Names that are safe in addresses and file names."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 60


def slug(text: str) -> str:
    """Small letters, digits and dashes; texts that lose something on the way get a short digest, so none collide.

    >>> slug("streets-val-16"), slug("../etc")
    ('streets-val-16', 'etc-f7f9121f')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")
    if plain == text:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest
