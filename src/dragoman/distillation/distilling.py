"""Distil a teacher into a student: prepare the data, and train.

Students have deep encoders and shallow decoders (Kasai et al. 2021). The encoder runs once per sentence, over
all tokens in parallel; the decoder runs once per token. So encoder layers are cheap and decoder layers are
expensive.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import TranslationConfig, TranslationDataConfig, parse_section
from dragoman.data.doctor.inspection import inspect_text
from dragoman.distillation.lessons import Lessons
from dragoman.distillation.teaching import Material, Translate, teach
from dragoman.errors import ConfigError
from dragoman.files import replacing_folder
from dragoman.predict.model import translation_config
from dragoman.presets import student_dropout_for, student_training_for
from dragoman.runs import Run, only_writer
from dragoman.tasks.request import Say
from dragoman.tasks.translation.starting import misfits

LESSONS_FOLDER = "lessons"
SMALL_BEAM = 2
"""Beam size of a student that is smaller than its teacher. A larger one helps it little (Kim & Rush 2016)."""


def distill(
    teacher: Path,
    out: Path,
    *,
    preset: str,
    lessons: Lessons,
    to: str | None = None,
    overrides: tuple[str, ...] = (),
    translate: Translate,
    train: Callable[[TranslationConfig, Path], object],
    say: Say,
) -> None:
    """Distil the run `teacher` into a student run `out`.

    `translate` runs a job of `dragoman.bulk`; `train` runs a training. The same call continues an interrupted
    one. Of a teacher of several directions, the student learns the one that `to` means.

    Raises:
        ConfigError: unknown preset, invalid override, the teacher's beam is too small, or it has not the
            direction.
        DataError, RunError: as of `translate` and `train`.
    """
    config = translation_config(Run.open(teacher))
    config = config.towards(config.direction(to))
    material = Material(teacher, config, lessons)  # complains before anything is written, as the next line
    student = student_config(config, preset, start=teacher, lessons=out / LESSONS_FOLDER, overrides=overrides)
    if not (config.data.train or config.data.valid or student.data.valid):
        say(
            "the teacher names no validation text: pairs are held out of its translations, and scores say "
            'how near the student comes to it; to name some: --set \'data.valid=["valid.en", "valid.de"]\''
        )
    with only_writer(out):
        run = Run.create(out, student)
        teach(material, out / LESSONS_FOLDER, translate=translate, say=say)
        take_tokenizer(teacher, run)
    start = student.training.start_from
    say(f"the student begins {f'with the weights of {start}' if start else 'from nothing'}")
    if not run.history_path.exists():
        for inspection in inspect_text(student):
            inspection.report(say, check=False)
    train(student, out)


def take_tokenizer(teacher: Path, run: Run) -> None:
    """Copy the teacher's tokenizer to a run without one, atomically."""
    if not run.tokenizer_folder.exists():
        with replacing_folder(run.tokenizer_folder) as folder:
            shutil.copytree(teacher / "tokenizer", folder, dirs_exist_ok=True)


class Student(NamedTuple):
    """The shape of a student, beside its teacher's."""

    n_encoder_layers: int | None
    """None: as many as the teacher has."""
    n_decoder_layers: int | None
    width: float
    """What the teacher's d_model, n_heads and d_ff are multiplied by."""


STUDENTS = {
    #                   encoder decoder width
    "same": Student(None, None, 1.0),
    "fast": Student(6, 2, 1.0),
    "fastest": Student(6, 1, 1.0),
    "small": Student(6, 2, 0.5),
}


def student_config(
    teacher: TranslationConfig,
    preset: str,
    *,
    start: Path,
    lessons: Path,
    overrides: tuple[str, ...] = (),
) -> TranslationConfig:
    """Return the configuration of a student that learns from the files in the folder `lessons`.

    Vocabulary, search and test sets are the teacher's, but a smaller student has a beam of `SMALL_BEAM` at
    most. A student of the teacher's width starts from the weights of the run `start`, the teacher's
    (`training.depth`), and trains with the settings of `presets`. A student of another width starts from
    random weights and trains with the teacher's settings. ConfigError: unknown preset, or invalid override.
    """
    if preset not in STUDENTS:
        raise ConfigError(f"--preset {preset}: there are {', '.join(STUDENTS)}")
    student = STUDENTS[preset]
    settings = teacher.model_dump()
    settings["name"] = f"{teacher.name}-{preset}"
    settings["data"] |= data_of_student(teacher.data, lessons)
    model, training = settings["model"], settings["training"]
    n_heads = max(1, round(model["n_heads"] * student.width))
    model |= {
        "n_encoder_layers": student.n_encoder_layers or model["n_encoder_layers"],
        "n_decoder_layers": student.n_decoder_layers or model["n_decoder_layers"],
        "n_heads": n_heads,
        "d_model": n_heads * (model["d_model"] // model["n_heads"]),
        "d_ff": max(1, round(model["d_ff"] * student.width)),
    }
    training |= {"start_from": "", "extend_vocab": 0}
    if preset != "same" and settings["search"]["diversity_groups"] == 1:
        settings["search"]["beam_size"] = min(SMALL_BEAM, settings["search"]["beam_size"])
    where = f"settings of the student {preset}"
    config = parse_section(TranslationConfig, settings, overrides=overrides, where=where)
    if misfits(teacher.model, config.model):
        return config
    training |= {**student_training_for(training), "start_from": str(start)}
    model["dropout"] = student_dropout_for(model["dropout"])
    return parse_section(TranslationConfig, settings, overrides=overrides, where=where)


def data_of_student(data: TranslationDataConfig, lessons: Path) -> dict[str, Any]:
    """Return settings of [data] for the files in the folder `lessons`, with the tests of the teacher."""
    train, valid = (
        [str(lessons / f"{part}.{side}.gz") for side in ("src", "tgt")] for part in ("train", "valid")
    )
    if not (data.train or data.valid):
        valid = []
    whole = (0.0, 1.0)  # the lessons are of the teacher's part
    if not data.corpora:
        return {"train": train, "valid": valid, "part": whole}
    languages = data.src_lang, data.tgt_lang
    tested = [corpus for corpus in data.corpora if corpus.knows(languages) and corpus.test]
    corpora: list[dict[str, Any]] = [
        {"name": "lessons", "files": train, "valid": valid, "langs": languages},
        *({**corpus.model_dump(), "files": (), "valid": ()} for corpus in tested),
    ]
    nothing = {"train": (), "valid": (), "test": {}, "stages": (), "choose_by": "", "part": whole}
    return {**nothing, "temperature": 1.0, "columns": (0, 1), "corpora": corpora}
