"""A run that other runs begin with."""

import shutil
from itertools import islice
from pathlib import Path

import pytest

from commands import succeed
from dragoman.data.named import open_validation
from dragoman.predict.model import translation_config
from dragoman.runs import Run
from sharing import made_once
from tiny import TINY, write_corpus


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on two corpora that holds out pairs, and new text that shares some of them."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            write_corpus(folder, "train", 200, seed=1)
            write_corpus(folder, "more", 100, seed=2)
            files = ["--src", "train.en", "--tgt", "train.de", "--src", "more.en", "--tgt", "more.de"]
            settings = [f"--set={setting}" for setting in (*TINY, "data.n_held_out=23", "data.split_seed=5")]
            succeed("train", *files, "--out", "start", *settings)
            lines = [
                f"engine {i} runs on {i % 7} litres\tMotor {i} läuft mit {i % 7} Litern" for i in range(60)
            ]
            (part,) = open_validation(translation_config(Run.open("start")))
            shared = [f"{pair.src}\t{pair.tgt}" for pair in islice(part.corpus.pairs(), 8)]
            Path("new.tsv").write_text("\n".join([*lines, *shared]) + "\n", encoding="utf-8")

    return made_once(tmp_path_factory, "replay", make)


@pytest.fixture
def there(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the working directory."""
    monkeypatch.chdir(shutil.copytree(trained, tmp_path / "there"))
    return tmp_path / "there"
