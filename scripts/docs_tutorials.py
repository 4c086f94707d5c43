"""Pages of the tutorials, made of their notebooks when the site is built: a hook of MkDocs (mkdocs.yml).

Pages link to `tutorials/NAME.ipynb`, which a code host shows too; on the site that is the page made here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

NOTEBOOK_LINK = re.compile(r"\]\(((?!https?:)[^)\s#]*)\.ipynb((?:#[^)]*)?)\)")
SHELL = "%%bash\n"
Notebook = dict[str, Any]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page, and its pictures, for every notebook; the notebook itself stays beside it to be downloaded."""
    for path in sorted(Path(config.docs_dir, "tutorials").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=page(path.stem, notebook)))
        for name, picture in pictures(path.stem, notebook):
            files.append(File.generated(config, f"tutorials/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links to notebooks to their pages, but for the link to the file itself."""
    return NOTEBOOK_LINK.sub(r"](\1.md\2)", markdown).replace("NOTEBOOK_FILE", "ipynb")


def page(name: str, notebook: Notebook) -> str:
    """Markdown of a notebook: texts as they are, code in fences, what was printed below it, pictures by their files."""
    title, _, rest = _source(notebook["cells"][0]).partition("\n")
    parts = [title, f"[This page as a notebook]({name}.NOTEBOOK_FILE){{: download }}", rest.strip()]
    number = 0
    for cell in notebook["cells"][1:]:
        if cell["cell_type"] == "markdown":
            parts.append(_source(cell))
            continue
        parts.append(_code(_source(cell)))
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                parts.append(f"![What the cell above draws]({name}-{number}.png)")
                number += 1
            else:
                parts.append(f"```text {{.output}}\n{_printed(output)}\n```")
    return "\n\n".join(parts) + "\n"


def _code(source: str) -> str:
    """Python, or the commands of a cell that a shell runs."""
    language, code = ("bash", source.removeprefix(SHELL)) if source.startswith(SHELL) else ("python", source)
    return f"```{language}\n{code}\n```"


def pictures(name: str, notebook: Notebook) -> Iterator[tuple[str, bytes]]:
    """Name and content of every picture, in order."""
    drawn = [
        output["data"]["image/png"]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    yield from ((f"{name}-{number}.png", base64.b64decode("".join(each))) for number, each in enumerate(drawn))


def _source(cell: Notebook) -> str:
    return "".join(cell["source"])


def _printed(output: Notebook) -> str:
    text = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
    return "".join(text).strip("\n")
