"""Corpora scored as a stream: as in memory, resumable as a translation, with a line for each pair."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from commands import succeed
from dragoman.bulk.job import ModelSpec
from dragoman.bulk.running import Status, translate_file
from dragoman.bulk.scoring import PairsInput, ScoringJob, as_row
from dragoman.data.readers.files import open_lines
from dragoman.errors import DataError, RunError
from dragoman.predict.scoring import score_pairs
from dragoman.predict.translator import Translator
from tiny import WORDS

LONG = "cat " * 600


class StoppedError(Exception):
    """Stands for a Ctrl-C."""


def pairs_of(n: int) -> list[tuple[str, str]]:
    rng = random.Random(n)
    drawn = [rng.choices(list(WORDS), k=rng.randint(1, 7)) for _ in range(n)]
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in drawn]


def write_pairs(folder: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    paths = folder / "in.en", folder / "in.de"
    for i, path in enumerate(paths):
        path.write_text("".join(f"{pair[i]}\n" for pair in pairs), encoding="utf-8")
    return paths


def job_of(run: Path, files: tuple[Path, Path], out: Path) -> ScoringJob:
    model = ModelSpec(run, precision="fp32")
    return ScoringJob(model, PairsInput.of_files(*map(str, files), languages=("en", "de")), out)


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run, precision="fp32")


def test_scores_of_a_stream_are_those_of_memory(
    tmp_path: Path, tiny_run: Path, translator: Translator
) -> None:
    pairs = [*pairs_of(30), ("red cat", ""), ("", ""), (LONG, "Katze"), ("a\tb", "rot\tKatze"), ("cat", LONG)]
    out, shares = tmp_path / "scores.xz", list[float]()
    job = job_of(tiny_run, write_pairs(tmp_path, pairs), out)
    summary = translate_file(job, chunk_lines=7, watch=lambda status: shares.append(status.share))
    sources, targets = zip(*pairs, strict=True)
    expected = [score.mean for score in score_pairs(translator, sources, targets)]
    found = [float(line) if line else None for line in open_lines(out)]
    assert [value is None for value in found] == [value is None for value in expected]
    assert [i for i, value in enumerate(found) if value is None] == [30, 31, 32, 34]
    known = [(a, b) for a, b in zip(found, expected, strict=True) if a is not None and b is not None]
    assert [a for a, _ in known] == pytest.approx([b for _, b in known], abs=2e-4)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert summary.counts["with an empty side"] == 2
    assert summary.counts["with a side longer than the model accepts"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--mean"], [], ["--json"]])
def test_a_file_holds_what_stdout_gets_for_any_number_of_workers(
    tmp_path: Path, tiny_run: Path, options: list[str]
) -> None:
    files = write_pairs(tmp_path, [*pairs_of(20), ("red", "")])
    expected = succeed("score-model", tiny_run, *files, *options)
    for workers in (1, 2):
        out = tmp_path / f"{workers}.zst"
        result = succeed("score-model", tiny_run, *files, *options, "--out", out, "--workers", workers)
        assert "".join(f"{line}\n" for line in open_lines(out)) == expected.stdout
        assert result.stderr.splitlines()[-2:] == expected.stderr.splitlines()[-2:]
    assert (tmp_path / "1.zst").read_bytes() == (tmp_path / "2.zst").read_bytes()


def interrupt(job: ScoringJob, n_lines: int) -> None:
    """Run a job until more than `n_lines` are done."""

    def stop(status: Status) -> None:
        if status.n_new > n_lines:
            raise StoppedError

    with pytest.raises(StoppedError):
        translate_file(job, chunk_lines=5, watch=stop)
    assert not job.out.exists()


def test_what_is_interrupted_continues_to_the_same_bytes_and_totals(tmp_path: Path, tiny_run: Path) -> None:
    files = write_pairs(tmp_path, [*pairs_of(10), ("red", ""), *pairs_of(30)])
    whole, out = (
        replace(job_of(tiny_run, files, tmp_path / name), write=as_row) for name in ("a.gz", "b.gz")
    )
    expected = translate_file(whole, chunk_lines=5)
    interrupt(out, 20)
    summary = translate_file(out, chunk_lines=5)
    assert 10 < summary.n_new < 41
    assert dict(summary.counts) == dict(expected.counts)
    assert out.out.read_bytes() == whole.out.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"in.en", "in.de", "a.gz", "b.gz"}


def test_other_text_or_formats_are_refused(tmp_path: Path, tiny_run: Path) -> None:
    pairs = pairs_of(20)
    job = job_of(tiny_run, write_pairs(tmp_path, pairs), tmp_path / "out")
    interrupt(job, 10)
    with pytest.raises(RunError, match=r"begun with other settings .*as_row"):
        translate_file(replace(job, write=as_row), chunk_lines=5)
    write_pairs(tmp_path, [(pairs[0][0], "Katze"), *pairs[1:]])  # the target alone
    with pytest.raises(DataError, match=r"in.en \+ .*in.de: its first \d+ lines have changed"):
        translate_file(job, chunk_lines=5)
    write_pairs(tmp_path, pairs)
    assert translate_file(job, chunk_lines=5).n_lines == 20
