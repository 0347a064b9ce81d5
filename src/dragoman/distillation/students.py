"""Student architectures: deep encoders and shallow decoders (Kasai et al. 2021).

The encoder runs once per sentence, over all tokens in parallel; the decoder runs once per token. So encoder
layers are cheap and decoder layers are expensive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import TranslationConfig, TranslationDataConfig, parse_section
from dragoman.errors import ConfigError
from dragoman.presets import student_dropout_for, student_training_for
from dragoman.training.tasks.starting import misfits


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
    with_references: bool = False,
) -> TranslationConfig:
    """Return the configuration of a student that learns from the files in the folder `lessons`.

    Vocabulary, search and test sets are the teacher's. A student of the teacher's width starts from the
    weights of the run `start`, the teacher's (`training.depth`), and trains with the settings of `presets`.
    A student of another width starts from random weights and trains with the teacher's settings. With
    `with_references` the teacher's training pairs are a corpus beside the lessons.

    Raises:
        ConfigError: unknown preset, or invalid override.
    """
    if preset not in STUDENTS:
        raise ConfigError(f"--preset {preset}: there are {', '.join(STUDENTS)}")
    student = STUDENTS[preset]
    settings = teacher.model_dump()
    settings["name"] = f"{teacher.name}-{preset}"
    settings["data"] |= data_of_student(teacher.data, lessons, with_references=with_references)
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
    config = _parsed(settings, preset, overrides)
    if misfits(teacher.model, config.model):
        return config
    training |= {**student_training_for(training), "start_from": str(start)}
    model["dropout"] = student_dropout_for(model["dropout"])
    return _parsed(settings, preset, overrides)


def data_of_student(data: TranslationDataConfig, lessons: Path, *, with_references: bool) -> dict[str, Any]:
    """Return settings of [data] for the files in the folder `lessons`, with the tests of the teacher.

    `with_references`: the teacher's training pairs are there as well, as a corpus of their own.
    """
    train, valid, references = (
        [str(lessons / f"{part}.{side}.gz") for side in ("src", "tgt")]
        for part in ("train", "valid", "references")
    )
    if not (data.train or data.valid):
        valid = []
    if not (data.corpora or with_references):
        return {"train": train, "valid": valid, "part": (0.0, 1.0)}  # the lessons are of the teacher's part
    languages = data.src_lang, data.tgt_lang
    listed: list[dict[str, Any]] = [{"name": "lessons", "files": train, "valid": valid, "langs": languages}]
    listed += [{"name": "references", "files": references, "langs": languages}] * with_references
    if not data.corpora and data.test:
        listed += [{"name": "tests", "langs": languages, "test": data.test, "columns": data.columns}]
    tested = [corpus for corpus in data.corpora if corpus.knows(languages) and corpus.test]
    listed += [{**corpus.model_dump(), "files": (), "valid": ()} for corpus in tested]
    nothing = {
        "train": (),
        "valid": (),
        "test": {},
        "stages": (),
        "temperature": 1.0,
        "choose_by": "",
        "part": (0.0, 1.0),
    }
    return {**nothing, "columns": (0, 1), "corpora": listed}


def with_beam(config: TranslationConfig, beam_size: int) -> TranslationConfig:
    """Return the same, searched with another beam."""
    search = config.search.changed({"beam_size": beam_size}, where="settings of the student")
    return config.model_copy(update={"search": search})


def _parsed(settings: dict[str, Any], preset: str, overrides: tuple[str, ...]) -> TranslationConfig:
    where = f"settings of the student {preset}"
    return parse_section(TranslationConfig, settings, overrides=overrides, where=where)
