"""Lessons of other text, of other teachers, and the best of them by score."""

import gzip
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import error_of, succeed
from dragoman.bulk.job import Done, Job, ModelSpec
from dragoman.bulk.journal import Journal
from dragoman.bulk.running import Status, translate_file
from dragoman.bulk.scoring import PairsInput, ScoringJob
from dragoman.config import TranslationConfig
from dragoman.data.named import open_direction
from dragoman.data.readers.files import open_lines
from dragoman.data.records import Pair
from dragoman.distillation import distilling
from dragoman.distillation.distilling import student_config
from dragoman.distillation.lessons import Lessons
from dragoman.distillation.teaching import DROPPED, Judged, check_lessons, one_line, teach, without_worst
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.predict.model import translation_config
from dragoman.predict.scoring import score_pairs
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from tiny import TINY, write_corpus

SENTENCES = ["the red cat", "", "a big  dog", "old tree", "river house", "small bird", "blue cat dog"]
ALL = Lessons(max_ratio=0.0)


@pytest.fixture
def config(tiny_run: Path) -> TranslationConfig:
    return translation_config(Run.open(tiny_run))


@pytest.fixture
def text(tmp_path: Path) -> tuple[str, str]:
    """Source text in two files, one of them compressed."""
    plain, packed = tmp_path / "a.en", tmp_path / "b.en.gz"
    plain.write_text("".join(f"{line}\n" for line in SENTENCES[:3]), encoding="utf-8")
    packed.write_bytes(gzip.compress("".join(f"{line}\n" for line in SENTENCES[3:]).encode()))
    return str(plain), str(packed)


def translate(job: Job) -> Status:
    return translate_file(job, chunk_lines=2)


Taught = Callable[..., dict[str, Any]]


@pytest.fixture
def taught(tiny_run: Path, config: TranslationConfig) -> Taught:
    """Lessons in a folder, of the tiny run."""
    return partial(teach, tiny_run, config, translate=translate)


def lines(path: Path) -> list[str]:
    return list(open_lines(path))


