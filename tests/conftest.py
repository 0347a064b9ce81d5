"""What several tests share: a finished run."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import parse_config
from tiny import TINY, write_corpus


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, en → de, that has learnt next to nothing. Copy it before changing anything in it."""
    from dragoman.training.loop import train

    folder = tmp_path_factory.mktemp("tiny")
    for name, n_pairs in {"train": 200, "valid": 20, "test": 15}.items():
        write_corpus(folder, name, n_pairs, seed=n_pairs)
    settings = {
        "name": "tiny",
        "data": {
            "src_lang": "en",
            "tgt_lang": "de",
            "train": [str(folder / "train.en"), str(folder / "train.de")],
            "valid": [str(folder / "valid.tsv")],
            "test": {"tiny-test": [str(folder / "test.en"), str(folder / "test.de")]},
        },
    }
    return train(parse_config(settings, overrides=TINY), folder / "run")
