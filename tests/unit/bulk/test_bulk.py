"""Files of any size through a model: chunks, journals, workers, scores, and pairs for training."""

import gzip
import hashlib
import json
import lzma
import os
import random
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from commands import error_of, succeed
from dragoman.bulk import job as bulk_job
from dragoman.bulk.cluster import gpu_of_worker
from dragoman.bulk.input import Chunk, Input
from dragoman.bulk.job import Done, Job, ModelSpec
from dragoman.bulk.journal import Journal
from dragoman.bulk.output import fault_of
from dragoman.bulk.running import Status, device_of_worker, translate_file
from dragoman.bulk.scoring import PairsInput, ScoringJob, as_row
from dragoman.cli.bulk import describe_status, duration
from dragoman.config import TokenizerConfig
from dragoman.data.corpora import open_corpus
from dragoman.data.readers.files import compressed, open_lines
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.predict.flow import ComputeStep, TranslationRequest
from dragoman.predict.results import Alternative, Translation
from dragoman.predict.scoring import score_pairs
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import train_tokenizer
from tiny import WORDS


class StoppedError(Exception):
    """What stands for a Ctrl-C."""


GREEDY = {"beam_size": 1}


def sentences(n: int, *, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(list(WORDS), k=rng.randint(0, 7))) for _ in range(n)]


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_bytes(compressed("".join(f"{line}\n" for line in lines).encode(), path.name))
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def job_of(run: Path, source: Path, out: Path) -> Job:
    return Job(ModelSpec(run), Input.of(str(source)), out, request=TranslationRequest(settings=GREEDY))


def pairs_of(n: int) -> list[tuple[str, str]]:
    rng = random.Random(n)
    drawn = [rng.choices(list(WORDS), k=rng.randint(1, 7)) for _ in range(n)]
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in drawn]


def scoring_of(run: Path, pairs: list[tuple[str, str]], out: Path) -> ScoringJob:
    """A job that scores `pairs`, which stand in two files beside its output."""
    files = out.with_name("in.en"), out.with_name("in.de")
    for path, texts in zip(files, zip(*pairs, strict=True), strict=True):
        write_lines(path, list(texts))
    inputs = PairsInput.of_files(*map(str, files), languages=("en", "de"))
    return ScoringJob(ModelSpec(run, precision="fp32"), inputs, out)


def interrupt(job: Job, n_lines: int) -> None:
    """Run a job until more than `n_lines` are done."""

    def stop(status: Status) -> None:
        if status.n_new > n_lines:
            raise StoppedError

    with pytest.raises(StoppedError):
        translate_file(job, chunk_lines=8, watch=stop)
    assert not job.out.exists()


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run)


# --- chunks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("n_done", [0, 3, 8, 10])
def test_chunks_are_the_lines_behind_those_that_are_done(tmp_path: Path, suffix: str, n_done: int) -> None:
    lines = [f"line {n}" for n in range(1, 11)]
    path = write_lines(tmp_path / f"in.txt{suffix}", lines)
    done = b"".join(f"{line}\n".encode() for line in lines[:n_done])
    digest = hashlib.blake2b(done, digest_size=16).hexdigest()
    chunks = list(Input.of(str(path)).chunks(n_done=n_done, digest=digest, chunk_lines=4))
    assert [line for chunk in chunks for line in chunk.lines] == lines[n_done:]
    assert [chunk.lines[0] for chunk in chunks] == [f"line {chunk.first_number}" for chunk in chunks]
    assert all(len(chunk.lines) == 4 for chunk in chunks[:-1])
    assert all(0 <= chunk.share <= 1 for chunk in chunks)


def test_the_share_of_a_plain_file_ends_behind_the_last_line_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.txt", ["ab", "cde", "f"])
    assert [chunk.share for chunk in Input.of(str(path)).chunks(chunk_lines=2)] == [7 / 9, 1]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_pieces_compressed_one_by_one_are_one_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.txt{suffix}"
    path.write_bytes(b"".join(compressed(piece, path.name) for piece in (b"", b"a\nb\n", b"c\n")))
    assert list(open_lines(path)) == ["a", "b", "c"]
    readers = {"": open, ".gz": gzip.open, ".xz": lzma.open, ".zst": zstandard.open}
    with readers[suffix](path, "rb") as file:
        assert file.read() == b"a\nb\nc\n"


