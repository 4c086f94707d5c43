"""Files from the web: fetched once, with a progress bar, and compared with the digest in their name."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.error import URLError

import torch

from gauntlet.errors import GauntletError, first_line

# Published files are called NAME-DIGEST.pth, with the first digits of their SHA-256.
_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.\w+$")


def is_web_address(text: str) -> bool:
    """Whether a text is an address of the web."""
    return text.startswith(("https://", "http://"))


def fetched(address: str) -> Path:
    """The file behind a web address, from torch's cache of checkpoints where it is there already.

    Args:
        address: its last part is the file's name; where that ends in a digest, a file with another one is refused.
    """
    path = Path(torch.hub.get_dir()) / "checkpoints" / address.rsplit("/", 1)[-1]
    if path.is_file():
        return path
    named = _DIGEST.search(path.name)
    digest = named[1] if named else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(address, str(path), digest, progress=True)
    except (URLError, OSError) as error:
        raise GauntletError(
            f"{address} could not be fetched ({first_line(error).rstrip('.')}); fetch it where there is network, and "
            "give the file (weights, --weights) or its folder (checkpoints, --checkpoints)."
        ) from None
    # What torch raises for a wrong digest, and nothing else here.
    except RuntimeError:
        raise GauntletError(
            f"{address} is not the file that its name promises, since its SHA-256 does not begin with {digest}; try "
            "again, or give a file that you trust (weights, --weights)."
        ) from None
    return path
