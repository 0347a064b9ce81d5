"""Students: their shapes, and whole distillations of a tiny run."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from commands import error_of, succeed
from dragoman.bulk.job import Job
from dragoman.bulk.running import Status
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.readers.files import compressed, open_lines
from dragoman.distillation.distilling import STUDENTS, distill, student_config
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train as train_run
from tiny import TINY, write_corpus

SHORT = ("training.max_steps=3", "training.valid_every=3")


@pytest.fixture
def teacher_config(tiny_run: Path) -> TranslationConfig:
    return translation_config(Run.open(tiny_run))


@pytest.mark.parametrize("preset", STUDENTS)
def test_a_student_differs_from_its_teacher_in_shape_text_and_training_alone(
    preset: str, teacher_config: TranslationConfig, tmp_path: Path
) -> None:
    shape, own = STUDENTS[preset], teacher_config.model
    data = teacher_config.data.model_copy(update={"part": (0.0, 0.5)})
    teacher = teacher_config.model_copy(update={"data": data})
    made = partial(student_config, teacher, preset, start=tmp_path / "teacher", lessons=tmp_path)
    student = made()
    layers = (shape.n_encoder_layers or own.n_encoder_layers, shape.n_decoder_layers or own.n_decoder_layers)
    assert (student.model.n_encoder_layers, student.model.n_decoder_layers) == layers
    assert student.model.d_model == shape.width * own.d_model
    assert student.model.d_model // student.model.n_heads == 16 // 2, "heads of the same width, but fewer"
    beam_size = 3 if preset == "same" else 2
    assert student.tokenizer == teacher.tokenizer
    assert student.search == teacher.search.model_copy(update={"beam_size": beam_size})
    assert made(overrides=("search.beam_size=4",)).search.beam_size == 4
    assert (student.data.test, student.data.columns) == (data.test, data.columns)
    assert student.data.train == (str(tmp_path / "train.src.gz"), str(tmp_path / "train.tgt.gz"))
    assert student.data.part == (0.0, 1.0), "it learns from all of its lessons"
    with pytest.raises(ConfigError, match=r"training.max_step is not a setting; did you mean"):
        made(overrides=("training.max_step=3",))


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


def distil_tiny(teacher: Path, out: Path, *overrides: str, said: list[str]) -> list[str]:
    """Distil with a teacher that translates without a fault; return what was done."""
    config = translation_config(Run.open(teacher))
    calls: list[str] = []

    def write_references(job: Job) -> Status:
        calls.append("translate")
        text = "".join(f"{line}\n" for line in list(open_lines(Path(config.data.train[1])))[:40])
        job.out.write_bytes(compressed(text.encode(), job.out.name))
        return Status()

    def train(student: TranslationConfig, path: Path) -> None:
        calls.append("train")
        train_run(student, path)

    distill(
        teacher, out, preset="fast", lessons=Lessons(max_pairs=40), overrides=(*SHORT, *overrides),
        translate=write_references, train=train, say=said.append,
    )  # fmt: skip
    return calls


@pytest.mark.slow
def test_a_student_begins_as_its_teacher_and_its_lessons_stay(tiny_run: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "student", list[str]()
    keep_still = "training.learning_rate=1e-12", "training.max_steps=6", "training.ema_decay=0.0"
    assert distil_tiny(tiny_run, out, *keep_still, said=said) == ["translate", "train"]
    assert distil_tiny(tiny_run, out, *keep_still, said=said) == ["train"]
    assert sum("as it is read:" in line for line in said) == 1, "the text is shown when a training begins"
    assert translation_config(Run.open(out)).training.start_from == str(tiny_run)
    old, new = Run.open(tiny_run).load_weights(), Run.open(out).load_weights()
    for name, value in old.items():  # encoder.0 and decoder.0 are both the first of the student's
        torch.testing.assert_close(new[name], value, rtol=0, atol=1e-9)
    student, teacher = Translator.load(out), Translator.load(tiny_run)
    assert student.tokenizers.src.fingerprint == teacher.tokenizers.src.fingerprint
    assert (len(student.model.encoder), len(student.model.decoder)) == (6, 2)


@pytest.mark.slow
def test_the_command_trains_a_student_and_says_what_is_wrong(tmp_path: Path, tiny_run: Path) -> None:
    out = tmp_path / "student"
    overrides = [word for setting in (*TINY, *SHORT) for word in ("--set", setting)]
    assert "--preset slow: there are" in error_of("distill", tiny_run, "--preset", "slow", "--out", out)
    assert "--n-best 4: the beam of tiny is 3" in error_of("distill", tiny_run, "--out", out, "--n-best", 4)
    assert not out.exists()
    keep_all = ["--max-pairs", 20, "--min-chrf", 0, "--max-ratio", 0]
    done = succeed("distill", tiny_run, "--out", out, *keep_all, *overrides)
    assert "the student learns from 20 of 20 translated pairs" in done.stderr
    assert done.stderr.splitlines()[-1] == f"next: dragoman compare {tiny_run} {out}"
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
    run, out = import_model(write_marian(tmp_path / "there"), tmp_path / "run").path, tmp_path / "student"
    line = error_of("distill", run, "--out", out)
    assert "names no training text, as imported runs do; give source text with --text" in line
    assert not out.exists()
    write_corpus(tmp_path, "mono", 60, seed=3)
    options = [f"--set={one}" for one in TINY if one.startswith("training.")]
    command = ["distill", run, "--out", out, "--text", "mono.en", "--preset", "small", "--max-ratio", 0]
    assert "the teacher names no validation text: pairs are held out" in succeed(*command, *options).stderr
    shutil.rmtree(out)
    own = "--set=data.valid=" + json.dumps(["mono.en", "mono.de"])
    assert "held out of its translations" not in succeed(*command, *options, own).stderr
