"""A command whose optional package is missing says so, with the line that installs it, before it works."""

import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from commands import error_of
from dragoman.errors import MissingExtraError, optional, require
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from tiny import write_corpus


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_run: Path) -> Path:
    """A folder with files, in which every kind of work fails: training, exporting, loading of weights."""

    def work(*arguments: Any, **options: Any) -> NoReturn:
        raise AssertionError("work was begun")

    monkeypatch.chdir(tmp_path)
    write_corpus(Path(), "train", 20, seed=1)
    write_corpus(Path(), "valid", 5, seed=2)
    for name in ("valid.en.zst", "valid.parquet"):
        Path(name).touch()
    Path("run").symlink_to(tiny_run)
    Path("other").mkdir()
    for file in tiny_run.iterdir():
        (Path("other") / file.name).symlink_to(file)
    for name in ("load_weights", "create"):
        monkeypatch.setattr(Run, name, work)
    for kind in (Translator, Classifier):
        monkeypatch.setattr(kind, "load", work)
    return tmp_path


TRAIN = ["train", "--src", "train.en", "--tgt", "train.de"]
WORDS = [
    "--set", "tokenizer.kind=words", "--set", "tokenizer.splitter=spacy", "--set", "tokenizer.shared=false",
]  # fmt: skip
CASES = [
    ("matplotlib", "report", ["report", "run"]),
    ("jinja2", "report", ["compare", "run", "other", "--out", "page"]),
    ("matplotlib", "plots", ["show", "run", "--plot"]),
    ("tensorboard", "tensorboard", [*TRAIN, "--tensorboard"]),
    ("wandb", "wandb", [*TRAIN, "--wandb", "project"]),
    ("spacy", "spacy", [*TRAIN, *WORDS, "--set", 'model.tie_embeddings="output"']),
    ("zstandard", "zst", [*TRAIN, "--valid-src", "valid.en.zst", "--valid-tgt", "valid.de"]),
    ("pyarrow", "parquet", [*TRAIN, "--valid-tsv", "valid.parquet"]),
    ("datasets", "hub", [*TRAIN, "--valid-tsv", "hf:owner/name"]),
    ("zstandard", "zst", ["translate", "run", "train.en", "--out", "out.de.zst"]),
    ("zstandard", "zst", ["translate", "run", "train.en", "--json", "--pharaoh", "links.zst"]),
    ("ray", "ray", ["translate", "run", "train.en", "--out", "out.de", "--ray", "local"]),
    ("sentencex", "documents", ["translate", "run", "train.en", "--document"]),
    ("ray", "ray", ["distill", "run", "--ray", "local"]),
    ("ctranslate2", "ctranslate2", ["export", "run", "--to", "ctranslate2", "--out", "exported"]),
    ("sentencepiece", "argos", ["export", "run", "--to", "argos", "--out", "exported"]),
    ("onnxruntime", "onnx", ["export", "run", "--to", "onnx", "--out", "exported"]),
    ("onnxscript", "onnx", ["export", "run", "--to", "onnx", "--out", "exported"]),
    ("transformers", "huggingface", ["export", "run", "--to", "huggingface", "--out", "exported"]),
    ("fastapi", "serve", ["serve", "run"]),
    ("sentencex", "serve", ["serve", "run"]),
    ("huggingface_hub", "hub", ["push", "run", "user/model"]),
]


@pytest.mark.parametrize(
    ("module", "extra", "arguments"), CASES, ids=[f"{m} {c[0]} {c[-1]}" for m, _, c in CASES]
)
def test_a_missing_package_is_named_before_any_work(
    idle: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, arguments: list[str]
) -> None:
    before = sorted(map(str, idle.rglob("*")))
    monkeypatch.setitem(sys.modules, module, None)
    assert re.search(rf"pip install -e \S*\[{extra}\]", error_of(*arguments))
    assert sorted(map(str, idle.rglob("*"))) == before


def test_all_missing_packages_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "sklearn"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        MissingExtraError, match=r"a page needs the packages matplotlib and scikit-learn: pip in"
    ):
        require("matplotlib", "torch", "sklearn", extra="report", purpose="a page")
    with pytest.raises(MissingExtraError, match="a page needs the package matplotlib: pip install"):
        optional("matplotlib", extra="report", purpose="a page")