# --- the journal ------------------------------------------------------------------------------------------


def piece(first_number: int, text: str, **counts: int) -> tuple[Chunk, Done]:
    return Chunk(first_number, text.splitlines(), 0, ""), Done(text.encode(), counts)


def written(out: Path, *pieces: tuple[Chunk, Done]) -> None:
    """Writes a file from its beginning to its end."""
    with Journal(out, {}) as journal:
        for each in pieces:
            journal.append(*each)
        journal.finish()


def refused(out: Path, complaint: str, settings: dict[str, Any] | None = None) -> None:
    with pytest.raises(RunError, match=complaint), Journal(out, settings or {}):
        pass


def test_what_a_journal_does_not_count_is_cut_off(out: Path) -> None:
    with Journal(out, {"a": 1}) as journal:
        begun = journal.path.read_bytes()
    journal.partial.unlink()  # as by a kill before it was made
    journal.path.write_bytes(begun)
    with Journal(out, {"a": 1}) as journal:
        journal.append(*piece(1, "one\ntwo\n", empty=1))
    with journal.partial.open("ab") as file:
        file.write(b"half a li")
    with Journal(out, {"a": 1}) as journal:
        assert (journal.n_lines, journal.n_bytes, journal.counts) == (2, 8, {"empty": 1})
        journal.append(*piece(3, "three\n", empty=2))
        journal.finish()
    assert out.read_text() == "one\ntwo\nthree\n"
    assert journal.counts == {"empty": 3}
    assert names_in(out.parent) == ["out.txt"]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_kill_between_the_steps_of_finishing_is_made_good(out: Path, renamed: bool) -> None:
    with Journal(out, {}) as journal:
        journal.append(*piece(1, "one\n"))
        before = journal.path.read_text()
        journal.finish()
    journal.path.write_text(json.dumps({**json.loads(before), "finished": True}))
    if not renamed:
        out.rename(journal.partial)
    with Journal(out, {}) as again:
        assert again.finished
        again.finish()
    assert out.read_text() == "one\n"
    assert names_in(out.parent) == ["out.txt"]


def test_one_process_at_a_time_writes_a_file(out: Path) -> None:
    with Journal(out, {}):
        refused(out, rf"out.txt: process {os.getpid()} is writing it; wait until that")
    assert names_in(out.parent) == ["out.txt.journal", "out.txt.partial"]


def test_a_partial_file_of_somebody_else_stays(out: Path) -> None:
    out.with_name("out.txt.partial").write_text("mine")
    refused(out, r"out.txt.partial: is no unfinished output, for it has no journal")
    assert [(path.name, path.read_text()) for path in out.parent.iterdir()] == [("out.txt.partial", "mine")]


def test_an_error_before_anything_is_done_leaves_nothing(out: Path) -> None:
    with pytest.raises(StoppedError), Journal(out, {}):
        raise StoppedError
    assert names_in(out.parent) == []


def test_a_finished_output_keeps_the_link_and_the_mode_of_what_was_there(out: Path) -> None:
    target = out.parent / "folder" / "target"
    target.parent.mkdir()
    target.touch(mode=0o600)
    out.symlink_to(target)
    written(out, piece(1, "one\n"))
    assert out.is_symlink()
    assert target.read_text() == "one\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names_in(target.parent) == ["target"]


def test_a_device_as_output_is_written_through() -> None:
    written(Path("/dev/null"), piece(1, "one\n"))
    with pytest.raises(RunError, match=r"/dev/full: cannot be written \(No space"):
        written(Path("/dev/full"), piece(1, "one\n"))


def test_other_settings_are_refused_by_name(out: Path) -> None:
    with Journal(out, {"search": {"beam_size": 5}, "model": "m"}) as journal:
        journal.append(*piece(1, "one\n"))
    complaint = (
        r"begun with other settings \(search.beam_size is 5 there, 1 here\); use the same ones to "
        r"continue, or delete it and out.txt.partial to start over"
    )
    refused(out, complaint, {"search": {"beam_size": 1}, "model": "m"})
    refused(out, r"\(the run has other weights or tokens\)", {"search": {"beam_size": 5}, "model": "n"})
    assert journal.partial.read_text() == "one\n"


