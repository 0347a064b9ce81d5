"""Students: their shapes, their lessons, and a whole distillation of a tiny run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.bulk.job import Job
from dragoman.bulk.running import Summary, translate_file
from dragoman.cli.distill import describe_distillation
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.readers.files import open_lines
from dragoman.distillation import distilling
from dragoman.distillation.distilling import distill
from dragoman.distillation.students import STUDENTS, student_config
from dragoman.distillation.teaching import LESSONS, Sieve, teach
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.metrics.translation import sentence_chrf
from dragoman.predict.translator import Translator, translation_config
from dragoman.runs import Run
from tiny import TINY

EVERYTHING = Sieve(max_ratio=0.0, min_chrf=0.0)
SHORT = ("training.max_steps=3", "training.valid_every=3", "search.beam_size=2")


@pytest.fixture
def teacher_config(tiny_run: Path) -> TranslationConfig:
    return translation_config(Run.open(tiny_run))


@pytest.mark.parametrize("preset", STUDENTS)
def test_a_student_differs_from_its_teacher_in_shape_and_text_alone(
    preset: str, teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    shape = STUDENTS[preset]
    student = student_config(teacher_config, preset, lessons=tmp_path)
    assert (student.model.n_encoder_layers, student.model.n_decoder_layers) == shape[:2]
    assert student.model.d_model == shape.width * teacher_config.model.d_model
    assert student.model.d_model // student.model.n_heads == 16 // 2, "heads of the same width, but fewer"
    assert (student.tokenizer, student.search) == (teacher_config.tokenizer, teacher_config.search)
    assert student.training == teacher_config.training
    assert (student.data.test, student.data.columns) == (
        teacher_config.data.test,
        teacher_config.data.columns,
    )
    assert student.data.train == (str(tmp_path / "train.src.gz"), str(tmp_path / "train.tgt.gz"))


def test_a_student_is_no_continued_teacher(teacher_config: TranslationConfig, tmp_path: Path) -> None:
    adapted = parse_config(teacher_config.model_dump(), overrides=['training.start_from="runs/old"'])
    assert adapted.task == "translation"
    assert student_config(adapted, "fast", lessons=tmp_path).training.start_from == ""


def test_presets_and_settings_that_do_not_exist_are_named(
    teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"--preset slow: there are fast, balanced, small"):
        student_config(teacher_config, "slow", lessons=tmp_path)
    with pytest.raises(ConfigError, match=r"training.max_step is not a setting; did you mean"):
        student_config(teacher_config, "fast", lessons=tmp_path, overrides=("training.max_step=3",))


def test_chrf_of_a_sentence_is_100_for_itself_and_0_for_nothing_in_common() -> None:
    assert sentence_chrf("rot Katze", "rot Katze") == pytest.approx(100)
    assert sentence_chrf("xyz", "abc") == 0


def translate(job: Job) -> Summary:
    return translate_file(job, chunk_lines=50)


def dictate(lines: list[str]) -> object:
    """A translation that writes these lines."""

    def write(job: Job) -> None:
        from dragoman.data.readers.files import compressed

        text = "".join(f"{line}\n" for line in lines)
        job.out.write_bytes(compressed(text.encode(), job.out.name))

    return write


def test_each_pair_that_is_left_out_has_its_reason(
    tiny_run: Path, teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    data = teacher_config.data
    references = list(open_lines(Path(data.train[1])))[:5]
    sources = list(open_lines(Path(data.train[0])))[:5]
    made = [references[0], "", sources[2], "zzz qqq", references[4]]
    record = teach(
        tiny_run,
        teacher_config,
        tmp_path,
        sieve=Sieve(0.0, 30.0),
        max_pairs=5,
        translate=dictate(made),  # type: ignore[arg-type]
    )
    assert record["left_out"] == {"empty translations": 1, "copies": 1, "far from the reference": 1}
    assert (record["n_pairs"], record["n_kept"]) == (5, 2)
    assert list(open_lines(tmp_path / "train.src.gz")) == [sources[0], sources[4]]
    assert list(open_lines(tmp_path / "train.tgt.gz")) == [references[0], references[4]]


def test_lessons_of_nothing_and_of_another_sieve_are_refused(
    tiny_run: Path, teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    nothing = dictate([""] * 5)
    with pytest.raises(DataError, match=r"nothing is left of 5 pairs; try a smaller --min-chrf"):
        teach(tiny_run, teacher_config, tmp_path, sieve=EVERYTHING, max_pairs=5, translate=nothing)  # type: ignore[arg-type]
    (tmp_path / LESSONS).write_text(json.dumps({"asked": {"teacher": "another"}}))
    with pytest.raises(RunError, match=r"holds the lessons of another teacher, text or filter"):
        teach(tiny_run, teacher_config, tmp_path, sieve=EVERYTHING, max_pairs=5, translate=translate)
    (tmp_path / LESSONS).write_text("[")
    with pytest.raises(RunError, match=r"lessons.json: is damaged; remove it"):
        teach(tiny_run, teacher_config, tmp_path, sieve=EVERYTHING, max_pairs=5, translate=translate)


def test_a_whole_distillation_of_a_tiny_run(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = translation_config(Run.open(tiny_run))
    out = tmp_path / "student"
    calls: list[str] = []
    monkeypatch.setattr(distilling, "ROUNDS", 1)

    def write_references(job: Job) -> Summary:
        calls.append("translate")
        references = list(open_lines(Path(config.data.train[1])))[:40]
        dictate(references)(job)  # type: ignore[operator]
        return Summary(40, 40, {}, 1.0)

    def train(student: TranslationConfig, path: Path) -> None:
        from dragoman.training.loop import train as really

        calls.append("train")
        really(student, path)

    def make() -> dict[str, object]:
        return distill(
            tiny_run, out, preset="fast", sieve=Sieve(), max_pairs=40, overrides=SHORT, with_test=True,
            translate=write_references, train=train, say=lambda message: None,
        )  # fmt: skip

    record = make()
    again = make()
    assert calls == ["translate", "train", "train"], (
        "what is translated stays, and training sees it is finished"
    )
    assert again["lessons"] == record["lessons"]
    student = Translator.load(out)
    teacher = Translator.load(tiny_run)
    assert student.tokenizers.src.fingerprint == teacher.tokenizers.src.fingerprint
    assert len(student.model.encoder) == 6
    assert len(student.model.decoder) == 1
    written = json.loads((out / "distillation.json").read_text())
    assert {(row["model"], row["set"], row["beam_size"]) for row in written["scores"]} == {
        (model, which, beam)
        for model in ("teacher", "student")
        for which in ("valid", "tiny-test")
        for beam in (1, 3)
    }
    table = list(describe_distillation(written))
    assert table[1].split() == ["layers", "1", "+", "1", "6", "+", "1"]
    assert sum("sentences/s" in line for line in table) == 2
    assert sum("BLEU" in line for line in table) == 4


def test_the_command_prints_a_table_and_says_what_is_wrong(
    tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distilling, "ROUNDS", 1)
    out = tmp_path / "student"
    overrides = [word for setting in (*TINY, *SHORT) for word in ("--set", setting)]
    assert "--preset slow: there are" in error_of("distill", tiny_run, "--preset", "slow", "--out", out)
    assert not out.exists()
    keep_all = ["--max-pairs", 20, "--min-chrf", 0, "--max-ratio", 0]
    table = succeed("distill", tiny_run, "--out", out, *keep_all, *overrides).stdout.splitlines()
    assert table[0].split() == ["teacher", "student"]
    other = ["--out", out, "--max-pairs", 10]
    assert "holds the lessons of another teacher, text or filter" in error_of(
        "distill", tiny_run, *other, *overrides
    )
