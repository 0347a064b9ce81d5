"""Commands whose inputs and outputs lie in a store: they do what they do with files of this machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman import remote
from dragoman.bulk.job import Job
from dragoman.data.readers import files
from object_store import Store, serving
from tiny import TINY, write_corpus

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with a corpus, and an empty working directory."""
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: None)
    files._fetch.cache_clear()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with serving(monkeypatch) as found:
        for name, n_pairs in {"train": 60, "valid": 8}.items():
            write_corpus(tmp_path / "corpus", name, n_pairs, seed=n_pairs)
        for path in (tmp_path / "corpus").iterdir():
            found.put(path.name, path.read_bytes())
        yield found


def test_a_training_reads_objects_and_writes_here(store: Store) -> None:
    options = [option for setting in TINY for option in ("--set", setting)]
    sides = ["--src", "s3://corpora/train.en", "--tgt", "s3://corpora/train.de"]
    succeed("train", *sides, "--valid-tsv", "s3://corpora/valid.tsv", "--out", "run", *options)
    assert Path("run/model.safetensors").exists()
    assert "has to be on this machine" in error_of("train", *sides, "--out", "s3://corpora/run", *options)
    assert "has to be on this machine" in error_of("translate", "s3://corpora/run", "run/config.toml")
    assert sorted(path.name for path in Path().iterdir()) == ["run"]


def test_translations_go_from_object_to_object(store: Store, tiny_run: Path, tmp_path: Path) -> None:
    here = tmp_path / "corpus" / "valid.en"
    succeed("translate", tiny_run, here, "--out", tmp_path / "here.de")
    said = succeed("translate", tiny_run, "s3://corpora/valid.en", "--out", "s3://corpora/out/there.de")
    assert store.get("out/there.de") == (tmp_path / "here.de").read_bytes()
    assert "s3://corpora/out/there.de" in said.stderr
    assert list(Path().iterdir()) == []
    lost = error_of("translate", tiny_run, "s3://corpora/valid.en", "--out", "s3://corpora/valid.en")
    assert "s3://corpora/valid.en: is an input, which would be lost" in lost


def test_a_failed_upload_is_continued_by_the_same_command(
    store: Store, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["translate", tiny_run, "s3://corpora/valid.en", "--out", "s3://corpora/out.de"]
    store.cuts = [("PUT", 0)] * 1000
    monkeypatch.setattr(remote, "N_ATTEMPTS", 1)
    assert "s3://corpora/out.de: cannot be written" in error_of(*command)
    assert "out.de" not in store.names()
    store.cuts.clear()
    monkeypatch.setattr(Job, "open", None)  # all is translated
    succeed(*command)
    assert store.get("out.de").count(b"\n") == 8


def test_labels_and_scores_and_checks(
    store: Store, tiny_run: Path, tiny_classifier_run: Path, tmp_path: Path
) -> None:
    succeed("classify", tiny_classifier_run, "s3://corpora/valid.en", "--out", "s3://corpora/labels.tsv")
    assert store.get("labels.tsv").count(b"\n") == 8
    pair = ["s3://corpora/valid.en", "s3://corpora/valid.de"]
    here = [tmp_path / "corpus" / Path(name).name for name in pair]
    assert succeed("score-model", tiny_run, *pair).stdout == succeed("score-model", tiny_run, *here).stdout
    checked = succeed(
        "data", "check", *pair, "--json", "--test", "s3://corpora/train.en,s3://corpora/train.de"
    )
    assert json.loads(checked.stdout)["reports"][0]["n_checked"] == 8
