"""The notebooks run from their first cell to their last, and what is committed is what they print."""

import base64
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
SCRIPT = runpy.run_path(str(FOLDER / "execute.py"))
ORDER: tuple[str, ...] = SCRIPT["ORDER"]
PICTURES = {"attention-from-scratch.ipynb": 1, "train.ipynb": 1, "translate.ipynb": 3, "classify.ipynb": 2}
CELL_LINES = 28
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|usr|opt|var|work|private|Users)/|\b[A-Z]:\\")
SHARE_OF_DEMO = 0.75
"""Of the demo's BLEU, which is trained for twice as many updates of larger batches and a larger model."""

each_notebook = pytest.mark.parametrize("name", ORDER)


def committed(name: str) -> Any:
    return nbformat.read(FOLDER / name, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(notebook: Any) -> Iterator[dict[str, Any]]:
    """What each output is, by MIME type."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            yield {"text/plain": output.text} if output.output_type == "stream" else dict(output.data)


def text_of(notebook: Any) -> str:
    """All that the cells print, tables included."""
    kinds = ("text/markdown", "text/plain")
    return "\n".join(next((data[k] for k in kinds if k in data), "") for data in outputs_of(notebook))


def pictures_of(notebook: Any) -> list[bytes]:
    return [base64.b64decode(data["image/png"]) for data in outputs_of(notebook) if "image/png" in data]


def demo_bleu() -> float:
    """The score of `make demo`, as the quickstart shows it."""
    page = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    row = re.search(r"^│ all +│ +1,000 │ +([\d.]+) │", page, re.MULTILINE)
    assert row is not None
    return float(row[1])


def check_pictures(name: str, notebook: Any) -> None:
    pictures = pictures_of(notebook)
    assert len(pictures) == PICTURES[name]
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5000 for picture in pictures)


def check_scores(name: str, notebook: Any) -> None:
    said = text_of(notebook)
    if name == "attention-from-scratch.ipynb":
        assert "100% of 500 sequences right to the last digit" in said
        assert said.count("the same") >= 3, "the checks of the answers"
    elif name == "train.ipynb":
        score = re.search(r"^BLEU ([\d.]+), ([\d.]+) to ([\d.]+)$", said, re.MULTILINE)
        assert score is not None
        assert float(score[2]) < float(score[1]) < float(score[3])
        assert float(score[1]) > SHARE_OF_DEMO * demo_bleu()
    elif name == "translate.ipynb":
        assert "token most looked at" in said
    else:
        accuracy = re.search(r"^all \| 1000 \| ([\d.]+) % \| ([\d.]+) %$", said, re.MULTILINE)
        assert accuracy is not None
        assert float(accuracy[1]) > float(accuracy[2]) > 80  # what reads the order beats what does not


# What is committed


def test_the_folder_holds_these_notebooks() -> None:
    assert {path.name for path in FOLDER.glob("*.ipynb")} == set(ORDER) == set(PICTURES), "and no other"


@each_notebook
def test_the_committed_outputs_are_those_of_the_committed_source(name: str) -> None:
    notebook = committed(name)
    nbformat.validate(notebook)
    executed = notebook.metadata["executed"]
    assert executed == SCRIPT["fingerprint"](notebook), f"run: python notebooks/execute.py {name}"
    assert not MACHINE_PATH.search(text_of(notebook))
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text


@each_notebook
def test_the_committed_outputs_show_what_a_reader_comes_for(name: str) -> None:
    check_pictures(name, committed(name))
    check_scores(name, committed(name))


@each_notebook
def test_a_notebook_is_short_and_its_links_lead_somewhere(name: str) -> None:
    notebook = committed(name)
    assert notebook.cells[0].source.startswith("# ")
    assert all(len(cell.source.splitlines()) <= CELL_LINES for cell in code_cells(notebook))
    assert (FOLDER / name).stat().st_size < 500_000
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
                assert (FOLDER / target).exists(), target


# What they do


@pytest.mark.nightly
def test_the_notebooks_run_one_after_the_other(tmp_path: Path) -> None:
    """With few updates: the scores after all of them are those of the committed outputs, above."""
    for recipe in FOLDER.glob("*.toml"):
        short = re.sub(r"(?m)^(max_steps|valid_every) = .*", r"\1 = 40", recipe.read_text("utf-8"))
        short = re.sub(r"(?m)^(warmup_steps|log_every) = .*", r"\1 = 10", short)
        (tmp_path / recipe.name).write_text(short, "utf-8")
    for name in ORDER:
        check_pictures(name, SCRIPT["execute"](name, tmp_path))
