"""Distil a teacher into a student: prepare the data, train, and measure both.

Students have deep encoders and shallow decoders (Kasai et al. 2021). The encoder runs once per sentence, over
all tokens in parallel; the decoder runs once per token. So encoder layers are cheap and decoder layers are
expensive.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dragoman.config import TranslationConfig, TranslationDataConfig, parse_section, to_toml
from dragoman.data.doctor.inspection import inspect_text
from dragoman.data.records import Pair, has_text
from dragoman.distillation.lessons import Lessons
from dragoman.distillation.teaching import DROPPED, Material, Translate, teach
from dragoman.errors import ConfigError, counted
from dragoman.files import replacing_folder, write_atomically
from dragoman.hardware import environment
from dragoman.metrics.translation import bleu
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.presets import student_dropout_for, student_training_for
from dragoman.runs import Run, only_writer
from dragoman.tasks.request import Say
from dragoman.tasks.translation.evaluation import read_pairs, split_of
from dragoman.tasks.translation.starting import misfits

RESULT = "distillation.json"
LESSONS_FOLDER = "lessons"
N_WARM_UP = 16
"""Sentences that are translated before a search is timed: the first ones make its buffers."""
SMALL_BEAMS = (1, 2)
"""Beam sizes to try for a student; the first whose loss is at most NEXT_TO_NOTHING replaces its own."""
NEXT_TO_NOTHING = 0.2
"""Validation BLEU that a smaller beam may lose. A beam helps distilled students little (Kim & Rush 2016)."""


def distill(
    teacher: Path,
    out: Path,
    *,
    preset: str,
    lessons: Lessons,
    to: str | None = None,
    overrides: tuple[str, ...] = (),
    with_test: bool = False,
    translate: Translate,
    train: Callable[[TranslationConfig, Path], object],
    say: Say,
) -> dict[str, Any]:
    """Distil the run `teacher` into a student run `out`; return the content of its distillation.json.

    `translate` runs a job of `dragoman.bulk`; `train` runs a training. The same call continues an interrupted
    one. Models are scored on the validation set, and on the test sets with `with_test`. The student's beam
    size is chosen on the validation set. Of a teacher of several directions, the student learns the one that
    `to` means.

    Raises:
        ConfigError: unknown preset, invalid override, the teacher's beam is too small, or it has not the
            direction.
        DataError, RunError: as of `translate` and `train`.
    """
    config = translation_config(Run.open(teacher))
    config = config.towards(config.direction(to))
    Material(teacher, config, lessons)  # complains before anything is written, as does what follows
    folder = out / LESSONS_FOLDER
    student = student_config(config, preset, start=teacher, lessons=folder, overrides=overrides)
    validated = config if config.data.train or config.data.valid else student
    if not validated.data.valid and validated is student:
        say(
            "the teacher names no validation text: pairs are held out of its translations, and scores say "
            'how near the student comes to it; to name some: --set \'data.valid=["valid.en", "valid.de"]\''
        )
    with only_writer(out):
        run = open_student(out, student)
        taught = teach(teacher, config, folder, lessons=lessons, translate=translate)
        say(describe_lessons(taught))
        take_tokenizer(teacher, run)
    start = student.training.start_from
    say(f"the student begins {f'with the weights of {start}' if start else 'from nothing'}")
    if not run.history_path.exists():
        for inspection in inspect_text(student):
            inspection.report(say, check=False)
    train(translation_config(run), out)
    say("measuring teacher and student")
    beams = {"teacher": config.search.beam_size, "student": student.search.beam_size}
    measured = compare({"teacher": teacher, "student": out}, validated, beams, with_test=with_test, say=say)
    if not any(override.startswith("search.") for override in overrides):
        beams["student"] = chosen_beam(measured["scores"], beams["student"])
    if beams["student"] != student.search.beam_size:
        write_atomically(run.config_path, to_toml(with_beam(student, beams["student"])).encode())
        say(f"a beam of {beams['student']} does as well as one of {student.search.beam_size}: now its own")
    record = {
        "teacher": str(teacher),
        "student": str(out),
        "preset": preset,
        "lessons": taught,
        "start_from": start,
        "environment": environment(),
        "beam_sizes": beams,
        **measured,
    }
    run.write_json(RESULT, record)
    return record


def open_student(out: Path, student: TranslationConfig) -> Run:
    """Create or open the student's run; an earlier call may have reduced its beam size."""
    existing = Run.open(out).config if (out / "config.toml").exists() else None
    students = [with_beam(student, beam_size) for beam_size in SMALL_BEAMS]
    return Run.create(out, existing if existing in students else student)


