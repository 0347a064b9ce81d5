"""Files for the tests of readers: written under a suffix, and the complaint that reading one raises."""

import gzip
import lzma
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dragoman.config import Column
from dragoman.data.corpora import open_corpus
from dragoman.data.records import Corpus, Labelled, Pair
from dragoman.errors import DataError

COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def write(path: Path, content: str | bytes) -> str:
    """Writes a file, compressed as its suffix says; its path."""
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](data))
    return str(path)


def complaint_of(read: Callable[[], Iterable[object]]) -> str:
    """The one line that a `DataError` holds when everything is read."""
    with pytest.raises(DataError) as error:
        list(read())
    assert "\n" not in str(error.value)
    return str(error.value)


def corpus_of(*files: str, columns: tuple[Column, Column] = (0, 1), langs: str = "en de") -> Corpus:
    src_lang, tgt_lang = langs.split()
    return open_corpus(files, src_lang=src_lang, tgt_lang=tgt_lang, columns=columns)


def read(*files: str, **options: Any) -> list[Pair]:
    return list(corpus_of(*files, **options).pairs())


def complaint(*files: str, **options: Any) -> str:
    """The one line that reading parallel text raises."""
    return complaint_of(lambda: corpus_of(*files, **options).pairs())


class Listed(Corpus):
    """A corpus in memory that counts its readings: pairs, or with a separator texts and labels."""

    def __init__(self, content: Sequence[tuple[str, str]], separator: str | None = None) -> None:
        self.content, self.name, self.separator, self.n_readings = content, "listed", separator, 0

    def _read(self) -> Iterator[Pair | Labelled]:
        self.n_readings += 1
        yield from map((Pair if self.separator is None else Labelled)._make, self.content)

    def fingerprint(self) -> str:
        return str(hash(tuple(self.content)))


@pytest.fixture
def offline_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that `datasets` takes for a data set, and no cache that outlives the test."""
    datasets = pytest.importorskip("datasets", reason="needs datasets: pip install 'dragoman[hub]'")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    (tmp_path / "set").mkdir()
    return tmp_path / "set"