def test_other_text_is_translated_line_by_line_and_what_is_left_out_is_listed(
    tiny_run: Path, taught: Taught, text: tuple[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "lessons"
    record = taught(folder, lessons=ALL._replace(text=text))
    sources = [" ".join(line.split()) for line in SENTENCES]
    assert lines(folder / "sources.gz") == sources
    dropped = [line.split("\t") for line in lines(folder / DROPPED)]
    assert ["empty lines", "", ""] in dropped
    assert record["n_pairs"] == len(SENTENCES) == record["n_kept"] + len(dropped)
    assert sum(record["left_out"].values()) == len(dropped)
    for reason, n in record["left_out"].items():
        assert n == sum(row[0] == reason for row in dropped)
    kept = lines(folder / "train.src.gz")
    assert [src for src in sources if src in kept] == kept, "the order stays"
    assert sorted([*kept, *(row[1] for row in dropped)]) == sorted(sources)
    best = [t.text for t in Translator.load(tiny_run).translate(kept)]
    assert lines(folder / "train.tgt.gz") == [" ".join(one.split()) for one in best]


def test_translations_of_any_teacher_are_learnt_as_they_are(
    tiny_run: Path, config: TranslationConfig, taught: Taught, tmp_path: Path
) -> None:
    pairs, folder = tmp_path / "pairs.tsv", tmp_path / "lessons"
    pairs.write_text("red cat\trote  Katze\nold dog\t\nbig tree\tbig tree\nbird\tVogel\n", encoding="utf-8")

    lessons = ALL._replace(teacher_output=str(pairs), references=True)
    record = taught(folder, lessons=lessons, translate=lambda _: pytest.fail("there is nothing to do"))
    assert lines(folder / "train.src.gz") == ["red cat", "bird"]
    assert lines(folder / "train.tgt.gz") == ["rote Katze", "Vogel"]
    assert record["left_out"] == {"empty translations": 1, "copies": 1}
    assert record["n_references"] == len(lines(Path(config.data.train[0])))
    assert lines(folder / "references.src.gz") == lines(Path(config.data.train[0]))
    student = student_config(config, "fast", start=tiny_run, lessons=folder, with_references=True)
    assert [corpus.name for corpus in student.data.corpora if corpus.files] == ["lessons", "references"]
    assert student.tests.keys() == {"tiny-test (en-de)"}


def test_an_ensemble_teaches_what_its_models_write_together(
    tiny_run: Path, taught: Taught, text: tuple[str, str], tmp_path: Path
) -> None:
    other = shutil.copytree(tiny_run, tmp_path / "other")
    run = Run.open(other)
    run.save_weights({name: value.roll(7, 0) for name, value in run.load_weights().items()})
    taught(tmp_path / "both", lessons=ALL._replace(text=text, ensemble=(str(other),)))
    together = Translator.load([tiny_run, other]).translate(lines(tmp_path / "both" / "sources.gz"))
    made = [" ".join(one.text.split()) for one in together]
    assert lines(tmp_path / "both" / "teacher.gz") == made
    alone = Translator.load(tiny_run).translate(lines(tmp_path / "both" / "sources.gz"))
    assert made != [" ".join(one.text.split()) for one in alone], "or the test says nothing"
    assert ModelSpec(tiny_run).described() != ModelSpec(tiny_run, (other,)).described()


@pytest.mark.slow
def test_other_runs_teach_as_well_forwards_and_backwards(
    tiny_run: Path, config: TranslationConfig, taught: Taught, tiny_many: Path, tmp_path: Path
) -> None:
    lessons = ALL._replace(
        forward=(str(tiny_run), str(tiny_many)), backward=(str(tiny_many),),
        n_best=1, min_chrf=0.0, max_pairs=9, references=True,
    )  # fmt: skip
    record = taught(tmp_path, lessons=lessons)
    sources, references = (lines(Path(file))[:9] for file in config.data.train)
    assert (lines(tmp_path / "sources.gz"), lines(tmp_path / "targets.gz")) == (sources, references)
    many = Translator.load(tiny_many)
    texts = {
        "teacher": Translator.load(tiny_run).translate(sources),
        "forward-2": many.towards("en-de").translate(sources),
        "backward-1": many.towards("de-en").translate(references),
    }
    made = {name: [one_line(found.text) for found in translations] for name, translations in texts.items()}
    for name, translations in made.items():
        assert lines(tmp_path / f"{name}.gz") == translations, name
    assert lines(tmp_path / "forward-1.gz") == made["teacher"]
    learnt = set(zip(*(lines(tmp_path / f"train.{side}.gz") for side in ("src", "tgt")), strict=True))
    left_out = {tuple(line.split("\t")[1:]) for line in lines(tmp_path / DROPPED)}
    expected = {
        *zip(sources, made["teacher"], strict=True),
        *zip(sources, made["forward-2"], strict=True),
        *zip(made["backward-1"], references, strict=True),
    }
    assert learnt | left_out == expected | set(zip(sources, references, strict=True))
    assert record["n_pairs"] == 4 * 9
    assert record["left_out"]["duplicates"] >= 9 - record["left_out"].get("copies", 0), "the teacher, twice"
    assert (record["asked"]["forward"], record["asked"]["backward"]) == (
        [str(tiny_run), str(tiny_many)], [str(tiny_many)],
    )  # fmt: skip


def test_the_best_share_by_score_is_kept() -> None:
    judged = [Judged(Pair(str(i), "x"), "copies" if i == 2 else "") for i in range(7)]
    scores = np.array([-1.0, -5.0, -2.0, np.nan, -3.0, -4.0])  # of all but the third
    for share, kept in ((1.0, "01356"), (0.5, "035"), (0.3, "03"), (0.01, "0"), (0.0, "")):
        found = list(without_worst(judged, scores, share))
        assert [pair.src for pair, fault in found if not fault] == [*kept], share
        faults = {pair.src: fault for pair, fault in found}
        assert (faults["2"], faults["4"]) == ("copies", "too long to be scored")


@pytest.mark.parametrize("by_reverse", [False, True])
def test_scores_are_those_of_the_teacher_or_of_the_reverse_model(
    by_reverse: bool, tiny_run: Path, config: TranslationConfig, taught: Taught, tiny_many: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    pairs = [line.split("\t") for line in lines(Path(config.data.valid[0]))]
    lessons = ALL._replace(teacher_output=str(config.data.valid[0]), keep_best=0.5)
    scorer = Translator.load(tiny_run)
    if by_reverse:
        lessons = lessons._replace(reverse=str(tiny_many))
        scorer = Translator.load(tiny_many).towards("de-en")
        pairs = [pair[::-1] for pair in pairs]
    record = taught(tmp_path, lessons=lessons)
    scored = score_pairs(scorer, *map(list, zip(*pairs, strict=True)))
    values = [one.log_prob / len(one.log_probs) for one in scored]
    found = [float(line) for line in lines(tmp_path / "scores.gz")]
    np.testing.assert_allclose(found, values, atol=2e-3)
    best = sorted(range(len(pairs)), key=lambda i: -found[i])[: len(pairs) // 2]
    side = 1 if by_reverse else 0
    assert lines(tmp_path / "train.src.gz") == [pairs[i][side] for i in sorted(best)]
    assert record["left_out"] == {"low score": len(pairs) - len(pairs) // 2}
    reasons = {line.split("\t")[0] for line in lines(tmp_path / DROPPED)}
    assert reasons == {"low score"}


def test_a_pair_that_the_model_cannot_read_has_no_score(tiny_run: Path, tmp_path: Path) -> None:
    long = "cat " * 600
    (tmp_path / "pairs").write_text(f"red cat\trot Katze\n{long}\tKatze\nold\t\n", encoding="utf-8")
    pairs = PairsInput.of_files(str(tmp_path / "pairs"), languages=("en", "de"))
    translate(ScoringJob(ModelSpec(tiny_run), pairs, tmp_path / "scores"))
    first, *rest = lines(tmp_path / "scores")
    assert float(first) < 0
    assert rest == ["", ""]


@pytest.mark.parametrize("stage", ["teacher.gz", "scores.gz"])
def test_lessons_continue_after_a_kill_in_any_stage(
    stage: str, taught: Taught, text: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons = ALL._replace(text=text, keep_best=0.6)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    taught(whole, lessons=lessons)
    append = Journal.append

    def until_killed(journal: Journal, done: Done) -> None:
        if journal.out.name == stage and journal.n_lines:
            raise ZeroDivisionError  # for a kill
        append(journal, done)

    monkeypatch.setattr(Journal, "append", until_killed)
    with pytest.raises(ZeroDivisionError):
        taught(killed, lessons=lessons)
    assert (killed / f"{stage}.journal").exists()
    monkeypatch.undo()
    news: dict[str, tuple[int, int]] = {}

    def count(job: Job) -> Status:
        summary = translate(job)
        news[job.out.name] = summary.n_lines, summary.n_new
        return summary

    record = taught(killed, lessons=lessons, translate=count)
    n_lines, n_new = news[stage]
    assert n_new == n_lines - 2, "the first chunk was done"
    for name in ("train.src.gz", "train.tgt.gz", DROPPED):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert record == taught(killed, lessons=lessons, translate=count)
    with pytest.raises(RunError, match="holds the lessons of another teacher, text or filter"):
        taught(killed, lessons=lessons._replace(keep_best=0.7))


def test_lessons_of_an_earlier_version_are_known_again(
    tiny_run: Path, config: TranslationConfig, taught: Taught, tmp_path: Path
) -> None:
    asked = {"teacher": str(tiny_run), "text": open_direction(config)[0].fingerprint(), "n_best": 0,
             "references": False, "max_ratio": 3.0, "min_chrf": 20.0, "max_pairs": 0}  # fmt: skip
    record = {"asked": asked, "n_pairs": 9, "n_kept": 9, "n_references": 0, "left_out": {}}
    (tmp_path / "lessons.json").write_text(json.dumps(record))
    assert taught(tmp_path, lessons=Lessons()) == record


REFUSED = {
    "two texts": ({"text": ("a",), "teacher_output": "b"}, "but not both"),
    "best of n without a reference": ({"text": ("a",), "n_best": 2}, "--n-best and --min-chrf compare with"),
    "chrf without a reference": ({"teacher_output": "b", "min_chrf": 5.0}, "--n-best and --min-chrf compare"),
    "an ensemble with nothing to do": ({"teacher_output": "b", "ensemble": ("c",)}, "is translated already"),
    "runs beside other text": ({"text": ("a",), "backward": ("c",)}, "translate the training text of RUN"),
    "reverse alone": ({"reverse": "c"}, "--reverse scores translations for --keep-best; give both"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_contradict_one_another_are_refused(config: TranslationConfig, name: str) -> None:
    settings, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        check_lessons(config, Lessons()._replace(**settings))


@pytest.mark.slow
def test_a_reverse_model_translates_back(config: TranslationConfig, tiny_run: Path, tiny_many: Path) -> None:
    run = str(tiny_run)
    for lessons in (Lessons(keep_best=0.5, reverse=run), Lessons(backward=(str(tiny_many), run))):
        with pytest.raises(ConfigError, match="does not translate de → en"):
            check_lessons(config, lessons)
    data = config.data.model_copy(update={"src_lang": "de", "tgt_lang": "en"})
    turned = config.model_copy(update={"data": data})
    with pytest.raises(ConfigError, match=r"--forward .* does not translate de → en"):
        check_lessons(turned, Lessons(forward=(run,)))


def test_missing_text_is_named_and_nothing_written(tiny_run: Path, taught: Taught, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.en"):
        taught(tmp_path / "lessons", lessons=ALL._replace(text=("nowhere.en",)))
    out = tmp_path / "student"
    for option in ("--text", "--teacher-output", "--ensemble", "--reverse", "--forward", "--backward"):
        command = ["distill", tiny_run, "--out", out, "--keep-best", 0.5, option, "nowhere.en"]
        assert "nowhere.en" in error_of(*command)
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Recommended. pip install sacremoses")
def test_an_imported_run_teaches_other_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    from dragoman.interop.importing import import_model
    from foreign_models import write_marian

    monkeypatch.setattr(distilling, "ROUNDS", 1)
    monkeypatch.chdir(tmp_path)
    run = import_model(write_marian(tmp_path / "there"), tmp_path / "run").path
    out = tmp_path / "student"
    line = error_of("distill", run, "--out", out)
    assert "names no training text, as imported runs do; give source text with --text" in line
    assert not out.exists()
    write_corpus(tmp_path, "mono", 60, seed=3)
    options = [f"--set={one}" for one in TINY if one.startswith("training.")]
    command = ["distill", run, "--out", out, "--text", "mono.en", "--preset", "small", "--max-ratio", 0]
    done = succeed(*command, *options)
    assert "the teacher names no validation text: pairs are held out" in done.stderr
    assert "valid BLEU" in done.stdout
    shutil.rmtree(out)
    own = "--set=data.valid=" + json.dumps(["mono.en", "mono.de"])
    assert "held out of its translations" not in succeed(*command, *options, own).stderr
    measured = json.loads((out / "distillation.json").read_text())
    assert {row["n_sentences"] for row in measured["speed"]} == {60}, "the pairs of --set data.valid"
