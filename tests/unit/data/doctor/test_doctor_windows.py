"""A corpus too large to be judged at once: window by window, with what only the whole tells at the end."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from corpus_files import Listed
from dragoman.data.doctor import Report, check_corpus, checkup
from dragoman.data.doctor.alignment import check_alignment
from dragoman.data.doctor.findings import thresholds_of
from dragoman.data.doctor.words import SideReader, length_deviations
from dragoman.data.records import Numbered
from dragoman.errors import ConfigError, RunError
from faulty import lines_with, phrases

CHUNK, WINDOW, TAIL = 50, 600, 300


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "CHUNK", CHUNK)
    monkeypatch.setattr(checkup, "WINDOW", WINDOW)
    monkeypatch.setattr(checkup, "TAIL", TAIL)
    monkeypatch.setattr(checkup, "_PARTITION", 100)


def check(pairs: list[tuple[str, str]]) -> Report:
    return check_corpus(Listed(pairs), src_lang="en", tgt_lang="de")


def test_windows_hold_everything_and_the_last_one_is_not_small(small_windows: None) -> None:
    for n in (40, 600, 899, 900, 950, 1499, 1500, 1700):
        pairs = [Numbered(i, ("a", "b")) for i in range(n)]
        chunks = [pairs[i : i + CHUNK] for i in range(0, n, CHUNK)]
        found = list(checkup.windows(iter(chunks)))
        assert [chunk for window in found for chunk in window] == chunks
        sizes = [sum(map(len, window)) for window in found]
        assert sizes[:-1] == [WINDOW] * (len(sizes) - 1)
        assert len(sizes) == 1 or TAIL <= sizes[-1] < WINDOW + TAIL


@pytest.mark.slow
def test_faults_are_numbered_through_all_windows_whatever_the_number_of_workers(small_windows: None) -> None:
    pairs = phrases(2000)
    for i in (20, 700, 1900):
        pairs[i] = ("", pairs[i][1])
    pairs[1500], pairs[1950] = pairs[3], (pairs[4][0].upper() + "!", pairs[4][1])
    pairs[1000:1010] = [(f"See room {i}.", f"Siehe Zimmer {i}.") for i in range(10)]
    some = {"test": Listed([pairs[7], pairs[1200]])}
    targets = [tgt for _, tgt in pairs]
    targets[560:640] = targets[639:640] + targets[560:639]  # across the border of two windows
    corpus = Listed([(src, tgt) for (src, _), tgt in zip(pairs, targets, strict=True)])
    languages = {"src_lang": "en", "tgt_lang": "de"}
    report, same = (check_corpus(corpus, held_out=some, n_workers=n, **languages) for n in (1, 3))
    assert report.record() == same.record()
    assert report.n_lines == 2000
    assert lines_with(report, "overlap") == lines_with(same, "overlap") == [8, 1201]
    assert lines_with(report, "empty") == lines_with(same, "empty") == [21, 701, 1901]
    assert lines_with(report, "duplicate") == [1501]
    assert lines_with(report, "duplicate-near") == [*range(1002, 1011), 1951]
    assert report.finding("duplicate-near").examples[0].detail == "as pair 1001"  # type: ignore[union-attr]
    shifted = report.finding("shifted")
    assert shifted is not None
    first, last = int(shifted.lines[0]), int(shifted.lines[-1])
    assert shifted.summary == (f"pairs {first} to {last}: the target of a source is 1 pair below",)
    for kind in ("length", "unrelated", "numbers"):  # which the shift explains
        assert not set(range(570, 635)) & set(lines_with(report, kind))
    assert abs(first - 561) <= 5
    assert abs(last - 640) <= 5


@pytest.mark.slow
def test_a_worker_that_dies_is_named(small_windows: None) -> None:
    def kill(doing: str, n: int) -> None:
        for child in multiprocessing.active_children():
            os.kill(child.pid or 0, signal.SIGKILL)

    with pytest.raises(RunError, match=r"worker \d \(process \d+\) died, killed by SIGKILL, .*--workers"):
        check_corpus(Listed(phrases(2000)), n_workers=2, progress=kill)
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_examples_are_spread_over_a_long_corpus(small_windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_MIN_KEPT", 12)
    pairs = [("", f"{i}") if i % 10 == 5 else (f"a{i}", f"b{i}") for i in range(3000)]
    finding = check_corpus(Listed(pairs), n_examples=4).finding("empty")
    assert finding is not None
    assert finding.count == 300
    assert [example.texts[1] for example in finding.examples] == [str(e.line - 1) for e in finding.examples]
    assert np.diff([0, *(example.line for example in finding.examples), 3000]).max() < 1500


@pytest.mark.slow
def test_windows_unlike_all_others_are_faults(small_windows: None) -> None:
    pairs = phrases(1800)
    polish = phrases(1800, tgt_lang="pl")
    pairs[600:1200] = polish[600:1200]
    report = check(pairs)
    assert set(range(601, 1201)) <= set(lines_with(report, "language"))
    found = report.finding("languages")
    assert found is not None
    assert found.summary == (
        "pairs 601 to 1200: the target is declared as de, but its short words are those of pl",
    )
    assert not report.notes


@pytest.mark.slow
def test_thresholds_decide_what_is_a_fault() -> None:
    pairs = phrases(1500)
    pairs[700] = (pairs[700][0], " ".join(pairs[i][1] for i in range(700, 706)))
    readers = SideReader(), SideReader()
    for reader, texts in zip(readers, zip(*pairs, strict=True), strict=True):
        reader.add(texts)
    sides = readers[0].side(), readers[1].side()
    deviations, probability = np.abs(length_deviations(*sides)), check_alignment(*sides).probability
    assert 701 in np.flatnonzero(deviations >= 6) + 1
    for value in (2, 6, 20):
        report = check_corpus(Listed(pairs), thresholds=thresholds_of([f"length={value}"]))
        assert lines_with(report, "length") == (np.flatnonzero(deviations >= value) + 1).tolist()
    assert (probability < 0.999).any()
    for value in (0.04, 0.4, 0.999):
        report = check_corpus(Listed(pairs), thresholds=thresholds_of([f"unrelated={value}"]))
        assert lines_with(report, "unrelated") == (np.flatnonzero(probability < value) + 1).tolist()


def test_thresholds_that_cannot_be() -> None:
    for text, message in {
        "markup=3": "no threshold; give one of length, overlap-near, unrelated, as in length=6",
        "length": "give a number from 2 to 20",
        "unrelated=2": "give a number from 0 to 1",
        "length=nan": "give a number",
    }.items():
        with pytest.raises(ConfigError, match=f"{text}: {message}"):
            thresholds_of([text])
