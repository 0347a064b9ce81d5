"""What a student learns from: the text, the runs that translate it, and what is left out."""

import gzip
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import error_of
from dragoman.bulk.job import Job
from dragoman.bulk.journal import Journal
from dragoman.bulk.running import Status, translate_file
from dragoman.config import TranslationConfig
from dragoman.data.named import open_direction
from dragoman.data.readers.files import compressed, open_lines
from dragoman.distillation.lessons import Lessons
from dragoman.distillation.teaching import DROPPED, LESSONS, Material, one_line, teach
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run

SENTENCES = ["the red cat", "", "a big  dog", "old tree", "river house", "small bird", "blue cat dog"]
ALL = Lessons(max_ratio=0.0)
FIVE = Lessons(max_ratio=0.0, min_chrf=0.0, max_pairs=5)


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


def taught_by(run: Path, config: TranslationConfig, folder: Path, lessons: Lessons, **options: Any) -> Any:
    options = {"translate": translate, "say": print, **options}
    return teach(Material(run, config, lessons), folder, **options)


Taught = Callable[..., dict[str, Any]]


@pytest.fixture
def taught(tiny_run: Path, config: TranslationConfig) -> Taught:
    """Lessons in a folder, of the tiny run."""
    return partial(taught_by, tiny_run, config)


def lines(path: Path) -> list[str]:
    return list(open_lines(path))


def dictate(lines: list[str]) -> Callable[[Job], Status]:
    """A translation that writes these lines."""

    def write(job: Job) -> Status:
        text = "".join(f"{line}\n" for line in lines)
        job.out.write_bytes(compressed(text.encode(), job.out.name))
        return Status(n_new=len(lines), seconds=1.0)

    return write


def first_five(config: TranslationConfig) -> tuple[list[str], list[str]]:
    """Sources and references of the training text."""
    sources, references = (lines(Path(file))[:5] for file in config.data.train)
    return sources, references


def test_each_pair_that_is_left_out_has_its_reason_and_references_stand_behind_the_rest(
    taught: Taught, config: TranslationConfig, text: tuple[str, str], tmp_path: Path
) -> None:
    sources, references = first_five(config)
    made = [references[0], "", sources[2], "zzz qqq", references[4]]
    lessons = FIVE._replace(min_chrf=30.0, references=True)
    record = taught(tmp_path / "own", lessons=lessons, translate=dictate(made))
    assert record["left_out"] == {"empty translations": 1, "copies": 1, "far from the reference": 1}
    assert (record["n_pairs"], record["n_kept"], record["n_references"]) == (5, 2, 5)
    assert lines(tmp_path / "own" / "train.src.gz") == [sources[0], sources[4], *sources]
    assert lines(tmp_path / "own" / "train.tgt.gz") == [references[0], references[4], *references]
    other = ALL._replace(text=text, references=True, max_pairs=3)
    taught(tmp_path / "other", lessons=other, translate=dictate(["rot", "", "groß"]))
    kept = ["the red cat", "a big dog"], ["rot", "groß"]
    for side, made, file in zip(("src", "tgt"), kept, config.data.train, strict=True):
        assert lines(tmp_path / "other" / f"train.{side}.gz") == made + lines(Path(file))


def test_of_many_translations_the_nearest_to_the_reference_is_learnt(
    taught: Taught, config: TranslationConfig, tmp_path: Path
) -> None:
    references = first_five(config)[1]
    offered = ["xx\tyy", *(f"xx {one}\t{one}\t{one} {one}" for one in references[1:])]
    taught(tmp_path / "nearest", lessons=FIVE, translate=dictate(offered))
    best = ["xx", *references[1:]]  # none is near: the teacher's best
    assert lines(tmp_path / "nearest" / "train.tgt.gz") == best
    taught(tmp_path / "all", lessons=FIVE)
    offered = [line.split("\t") for line in lines(tmp_path / "all" / "teacher.gz")]
    assert {len(candidates) for candidates in offered} == {3}
    taught(tmp_path / "best", lessons=FIVE._replace(n_best=1))
    assert [candidates[0] for candidates in offered] == lines(tmp_path / "best" / "teacher.gz")


def test_lessons_of_nothing_and_of_another_sieve_are_refused(
    taught: Taught, text: tuple[str, str], tmp_path: Path
) -> None:
    for folder, lessons, remedy in (
        ("own", FIVE, "try a smaller --min-chrf"),
        ("other", ALL._replace(text=text, max_pairs=5), f"{DROPPED} says why"),
    ):
        with pytest.raises(DataError, match=rf"{folder}: nothing is left of 5 pairs; {remedy}"):
            taught(tmp_path / folder, lessons=lessons, translate=dictate([""] * 5))
    with pytest.raises(RunError, match="holds the lessons of another teacher, text or filter"):
        taught(tmp_path / "own", lessons=FIVE._replace(max_pairs=4))
    (tmp_path / "own" / LESSONS).write_text("[" * 100_000)
    with pytest.raises(RunError, match=r"lessons.json: is damaged; remove it"):
        taught(tmp_path / "own", lessons=FIVE)


