"""How an object looks in a notebook: its title and a small table of facts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """HTML of a title above one row per fact; facts that are None or empty are left out.

    >>> facts_table("a < b", {"images": 3, "depth": None})
    '<table><caption><b>a &lt; b</b></caption><tr><th>images</th><td>3</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None and value != ""
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{rows}</table>"
