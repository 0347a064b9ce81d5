"""What several tests share: a finished run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dragoman.config import parse_config
from dragoman.native import SOURCE, native
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translator
from sharing import made_once
from tiny import TINY, TINY_CLASSIFIER, write_corpus, write_labelled, write_many, write_topics

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")  # no test is about how fast this machine makes examples

LONG = (
    "test_ray.py", "test_processes.py", "test_workers.py", "test_openapi.py", "test_serve_page.py",
    "test_documentation.py", "test_smoke.py",
)  # fmt: skip
"""Files whose tests come first, so that no process is left alone with them at the end."""


def pytest_configure(config: pytest.Config) -> None:
    """Build a checkout's library if it is older than native.c, before there are several processes."""
    build = Path(__file__).parents[1] / "setup.py"
    if hasattr(config, "workerinput") or SOURCE.parents[2] != build.parent or find_spec("setuptools") is None:
        return
    if "make native" in native().reason:
        command = [sys.executable, build, "--quiet", "build_native", "--inplace"]
        environment = {**os.environ, "DRAGOMAN_NATIVE_FLAGS": ""}
        subprocess.run(command, cwd=build.parent, env=environment, check=True)
        native.cache_clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(params=["compiled", "operators"])
def both_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: searches in compiled code, and by the operations of PyTorch and NumPy."""
    if request.param == "compiled":
        if reason := native().reason:
            pytest.skip(reason)
    else:
        monkeypatch.setattr("dragoman.predict.torch_engine.why_not_compiled", lambda *_: "a test")
        monkeypatch.setattr("dragoman.decoding.log_probs.is_compiled", lambda _: False)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, en → de, that has learnt next to nothing. Copy it before changing anything in it."""

    def make(folder: Path) -> None:
        for name, n_pairs in {"train": 200, "valid": 20, "test": 15}.items():
            write_corpus(folder, name, n_pairs, seed=n_pairs)
        data = {
            "src_lang": "en",
            "tgt_lang": "de",
            "train": [str(folder / "train.en"), str(folder / "train.de")],
            "valid": [str(folder / "valid.tsv")],
            "test": {"tiny-test": [str(folder / "test.en"), str(folder / "test.de")]},
        }
        train_here(folder, {"name": "tiny", "data": data}, TINY)

    return made_once(tmp_path_factory, "tiny", make) / "run"


@pytest.fixture(scope="session")
def tiny_many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of en ↔ de and en → fr, with a synthetic corpus; copy it before changing it."""

    def make(folder: Path) -> None:
        train_here(folder, write_many(folder), TINY)

    return made_once(tmp_path_factory, "tiny-many", make) / "run"


@pytest.fixture(scope="session")
def tiny_classifier_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that tells praise from blame, well. Copy it before changing anything in it."""

    def make(folder: Path) -> None:
        for name, n_texts in {"train": 200, "valid": 40, "test": 30}.items():
            write_labelled(folder, name, n_texts, seed=n_texts)
        train_classifier(folder)

    return made_once(tmp_path_factory, "tiny-classifier", make) / "run"


@pytest.fixture(scope="session")
def tiny_topics_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that tells which of three topics a text has. Copy it before changing anything in it."""

    def make(folder: Path) -> None:
        for name, n_texts in {"train": 200, "valid": 60, "test": 50}.items():
            write_topics(folder, name, n_texts, seed=n_texts)
        train_classifier(folder, 'data.label_separator="|"', "training.metric=micro_f1")

    return made_once(tmp_path_factory, "tiny-topics", make) / "run"


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def classifier(tiny_classifier_run: Path) -> Classifier:
    return Classifier.load(tiny_classifier_run, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def unsure_classifier(tiny_classifier_run: Path) -> Classifier:
    """One that is not so sure of itself that its probabilities are 1."""
    classifier = Classifier.load(tiny_classifier_run, device="cpu", precision="fp32")
    classifier.temperature = 1.0
    return classifier


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    """A finished translator that may be changed."""
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


@pytest.fixture
def classifier_run(tiny_classifier_run: Path, tmp_path: Path) -> Path:
    """A finished classifier that may be changed."""
    return Path(shutil.copytree(tiny_classifier_run, tmp_path / "classifier"))


def train_classifier(folder: Path, *overrides: str) -> None:
    """Train on train.tsv, valid.tsv and test.tsv in `folder`."""
    settings = {
        "task": "classification",
        "name": folder.name,
        "data": {
            "train": [str(folder / "train.tsv")],
            "valid": [str(folder / "valid.tsv")],
            "test": {"tiny-test": [str(folder / "test.tsv")]},
            "max_length": 6,
        },
        "tokenizer": {"kind": "words"},
        "model": {"ngrams": 1},
        "training": {"learning_rate": 0.01, "precision": "fp32"},
    }
    steps = ("training.max_steps=60", "training.valid_every=30")
    train_here(folder, settings, (*TINY_CLASSIFIER, *steps, *overrides))


def train_here(folder: Path, settings: dict[str, Any], overrides: Sequence[str]) -> None:
    """Train the run `folder`/run."""
    from dragoman.tasks.training import train

    train(parse_config(settings, overrides=overrides), folder / "run")
