"""Pairs chosen by score: exactly the best ones, in files of the same layout, all or nothing."""

import errno
import gzip
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from commands import error_of, succeed
from dragoman.data.doctor import clean
from dragoman.data.doctor.selection import Distribution, Scores

N = 60


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.en", tmp_path / "a.de.gz"]
    paths[0].write_text("".join(f"source {i}\n" for i in range(N)), encoding="utf-8")
    paths[1].write_bytes(gzip.compress("".join(f"target {i}\n" for i in range(N)).encode()))
    return paths


def write_scores(path: Path, scores: list[float | None]) -> Path:
    path.write_text("".join("\n" if s is None else f"{s}\n" for s in scores), encoding="utf-8")
    return path


def tied_scores(seed: int, *, n_unscored: int = 0) -> list[float | None]:
    """Return N scores of five values."""
    rng = random.Random(seed)
    scores: list[float | None] = [rng.choice([-3.5, -2.0, -1.25, -1.0, -0.5]) for _ in range(N)]
    for i in rng.sample(range(N), n_unscored):
        scores[i] = None
    return scores


def kept_in(folder: Path) -> list[int]:
    """Return the indices of the pairs in a folder, which both sides agree on."""
    sources = (folder / "a.en").read_text(encoding="utf-8").splitlines()
    targets = gzip.decompress((folder / "a.de.gz").read_bytes()).decode().splitlines()
    numbers = [int(line.removeprefix("source ")) for line in sources]
    assert targets == [f"target {i}" for i in numbers]
    return numbers


def best(scores: list[float | None], n: int) -> list[int]:
    """Return the indices of the n best scores in order; of equal ones the first. By sorting."""
    known = [(-score, i) for i, score in enumerate(scores) if score is not None]
    return sorted(i for _, i in sorted(known)[:n])


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
@pytest.mark.parametrize("n_unscored", [0, 7])
def test_the_best_share_is_kept_exactly_and_the_first_of_equal_scores(
    corpus: list[Path], tmp_path: Path, share: float, n_unscored: int
) -> None:
    scores = tied_scores(round(100 * share), n_unscored=n_unscored)
    file = write_scores(tmp_path / "scores", scores)
    result = succeed(
        "data", "filter", *corpus, "--by-score", file, "--keep", share, "--out", tmp_path / "out"
    )
    expected = best(scores, round(share * N))
    assert kept_in(tmp_path / "out") == expected
    assert f"kept {len(expected)} of {N} lines, dropped {N - len(expected)}" in result.stderr
    lines = (tmp_path / "out" / "dropped.jsonl").read_text(encoding="utf-8").splitlines()
    dropped = list(map(json.loads, lines))
    others = [i for i in range(N) if i not in expected]
    assert [one["number"] for one in dropped] == [i + 1 for i in others]
    assert [one["score"] for one in dropped] == [scores[i] for i in others]
    assert [one["src"] for one in dropped] == [f"source {i}" for i in others]
    reasons = [["no score" if scores[i] is None else "low score"] for i in others]
    assert [one["reasons"] for one in dropped] == reasons


def test_a_threshold_keeps_what_reaches_it(corpus: list[Path], tmp_path: Path) -> None:
    scores = tied_scores(1, n_unscored=5)
    file = write_scores(tmp_path / "scores", scores)
    command = ["data", "filter", *corpus, "--by-score", file, "--at-least", "-1.25"]
    assert "would keep " in succeed(*command).stderr
    assert not (tmp_path / "out").exists()
    succeed(*command, "--out", tmp_path / "out")
    reaching = [i for i, score in enumerate(scores) if score is not None and score >= -1.25]
    assert kept_in(tmp_path / "out") == reaching
    succeed(*command, "--out", tmp_path / "all", "--keep-unscored")
    assert kept_in(tmp_path / "all") == sorted([*reaching, *(i for i, s in enumerate(scores) if s is None)])