def test_lessons_of_a_teacher_with_other_weights_are_refused_unless_an_earlier_version_wrote_them(
    tiny_run: Path, config: TranslationConfig, tmp_path: Path
) -> None:
    run, folder = Run.open(shutil.copytree(tiny_run, tmp_path / "teacher")), tmp_path / "lessons"
    taught = partial(taught_by, run.path, config, folder, FIVE)
    first = taught(translate=dictate(first_five(config)[1]))
    assert taught() == first
    run.save_weights({name: tensor * 0.5 for name, tensor in run.load_weights().items()})
    with pytest.raises(RunError, match=r"holds the lessons of another teacher"):
        taught()
    asked = {"teacher": str(run.path), "text": open_direction(config)[0].fingerprint(), "n_best": 0,
             "references": False, "max_ratio": 0.0, "min_chrf": 0.0, "max_pairs": 5}  # fmt: skip
    (folder / LESSONS).write_text(json.dumps({**first, "asked": asked}))  # which kept no models
    assert taught() == {**first, "asked": asked}


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


@pytest.mark.slow
def test_other_runs_teach_as_well_together_forwards_and_backwards(
    tiny_run: Path, config: TranslationConfig, taught: Taught, tiny_many: Path, tmp_path: Path
) -> None:
    other = Run.open(shutil.copytree(tiny_run, tmp_path / "other"))
    other.save_weights({name: value.roll(7, 0) for name, value in other.load_weights().items()})
    many, folder = str(tiny_many), tmp_path / "lessons"
    lessons = ALL._replace(
        ensemble=(str(other.path),), forward=(many, many), backward=(many,),
        n_best=1, min_chrf=0.0, max_pairs=9, references=True,
    )  # fmt: skip
    record = taught(folder, lessons=lessons)
    sources, references = (lines(Path(file))[:9] for file in config.data.train)
    assert (lines(folder / "sources.gz"), lines(folder / "targets.gz")) == (sources, references)
    both, translator = Translator.load([tiny_run, other.path]), Translator.load(tiny_many)
    texts = {
        "teacher": both.translate(sources),
        "forward-2": translator.towards("en-de").translate(sources),
        "backward-1": translator.towards("de-en").translate(references),
    }
    made = {name: [one_line(found.text) for found in translations] for name, translations in texts.items()}
    for name, translations in made.items():
        assert lines(folder / f"{name}.gz") == translations, name
    alone = [one_line(found.text) for found in Translator.load(tiny_run).translate(sources)]
    assert made["teacher"] != alone, "or the test says nothing of ensembles"
    learnt = set(zip(*(lines(folder / f"train.{side}.gz") for side in ("src", "tgt")), strict=True))
    left_out = {tuple(line.split("\t")[1:]) for line in lines(folder / DROPPED)}
    expected = {
        *zip(sources, made["teacher"], strict=True),
        *zip(sources, made["forward-2"], strict=True),
        *zip(made["backward-1"], references, strict=True),
    }
    assert learnt | left_out == expected | set(zip(sources, references, strict=True))
    assert record["n_pairs"] == 4 * 9
    assert record["left_out"]["duplicates"] >= 9 - record["left_out"].get("copies", 0), "the same run twice"
    asked = {name: record["asked"][name] for name in ("ensemble", "forward", "backward")}
    assert asked == {"ensemble": [str(other.path)], "forward": [many, many], "backward": [many]}


def test_lessons_continue_after_a_kill(
    taught: Taught, text: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons = ALL._replace(text=text)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    taught(whole, lessons=lessons)
    append = Journal.append

    def until_killed(journal: Journal, *arguments: Any) -> None:
        if journal.n_lines:
            raise ZeroDivisionError  # for a kill
        append(journal, *arguments)

    monkeypatch.setattr(Journal, "append", until_killed)
    with pytest.raises(ZeroDivisionError):
        taught(killed, lessons=lessons)
    assert (killed / "teacher.gz.journal").exists()
    monkeypatch.undo()
    done: list[Status] = []
    record = taught(killed, lessons=lessons, translate=lambda job: done.append(translate(job)))
    assert [(status.n_lines, status.n_new) for status in done] == [(7, 5)], "the first chunk was done"
    for name in ("train.src.gz", "train.tgt.gz", DROPPED):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert record == taught(killed, lessons=lessons, translate=lambda _: pytest.fail("all is done"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": ("a",), "n_best": 2}, "--n-best and --min-chrf compare with"),
        ({"text": ("b",), "min_chrf": 5.0}, "--n-best and --min-chrf compare"),
        ({"text": ("a",), "backward": ("c",)}, "translate the training text of RUN"),
    ],
)
def test_settings_that_contradict_one_another_are_refused(
    tiny_run: Path, config: TranslationConfig, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Material(tiny_run, config, Lessons()._replace(**settings))


@pytest.mark.parametrize("option", ["--text", "--ensemble", "--forward", "--backward"])
def test_missing_text_and_runs_are_named_and_nothing_written(
    tiny_run: Path, tmp_path: Path, option: str
) -> None:
    assert "nowhere.en" in error_of("distill", tiny_run, "--out", tmp_path / "out", option, "nowhere.en")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_other_runs_have_their_direction(config: TranslationConfig, tiny_run: Path, tiny_many: Path) -> None:
    run = str(tiny_run)
    with pytest.raises(ConfigError, match=r"--backward .* does not translate de → en"):
        Material(tiny_run, config, Lessons(backward=(str(tiny_many), run)))
    data = config.data.model_copy(update={"src_lang": "de", "tgt_lang": "en"})
    turned = config.model_copy(update={"data": data})
    with pytest.raises(ConfigError, match=r"--forward .* does not translate de → en"):
        Material(tiny_run, turned, Lessons(forward=(run,)))
