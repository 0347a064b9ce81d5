"""Runs the notebooks of this folder and keeps their outputs: python notebooks/execute.py [NAME.ipynb ...]

Each runs in a fresh kernel; they share one temporary folder, in the order of ORDER, so that the second finds
the run that the first has trained. A notebook that fails is left as it was.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parent
ORDER = ("attention-from-scratch.ipynb", "train.ipynb", "translate.ipynb", "classify.ipynb")
SECONDS_PER_CELL = 900
"""Far more than any cell takes; what hangs is ended."""


def execute(name: str, workplace: Path) -> NotebookNode:
    """Run the notebook `name` in `workplace`, which gets the recipes of this folder that it lacks.

    nbclient.exceptions.CellExecutionError: a cell failed.
    """
    for recipe in FOLDER.glob("*.toml"):
        if not (workplace / recipe.name).exists():
            shutil.copy(recipe, workplace)
    notebook = nbformat.read(FOLDER / name, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        startup_timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(workplace)}},
        record_timing=False,
    )
    client.execute()
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "executed": fingerprint(notebook),
        }
    )
    return notebook


def fingerprint(notebook: NotebookNode) -> str:
    """Return a hash of every cell's source: the same as long as nobody edits the notebook."""
    return hashlib.sha256("\0".join(cell.source for cell in notebook.cells).encode()).hexdigest()


def main(names: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as workplace:
        for name in ORDER:
            if name in (names or ORDER):
                notebook = execute(name, Path(workplace))
                nbformat.validate(notebook)
                nbformat.write(notebook, FOLDER / name)
                print(f"executed {name}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