def chosen_beam(scores: Sequence[Mapping[str, Any]], beam_size: int) -> int:
    """Choose the student's beam size: the smallest that loses at most NEXT_TO_NOTHING against `beam_size`."""
    values = {
        row["beam_size"]: row["value"] for row in scores if (row["model"], row["set"]) == ("student", "valid")
    }
    enough = values[beam_size] - NEXT_TO_NOTHING
    return next(beam for beam in (*SMALL_BEAMS, beam_size) if beam >= beam_size or values[beam] >= enough)


def take_tokenizer(teacher: Path, run: Run) -> None:
    """Copy the teacher's tokenizer to a run without one, atomically."""
    if not run.tokenizer_folder.exists():
        with replacing_folder(run.tokenizer_folder) as folder:
            shutil.copytree(teacher / "tokenizer", folder, dirs_exist_ok=True)


def compare(
    runs: Mapping[str, Path],
    config: TranslationConfig,
    beams: Mapping[str, int],
    *,
    with_test: bool,
    say: Say,
) -> dict[str, Any]:
    """Measure the runs: architecture, speed, and BLEU on the pairs of `config`.

    Each run is searched with the small beams and with all `beams`, in this process, in its usual precision.
    """
    to = "-".join(config.languages)
    translators = {name: Translator.load(path).towards(to) for name, path in runs.items()}
    sets = {"valid": [p for _, corpus in split_of(config, "valid") for p in corpus.pairs() if has_text(p)]}
    if with_test:
        sets |= {name: read_pairs(corpus) for name, corpus in split_of(config, "test")}
    sizes = sorted({*SMALL_BEAMS, *beams.values()})
    scores = []
    for (which, pairs), beam, (name, translator) in product(sets.items(), sizes, translators.items()):
        say(f"{name}, beam {beam}: scoring {counted(len(pairs), 'sentence')} of {which}")
        row = {"model": name, "set": which, "beam_size": beam}
        scores.append(row | measure(translator, pairs, beam_size=beam))
    return {
        "n_threads": torch.get_num_threads(),
        "models": {
            name: {
                **one.config.model.model_dump(include={"n_encoder_layers", "n_decoder_layers", "d_model"}),
                "n_parameters": one.model.n_parameters,
            }
            for name, one in translators.items()
        },
        "scores": scores,
    }


def measure(translator: Translator, pairs: Sequence[Pair], *, beam_size: int) -> dict[str, Any]:
    """Return BLEU on `pairs` as a JSON value, and sentences per second."""
    sources, references = zip(*pairs, strict=True)
    translator.translate(sources[:N_WARM_UP], beam_size=beam_size, n_best=1)
    start = time.perf_counter()
    translations = translator.translate(sources, beam_size=beam_size, n_best=1)
    seconds = time.perf_counter() - start
    texts = [translation.text for translation in translations]
    score = bleu(texts, references, tgt_lang=translator.config.data.tgt_lang)
    return {**asdict(score), "n_sentences": len(pairs), "sentences_per_second": len(pairs) / seconds}


def describe_lessons(taught: Mapping[str, Any]) -> str:
    """Describe the number of training pairs, and the skipped ones by reason."""
    left_out = ", ".join(f"{n:,} {reason}" for reason, n in sorted(taught["left_out"].items()))
    return (
        f"the student learns from {taught['n_kept']:,} of {taught['n_pairs']:,} translated pairs"
        + (f", and from {taught['n_references']:,} as they are" if taught["n_references"] else "")
        + (f"; left out ({DROPPED} lists them): {left_out}" if left_out else "")
    )


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

    Vocabulary, search and test sets are the teacher's. A student of the teacher's width starts from the
    weights of the run `start`, the teacher's (`training.depth`), and trains with the settings of `presets`.
    A student of another width starts from random weights and trains with the teacher's settings.

    Raises:
        ConfigError: unknown preset, or invalid override.
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


def with_beam(config: TranslationConfig, beam_size: int) -> TranslationConfig:
    """Return the same, searched with another beam."""
    search = config.search.changed({"beam_size": beam_size}, where="settings of the student")
    return config.model_copy(update={"search": search})