def test_files_that_do_not_fit_together_are_refused(out: Path) -> None:
    with Journal(out, {}) as journal:
        journal.append(*piece(1, "one\n"))
    journal.partial.write_bytes(b"on")
    refused(out, r"has 2 bytes where out.txt.journal counts 4; delete both")
    for content in ("[" * 100_000, "{}"):
        journal.path.write_text(content)
        refused(out, r"out.txt.journal: is damaged; delete it and out.txt.partial")
    refused(out.parent, "Is a directory; give the name of a file")
    refused(out.parent / "no" / "out", "there is no folder .*no; give")
    assert names_in(out.parent) == ["out.txt.journal", "out.txt.partial"]


# --- a whole file -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n_lines", [0, 30])
def test_a_file_equals_its_lines_translated_together(
    out: Path, tiny_run: Path, translator: Translator, n_lines: int
) -> None:
    lines = sentences(n_lines)
    source, packed = write_lines(out.with_name("in.xz"), lines), out.with_name("out.gz")
    summary = translate_file(job_of(tiny_run, source, packed), chunk_lines=7)
    made = "".join(f"{t.text}\n" for t in translator.translate(lines, beam_size=1))
    assert gzip.decompress(packed.read_bytes()).decode() == made, "even of no line"
    assert (summary.n_lines, summary.n_new, dict(summary.counts)) == (n_lines, n_lines, {})