@pytest.mark.parametrize("dual", [False, True])
def test_several_files_are_averaged_or_compared(corpus: list[Path], tmp_path: Path, dual: bool) -> None:
    rng = random.Random(3)
    forward, backward = ([-rng.expovariate(1) for _ in range(N)] for _ in range(2))
    files = [write_scores(tmp_path / f"{i}", list(s)) for i, s in enumerate((forward, backward))]
    both = zip(forward, backward, strict=True)
    # Junczys-Dowmunt 2018, equation 4: |H - H'| + (H + H') / 2, of cross-entropies; ours is its negative.
    own = [-(abs(-a - -b) + (-a - b) / 2) if dual else (a + b) / 2 for a, b in both]
    assert list(Scores(files, dual=dual)) == pytest.approx(own)
    options = ["--by-score", files[0], "--by-score", files[1], *(["--dual"] if dual else [])]
    succeed("data", "filter", *corpus, *options, "--keep", 0.25, "--out", tmp_path / "out")
    assert kept_in(tmp_path / "out") == best(list(own), N // 4)


def test_a_model_scores_and_the_filter_reads_its_scores(tiny_run: Path, tmp_path: Path) -> None:
    pairs = [("red cat", "rot Katze"), ("", "rot"), ("old dog", "alt Hund"), ("tree", "Baum")]
    file, scores = tmp_path / "a.tsv", tmp_path / "scores.gz"
    file.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    for i, options in enumerate(([], ["--mean"])):
        succeed("score-model", tiny_run, file, "--out", scores, *options)
        out = tmp_path / f"out{i}"
        succeed("data", "filter", file, "--by-score", scores, "--keep", 0.75, "--out", out)
        kept = (out / "a.tsv").read_text(encoding="utf-8").splitlines()
        assert kept == [f"{src}\t{tgt}" for src, tgt in pairs if src]


GOOD = "".join(f"-{i}.5\n" for i in range(N))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (GOOD + "-1\n", ["--keep", 0.5], "s has 61 lines and "),
        (GOOD[:-10], ["--keep", 0.5], "60 pairs; give one line for each pair"),
        (GOOD.replace("-7.5", "-7,5"), ["--keep", 0.5], "s line 8: '-7,5' is not a finite number; write one"),
        (GOOD.replace("-7.5", "nan"), ["--keep", 0.5], "s line 8: 'nan' is not a finite number"),
        (GOOD, ["--at-least", 0], "nothing would be left: no score is at least 0; the highest is -0.5"),
        (GOOD, ["--keep", 0.001], "nothing would be left: 0.001 of 60 pairs is not one that has a score"),
        ("\n" * N, ["--at-least", -9], "no score is at least -9; there are none"),
        (GOOD, ["--keep", 0.5, "--at-least", -3], "--at-least and --keep are two ways to choose pairs"),
        (GOOD, [], "--out: which pairs? Give --at-least NUMBER or --keep SHARE"),
        (GOOD, ["--keep", 0.5, "--dual"], "--dual: needs --by-score twice"),
        (GOOD, ["--keep", 0.5, "--by-score", "no"], "no: no such file"),
        (GOOD, ["--keep", 0.5, "--by-score", "short"], "short has 2 lines and another file of scores more"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_leave_nothing(
    corpus: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scores: str,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s").write_text(scores, encoding="utf-8")
    Path("short").write_text("-1\n-2\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert message in error_of("data", "filter", *corpus, "--by-score", "s", *options, "--out", "out")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_leaves_neither_a_folder_nor_a_part_of_it(
    corpus: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, names = clean._write, []

    def full(path: Path, lines: object) -> None:
        write(path, lines)  # type: ignore[arg-type]
        names.append(path.name)
        if len(names) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(clean, "_write", full)
    file = write_scores(tmp_path / "scores", tied_scores(2))
    before = sorted(path.name for path in tmp_path.iterdir())
    command = ["data", "filter", *corpus, "--by-score", file, "--keep", 0.5, "--out", tmp_path / "out"]
    assert "cannot be written (No space left on device)" in error_of(*command)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    monkeypatch.setattr(clean, "_write", write)
    succeed(*command)
    assert "out: exists already; name a new folder" in error_of(*command)


def test_a_histogram_counts_every_score_once_and_says_what_a_threshold_keeps() -> None:
    rng = np.random.default_rng(1)
    many = np.concatenate([rng.normal(-2, 0.7, 1000), [-700.0, np.nan], rng.choice([-1.0, -2.0], 1500)])
    for scores in (many, many[:1002], [-1.0] * 7, [0.0], [math.nan] * 3, [-1.0, math.nan]):
        found, n_known = Distribution(scores), sum(not math.isnan(score) for score in scores)
        assert found.n_unscored == len(scores) - n_known
        bins = found.histogram()
        assert len(scores) < 1000 or 8 <= len(bins) <= 25
        assert sum(one.n_inside for one in bins) == n_known
        for one in bins:
            assert one.n_from == found.n_from(one.low) == np.count_nonzero(np.array(scores) >= one.low)
