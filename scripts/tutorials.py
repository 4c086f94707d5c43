"""Runs the tutorials and keeps what they print: `python scripts/tutorials.py [NAME ...]`, all by default.

Tests run them by the same function and compare (tests/docs/test_tutorials.py); docs_tutorials.py makes pages of them.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
SECONDS = 600
"""A cell may take so long on a busy machine."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Bold letters and the like: a kernel asks the programs that it starts for colours."""


def run(path: Path, folder: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of this run, in an empty folder, with this tree's package and one thread."""
    notebook = nbformat.read(path, as_version=4)
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
    client.execute(env=environment)
    return _tidied(notebook, folder)


def _tidied(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Without what changes from run to run: times, versions, the folder, what is written to stderr."""
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = _joined([each for each in cell.outputs if each.get("name") != "stderr"])
            for output in cell.outputs:
                if "text" in output:
                    output.text = CONTROL.sub("", output.text).replace(f"{folder}{os.sep}", "")
                output.get("data", {}).pop("text/html", None)  # pages show the text, or the picture
                output.get("data", {}).pop("image/jpeg", None)
                if "image/png" in output.get("data", {}):
                    output.data.pop("text/plain", None)
                output.get("metadata", {}).clear()
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """What was printed in one piece; how it came in parts depends on the clock."""
    whole: list[nbformat.NotebookNode] = []
    for output in outputs:
        if whole and "text" in output and "text" in whole[-1]:
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def main(names: list[str]) -> None:
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                notebook = run(path, Path(folder).resolve())
            nbformat.write(notebook, path)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