@pytest.mark.slow
@pytest.mark.parametrize("work", ["translating", "scoring"])
def test_what_is_interrupted_continues_and_no_line_is_done_twice(
    tmp_path: Path, tiny_run: Path, work: str
) -> None:
    pairs = [*pairs_of(10), ("red", ""), *pairs_of(30)]
    jobs = [scoring_of(tiny_run, pairs, tmp_path / name) for name in ("a.gz", "b.gz")]
    if work == "translating":
        jobs = [job_of(tiny_run, tmp_path / "in.en", job.out) for job in jobs]
    expected = translate_file(jobs[0], chunk_lines=8)
    interrupt(jobs[1], 20)
    summary = translate_file(jobs[1], chunk_lines=8)
    assert (summary.n_new, summary.n_earlier) in ((17, 24), (25, 16)), "line 21 is done, or not"
    assert dict(summary.counts) == dict(expected.counts)
    assert jobs[1].out.read_bytes() == jobs[0].out.read_bytes()
    assert names_in(tmp_path) == ["a.gz", "b.gz", "in.de", "in.en"]


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_an_input_that_changed_in_what_is_done_is_not_continued(
    tmp_path: Path, tiny_run: Path, n_workers: int
) -> None:
    source = tmp_path / "in.txt"
    job = job_of(tiny_run, write_lines(source, sentences(10)), tmp_path / "out.txt")
    good = source.read_bytes()
    source.write_bytes(good + b"r\xf6d\n")
    with pytest.raises(DataError, match=r"in.txt line 11: not UTF-8"):
        translate_file(job, chunk_lines=5)
    for content in (good.swapcase(), good[: len(good) // 3]):  # the size stays, or not
        source.write_bytes(content)
        with pytest.raises(DataError, match=r"in.txt: its first \d+ lines have changed since they were tr"):
            translate_file(job, chunk_lines=5, n_workers=n_workers)
    source.write_bytes(good + b"red\n")  # what was wrong, and was not done, may be put right
    assert translate_file(job, chunk_lines=5, n_workers=n_workers).n_lines == 11


def test_long_lines_are_left_empty_where_that_is_asked_for(tmp_path: Path, tiny_run: Path) -> None:
    long = " ".join(["red"] * 600)
    write_lines(tmp_path / "in.txt", ["red cat", long, "blue dog"])
    out = tmp_path / "out.jsonl"
    result = succeed("translate", tiny_run, tmp_path / "in.txt", "--out", out, "--skip-long", "--json")
    assert "without translation, or skipped: 1 of 3: 1 sentences too long for the model" in result.stderr
    records = [json.loads(line) for line in open_lines(out)]
    assert [record["source"] for record in records] == ["red cat", long, "blue dog"]
    assert [bool(record["translation"]) for record in records] == [True, False, True]


def test_an_output_over_the_input_or_the_run_is_refused(tmp_path: Path, tiny_run: Path) -> None:
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    source = write_lines(tmp_path / "in.txt", ["red cat"])
    for out in (source, run / "tokenizer" / "shared.json"):
        before = out.read_bytes()
        with pytest.raises(ConfigError, match=rf"{out}: is the input .*, which would be lost; name another"):
            translate_file(job_of(run, source, out))
        assert out.read_bytes() == before


# --- scoring ----------------------------------------------------------------------------------------------


def test_scores_of_a_stream_are_those_of_memory(tmp_path: Path, tiny_run: Path) -> None:
    long = "cat " * 600
    pairs = [*pairs_of(30), ("red cat", ""), ("", ""), (long, "Katze"), ("a\tb", "rot\tKatze"), ("cat", long)]
    out, shares = tmp_path / "scores.xz", list[float]()
    job = scoring_of(tiny_run, pairs, out)
    summary = translate_file(job, chunk_lines=7, watch=lambda status: shares.append(status.share))
    scores = score_pairs(Translator.load(tiny_run, precision="fp32"), *zip(*pairs, strict=True))
    found = [float(line) if line else None for line in open_lines(out)]
    assert [i for i, value in enumerate(found) if value is None] == [30, 31, 32, 34]
    assert found == [score.mean and pytest.approx(score.mean, abs=2e-4) for score in scores]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert summary.counts["with an empty side"] == 2
    assert summary.counts["with a side longer than the model accepts"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--mean"], [], ["--json"]])
def test_a_file_of_scores_holds_what_stdout_gets_for_any_number_of_workers(
    tmp_path: Path, tiny_run: Path, options: list[str]
) -> None:
    outs = tmp_path / "1.zst", tmp_path / "2.zst"
    files = scoring_of(tiny_run, [*pairs_of(20), ("red", "")], outs[0]).input.files
    expected = succeed("score-model", tiny_run, *files, *options)
    for workers, out in enumerate(outs, 1):
        result = succeed("score-model", tiny_run, *files, *options, "--out", out, "--workers", workers)
        assert "".join(f"{line}\n" for line in open_lines(out)) == expected.stdout
        assert result.stderr.splitlines()[-2:] == expected.stderr.splitlines()[-2:]
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_scores_of_other_targets_or_in_another_format_are_refused(tmp_path: Path, tiny_run: Path) -> None:
    pairs = pairs_of(20)
    job = scoring_of(tiny_run, pairs, tmp_path / "out")
    interrupt(job, 10)
    with pytest.raises(RunError, match=r"begun with other settings .*as_row"):
        translate_file(replace(job, write=as_row), chunk_lines=8)
    scoring_of(tiny_run, [(pairs[0][0], "Katze"), *pairs[1:]], job.out)
    with pytest.raises(DataError, match=r"in.en \+ .*in.de: its first \d+ lines have changed"):
        translate_file(job, chunk_lines=8)
    scoring_of(tiny_run, pairs, job.out)
    assert translate_file(job, chunk_lines=8).n_lines == 20


# --- progress ---------------------------------------------------------------------------------------------


def test_the_time_left_follows_from_the_share_that_was_read() -> None:
    # 40 lines are in the half that was read, so 80 in all; 20 were done before, 10 in 5 s: 50 are left.
    status = Status(share=0.5, n_read=40, n_earlier=20, n_new=10, seconds=5.0)
    assert status.seconds_left == pytest.approx((80 - 30) / (10 / 5))
    assert describe_status(status) == "50.0 % read · 30 lines · 2.0 sentences/s · 25 s left"
    assert Status(share=0.5, n_read=40, n_earlier=20, seconds=5.0).seconds_left is None
    assert list(map(duration, (42, 600, 3 * 3600, 5 * 86400))) == ["42 s", "10 min", "3.0 h", "5.0 days"]


def test_workers_take_turns_on_gpus_unless_one_is_named() -> None:
    assert [device_of_worker("auto", i, n_gpus=2) for i in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of_worker("cuda:1", 0, n_gpus=2) == "cuda:1"
    assert device_of_worker("auto", 1, n_gpus=0) == "auto"
    assert device_of_worker("cpu", 1, n_gpus=2) == "cpu"


@given(st.integers(1, 99), st.integers(1, 99))
def test_workers_of_a_cluster_share_its_gpus_so_that_all_find_room(n_workers: int, n_gpus: int) -> None:
    share = gpu_of_worker("auto", n_workers=n_workers, n_gpus=n_gpus)
    assert n_gpus * int(1 / share) >= n_workers
    assert share == 1 or n_gpus < n_workers
    assert gpu_of_worker("cpu", n_workers=n_workers, n_gpus=n_gpus) == 0
    assert gpu_of_worker("auto", n_workers=n_workers, n_gpus=0) == 0


# --- back-translation -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "tag"), [([], "<BT> "), (["--tag", ""], "")])
def test_pairs_are_read_by_the_training_as_they_were_meant(
    tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], tag: str
) -> None:
    made = {
        "red cat": "rot\tKatze", "": "", "big\told  house": "groß alt", "blue dog": "Hund Hund Hund Hund",
        "small bird \u2028 river": " klein Vogel",
    }  # fmt: skip

    def translate(model: Translator, texts: list[str], *_: Any, **options: Any) -> Any:
        yield ComputeStep(list, [], [])
        return [Translation(text, (Alternative(made[text], 0.0),)) for text in texts]

    monkeypatch.setattr(bulk_job, "translated", translate)
    mono, out = write_lines(tmp_path / "mono.txt", list(made)), tmp_path / "pairs.tsv.zst"
    result = succeed("backtranslate", tiny_run, mono, "--out", out, "--max-ratio", 0, *options)
    assert "skipped: 2 of 5: 1 empty lines, 1 repetitions" in result.stderr
    assert list(open_corpus([str(out)], src_lang="de", tgt_lang="en").pairs()) == [
        (f"{tag}rot Katze", "red cat"),
        (f"{tag}groß alt", "big old house"),
        (f"{tag}klein Vogel", "small bird river"),
    ]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_a_tag_is_the_same_tokens_before_every_sentence(kind: str) -> None:
    texts = [f"<BT> {text}" for text in sentences(300) if text]
    config = TokenizerConfig(kind=kind, vocab_size=330)  # type: ignore[arg-type]
    tokenizer = train_tokenizer(texts, config)
    tag = tokenizer.encode("<BT>")
    for text in sentences(20, seed=2):
        ids, alone = tokenizer.encode(f"<BT> {text}"), tokenizer.encode(text)
        assert ids[: len(tag)] == tag
        assert ids[len(ids) - len(alone) :] == alone, "and the sentence is cut as before"
    assert "\ufffd" not in tokenizer.decode(tag)


LONG = "rot groß klein alt Katze Hund Vogel Haus Baum Fluss rot blau grün alt"


@pytest.mark.parametrize(
    ("source", "made", "reason"),
    [
        ("red cat", "", "empty translations"),
        ("red cat", "Katze Katze Katze Katze", "repetitions"),
        ("red old cat", "red old cat", "copies"),
        ("red cat", LONG, "unequal lengths"),
        ("red cat", "rot Katze", ""),
        ("no no no no no", "nein nein nein nein nein", ""),  # says so itself
    ],
)
def test_a_fault_is_named(translator: Translator, source: str, made: str, reason: str) -> None:
    tokenizers = translator.tokenizers
    n_src, n_tgt = len(tokenizers.src.encode(source)), len(tokenizers.tgt.encode(made))
    ratio = 2.0 if reason else 1 + (5 + max(n_src, n_tgt)) / (5 + min(n_src, n_tgt))
    assert fault_of(source, made, tokenizers, max_ratio=ratio) == reason
    is_length = reason == "unequal lengths"
    assert fault_of(source, made, tokenizers, max_ratio=0) == ("" if is_length else reason), "0 is no limit"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("backtranslate RUN mono --out p.txt", "pairs are read by their name; end it in .tsv"),
        ("backtranslate RUN mono --out p.tsv --tag a\tb", "white space would be lost"),
        ("backtranslate RUN mono --out p.tsv --set model.d_model=8", "settings of [search] only"),
        ("backtranslate RUN mono --out p.tsv --set search.beam=8", "did you mean search.beam_size?"),
        ("backtranslate RUN mono --out p.tsv --max-ratio 0.9", "0.9: would skip every pair; give 1 or more"),
        ("distill RUN --max-ratio 0.5", "--max-ratio 0.5: would skip every pair; give 1 or more, or 0 to ke"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch, command: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("mono"), ["red cat"])
    assert complaint in error_of(*command.replace("RUN", str(tiny_run)).split(" "))
    assert names_in(tmp_path) == ["mono"]
