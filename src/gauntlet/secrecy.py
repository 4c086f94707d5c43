"""What must never be written down: passwords in addresses, tokens among options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SECRET = re.compile(r"(^|_)(token|password|passwd|secret|credentials?|api_?key)$", re.IGNORECASE)


def without_password(text: str) -> str:
    """A text with the passwords of addresses in it masked: others read it who may not have them.

    >>> without_password("postgresql+psycopg://me:secret@host/results")
    'postgresql+psycopg://me:***@host/results'
    """
    return re.sub(r"(://[^\s:/@]*):[^\s@]+@", r"\1:***@", text)


def without_secrets(value: Any) -> Any:
    """Plain data without options that are named like a secret, and with the passwords of addresses masked.

    >>> without_secrets({"weights": "https://me:secret@host/net.pt", "token": "hf_123"})
    {'weights': 'https://me:***@host/net.pt'}
    >>> without_secrets({"hub_token": "hf_123", "num_tokens": 64})
    {'num_tokens': 64}
    """
    if isinstance(value, Mapping):
        return {name: without_secrets(each) for name, each in value.items() if not _SECRET.search(str(name))}
    if isinstance(value, (list, tuple)):
        return [without_secrets(each) for each in value]
    return without_password(value) if isinstance(value, str) else value
