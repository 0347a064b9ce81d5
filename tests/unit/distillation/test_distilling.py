"""Students: their shapes, and whole distillations of a tiny run."""

import json
import shutil
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from commands import error_of, succeed
from dragoman.bulk.job import Job
from dragoman.bulk.running import Status
from dragoman.cli.distill import describe_distillation
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.readers.files import compressed, open_lines
from dragoman.distillation import distilling
from dragoman.distillation.distilling import STUDENTS, chosen_beam, distill, student_config
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train as train_run
from dragoman.training.trainer import Trainer
from tiny import TINY, write_corpus

SHORT = ("training.max_steps=3", "training.valid_every=3")


@pytest.fixture
def teacher_config(tiny_run: Path) -> TranslationConfig:
    return translation_config(Run.open(tiny_run))


@pytest.mark.parametrize("preset", STUDENTS)
def test_a_student_differs_from_its_teacher_in_shape_text_and_training_alone(
    preset: str, teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    shape, start = STUDENTS[preset], tmp_path / "teacher"
    student = student_config(teacher_config, preset, start=start, lessons=tmp_path)
    own = teacher_config.model
    layers = (shape.n_encoder_layers or own.n_encoder_layers, shape.n_decoder_layers or own.n_decoder_layers)
    assert (student.model.n_encoder_layers, student.model.n_decoder_layers) == layers
    assert student.model.d_model == shape.width * teacher_config.model.d_model
    assert student.model.d_model // student.model.n_heads == 16 // 2, "heads of the same width, but fewer"
    assert (student.tokenizer, student.search) == (teacher_config.tokenizer, teacher_config.search)
    own_data = teacher_config.data
    assert (student.data.test, student.data.columns) == (own_data.test, own_data.columns)
    assert student.data.train == (str(tmp_path / "train.src.gz"), str(tmp_path / "train.tgt.gz"))
    of_a_part = own_data.model_copy(update={"part": (0.0, 0.5)})
    teacher = teacher_config.model_copy(update={"data": of_a_part})
    student = student_config(teacher, preset, start=start, lessons=tmp_path)
    assert student.data.part == (0.0, 1.0), "it learns from all of its lessons"


def test_a_student_of_the_teachers_width_begins_with_its_weights_and_another_one_from_nothing(
    teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    adapted = parse_config(teacher_config.model_dump(), overrides=['training.start_from="runs/old"'])
    assert adapted.task == "translation"
    start = tmp_path / "teacher"
    as_wide = student_config(adapted, "fast", start=start, lessons=tmp_path).training
    assert as_wide.start_from == str(start)
    assert as_wide.learning_rate < adapted.training.learning_rate
    for preset, overrides in (("small", ()), ("fast", ("model.d_ff=8",))):
        other = student_config(adapted, preset, start=start, lessons=tmp_path, overrides=overrides)
        assert other.training == teacher_config.training, "that of the teacher, which began from nothing"


def test_unknown_presets_and_settings_are_named(teacher_config: TranslationConfig, tmp_path: Path) -> None:
    made = partial(student_config, teacher_config, start=tmp_path, lessons=tmp_path)
    with pytest.raises(ConfigError, match=r"--preset slow: there are same, fast, fastest, small"):
        made("slow")
    with pytest.raises(ConfigError, match=r"training.max_step is not a setting; did you mean"):
        made("fast", overrides=("training.max_step=3",))


def distil_tiny(
    teacher: Path, out: Path, *overrides: str, calls: list[str], said: list[str] | None = None
) -> dict[str, Any]:
    """A distillation whose teacher translates without a fault; `calls` gets what was done."""
    config = translation_config(Run.open(teacher))

    def write_references(job: Job) -> Status:
        calls.append("translate")
        text = "".join(f"{line}\n" for line in list(open_lines(Path(config.data.train[1])))[:40])
        job.out.write_bytes(compressed(text.encode(), job.out.name))
        return Status()

    def train(student: TranslationConfig, path: Path) -> None:
        calls.append("train")
        train_run(student, path)

    return distill(
        teacher, out, preset="fast", lessons=Lessons(max_pairs=40), overrides=(*SHORT, *overrides),
        with_test=True, translate=write_references, train=train,
        say=(said if said is not None else []).append,
    )  # fmt: skip


@pytest.mark.slow
def test_a_student_begins_as_its_teacher_and_continues_after_a_kill(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    keep_still = "training.learning_rate=1e-12", "training.max_steps=6", "training.ema_decay=0.0"
    distil_tiny(tiny_run, whole, *keep_still, calls=[])
    assert translation_config(Run.open(whole)).training.start_from == str(tiny_run)
    old, new = Run.open(tiny_run).load_weights(), Run.open(whole).load_weights()
    for name, value in old.items():  # encoder.0 and decoder.0 are both the first of the student's
        torch.testing.assert_close(new[name], value, rtol=0, atol=1e-9)

    learning = "training.max_steps=6", "training.learning_rate=0.01"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finish", Mock(side_effect=ZeroDivisionError))  # for a kill
        with pytest.raises(ZeroDivisionError):
            distil_tiny(tiny_run, killed, *learning, calls=[])
    shutil.rmtree(killed / "checkpoints" / "step-000006")
    calls: list[str] = []
    distil_tiny(tiny_run, killed, *learning, calls=calls)
    assert calls == ["train"]
    shutil.rmtree(whole)
    distil_tiny(tiny_run, whole, *learning, calls=[])
    for name, value in Run.open(whole).load_weights().items():
        assert torch.equal(Run.open(killed).load_weights()[name], value)


@pytest.mark.parametrize(
    ("greedy", "two", "five", "chosen"),
    [(31.0, 30.0, 30.0, 1), (29.8, 29.9, 30.0, 1), (29.7, 29.8, 30.0, 2), (29.7, 29.7, 30.0, 5),
     (29.7, 30.5, 30.0, 2)],
)  # fmt: skip
def test_a_student_has_the_smallest_beam_that_costs_next_to_nothing_on_validation(
    greedy: float, two: float, five: float, chosen: int
) -> None:
    said_nothing = [("student", "test", 1, 0.0), ("teacher", "valid", 1, 0.0)]
    values = [("student", "valid", size, value) for size, value in ((5, five), (2, two), (1, greedy))]
    names = ("model", "set", "beam_size", "value")
    rows = [dict(zip(names, row, strict=True)) for row in [*values, *said_nothing]]
    assert chosen_beam(rows, 5) == chosen
    assert chosen_beam(rows, 1) == 1, "none is smaller"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("next_to_nothing", "overrides", "beam_size"),
    [(100.0, (), 1), (-100.0, (), 3), (100.0, ("search.beam_size=4",), 4)],
)
def test_a_whole_distillation_chooses_a_search_unless_one_was_asked_for(
    next_to_nothing: float, overrides: tuple[str, ...], beam_size: int, tiny_run: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(distilling, "NEXT_TO_NOTHING", next_to_nothing)
    out, calls, said = tmp_path / "student", list[str](), list[str]()
    record = distil_tiny(tiny_run, out, *overrides, calls=calls, said=said)
    assert record["beam_sizes"] == {"teacher": 3, "student": beam_size}
    assert translation_config(Run.open(out)).search.beam_size == beam_size
    again = distil_tiny(tiny_run, out, *overrides, calls=calls, said=said)
    assert calls == ["translate", "train", "train"], "translations stay, and training sees it is finished"
    assert sum("as it is read:" in line for line in said) == 1, "the text is shown when a training begins"
    assert all(again[part] == record[part] for part in ("lessons", "beam_sizes"))
    student, teacher = Translator.load(out), Translator.load(tiny_run)
    assert student.tokenizers.src.fingerprint == teacher.tokenizers.src.fingerprint
    assert (len(student.model.encoder), len(student.model.decoder)) == (6, 2)
    written = json.loads((out / "distillation.json").read_text())
    assert {(row["model"], row["set"], row["beam_size"]) for row in written["scores"]} == {
        *product(("teacher", "student"), ("valid", "tiny-test"), {1, 2, 3, beam_size})
    }


def test_the_table_compares_both_as_configured_and_searched_alike() -> None:
    speeds = {("teacher", 1): 200.0, ("student", 1): 300.0, ("teacher", 5): 100.0, ("student", 5): 150.0}
    scores = {("teacher", 1): 34.0, ("student", 1): 35.8, ("teacher", 5): 36.0, ("student", 5): 35.9}
    shapes = [(3, 3, 7_600_000), (6, 1, 7_800_000)]
    record = {
        "beam_sizes": {"teacher": 5, "student": 1},
        "models": {
            name: dict(zip(("n_encoder_layers", "n_decoder_layers", "n_parameters"), shape, strict=True))
            for name, shape in zip(("teacher", "student"), shapes, strict=True)
        },
        "scores": [
            {"model": model, "set": "valid", "beam_size": beam, "value": value,
             "sentences_per_second": speeds[model, beam]}
            for (model, beam), value in scores.items()
        ],
    }  # fmt: skip
    assert [" ".join(line.split()) for line in describe_distillation(record)] == [
        "teacher student",
        "layers 3 + 3 6 + 1",
        "million parameters 7.6 7.8",
        "search beam 5 greedy",
        "sentences/s 100.0 300.0 3.00 ×",
        "valid BLEU 36.0 35.8 −0.2",
        "both greedy",
        "sentences/s 200.0 300.0 1.50 ×",
        "valid BLEU 34.0 35.8 +1.8",
        "both beam 5",
        "sentences/s 100.0 150.0 1.50 ×",
        "valid BLEU 36.0 35.9 −0.1",
    ]


@pytest.mark.slow
def test_the_command_prints_a_table_and_says_what_is_wrong(tmp_path: Path, tiny_run: Path) -> None:
    out = tmp_path / "student"
    overrides = [word for setting in (*TINY, *SHORT) for word in ("--set", setting)]
    assert "--preset slow: there are" in error_of("distill", tiny_run, "--preset", "slow", "--out", out)
    assert not out.exists()
    keep_all = ["--max-pairs", 20, "--min-chrf", 0, "--max-ratio", 0]
    table = succeed("distill", tiny_run, "--out", out, *keep_all, *overrides).stdout.splitlines()
    assert table[0].split() == ["teacher", "student"]
    wide = tmp_path / "wide"
    assert "--n-best 4: the beam of tiny is 3" in error_of("distill", tiny_run, "--out", wide, "--n-best", 4)
    assert not wide.exists()
    line = error_of("distill", tiny_run, "--out", out, "--max-pairs", 10, *overrides)
    assert "holds the lessons of another teacher, text or filter" in line


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Recommended. pip install sacremoses")
def test_an_imported_run_teaches_other_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    from dragoman.interop.importing import import_model
    from foreign_models import write_marian

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
    assert {row["n_sentences"] for row in measured["scores"]} == {60}, "the pairs of --set data.valid"
