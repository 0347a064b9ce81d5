"""Forecast what more text would score: train on parts of it, and extrapolate (metrics/extrapolation.py).

Every part is trained with the same number of updates, in the same time, and validated on the same pairs: only
the text differs. The forecast is of a training of that length on more text.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dragoman.config import Config, TranslationConfig
from dragoman.data.corpora import has_text
from dragoman.data.named import open_direction
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.metrics.extrapolation import Prediction, extrapolate
from dragoman.predict.translator import translation_config
from dragoman.runs import Run, only_writer
from dragoman.text.tokenizer import TokenizerPair
from dragoman.training.loop import start_or_continue
from dragoman.training.parallel.processes import joined
from dragoman.training.trainer import REPORT, TrainingListener
from dragoman.training.updates.updater import make_updater

RESULT, PLAN, TRIAL = "forecast.json", "plan.json", "speed"

PARTS = {
    "an eighth": (0.0, 0.125),
    "another eighth": (0.125, 0.25),
    "a quarter": (0.0, 0.25),
    "a half": (0.0, 0.5),
}
"""The parts that are trained, as `data.part`. Two of one size tell how much trainings differ by chance."""

AMOUNTS = {"the whole": 1.0, "twice": 2.0, "four times": 4.0}
"""What is forecast, in multiples of the text."""

FEWEST_PAIRS = 100
"""Pairs that an eighth needs."""

ENOUGH_STEPS = 1000
"""Updates that a short training should make: smaller batches allow more of them ..."""
SMALLEST_BATCH = 512
"""... down to this number of target tokens."""

N_VALIDATIONS = 3
"""Validations in each training: the best one counts."""

TRIAL_SECONDS, TRIAL_WARMUP = 8.0, 3
"""How long the speed is measured, after some updates, which are slower."""

FEWEST_STEPS = 10
"""Updates that a training makes, however short it is to be."""

SCORE_NOISE = 0.5
"""Usual standard deviation of BLEU between seeds, in points (docs/notebook.md)."""
LOSS_NOISE = 0.01
"""The same of the loss, as a share of it."""


@dataclass(frozen=True)
class Plan:
    """The length of every training of a forecast."""

    minutes: float
    """As requested for each training."""
    max_steps: int
    batch_tokens: int
    seconds_per_step: float
    """As measured before the trainings, with `batch_tokens`."""


@dataclass(frozen=True)
class Row:
    """An amount of text, and what a model trained on it scores: measured, or forecast."""

    text: str
    """As in PARTS or AMOUNTS."""
    n_pairs: int
    score: Prediction
    """BLEU on the validation pairs; measured: its interval is the value itself."""
    loss: Prediction
    """Of the references of the validation pairs, in nats per character."""
    minutes: float
    """Of this training, validations included."""
    measured: bool
    passes: int | None = None
    """Whole passes over the text, where it was measured."""

    def record(self) -> dict[str, Any]:
        """Return what forecast.json keeps."""
        return {
            "text": self.text,
            "n_pairs": self.n_pairs,
            "measured": self.measured,
            "bleu": self.score.value,
            "bleu_interval": list(self.score.interval),
            "loss": self.loss.value,
            "loss_interval": list(self.loss.interval),
            "minutes": self.minutes,
            "passes": self.passes,
        }


@dataclass(frozen=True)
class Forecast:
    """Measured and forecast rows, and what a full training costs."""

    plan: Plan
    rows: tuple[Row, ...]
    full_steps: int
    """Updates of the configuration's own training."""
    full_minutes: float
    """What they take at the measured speed."""

    def record(self) -> dict[str, Any]:
        """Return what forecast.json keeps."""
        return {
            "max_steps": self.plan.max_steps,
            "batch_tokens": self.plan.batch_tokens,
            "rows": [row.record() for row in self.rows],
            "full_steps": self.full_steps,
            "full_minutes": self.full_minutes,
        }


def forecast(
    config: Config,
    out: Path,
    *,
    minutes: float,
    train: Callable[[TranslationConfig, Path], object],
    say: Callable[[str], object] = lambda message: None,
) -> Forecast:
    """Train `config` on parts of its text for `minutes` each, and say what more of it would score and cost.

    `train` runs a training. The runs are kept in `out`, and the same call continues an interrupted one.

    Raises:
        ConfigError: `config` is for classification, several corpora or directions, or a part.
        DataError: the text is too little, or cannot be read.
        RunError: `out` holds other runs, or cannot be written.
    """
    config = check_forecastable(config)
    sizes = {name: count_pairs(config, part) for name, part in PARTS.items()}
    if min(sizes.values()) < FEWEST_PAIRS:
        raise DataError(
            f"an eighth of the training text is {min(sizes.values())} pairs; a forecast needs {FEWEST_PAIRS} "
            f"in each, about {8 * FEWEST_PAIRS} in all"
        )
    with only_writer(out):
        plan = make_plan(config, out, minutes=minutes, say=say)
        say(
            f"{len(PARTS)} trainings of {plan.max_steps:,} updates with {plan.batch_tokens:,} tokens each, "
            f"about {plan.max_steps * plan.seconds_per_step / 60:.1f} minutes and validations"
        )
        measured = []
        for number, (name, part) in enumerate(PARTS.items()):
            path = out / name.replace(" ", "-")
            say(f"training {number + 1} of {len(PARTS)}: {name} of the text, {sizes[name]:,} pairs")
            train(config_for_part(config, plan, part, number=number), path)
            measured.append(read_row(Run.open(path), name, sizes[name]))
        predicted = predict(measured, count_pairs(config, (0.0, 1.0)))
        full = full_minutes(config, plan)
        found = Forecast(plan, (*measured, *predicted), config.training.max_steps, full)
        Run(out, config).write_json(RESULT, found.record())
    if not measured[-1].passes:
        say(
            "warning: the half was not read once, and in so short a training more text makes little "
            "difference; give more --minutes"
        )
    return found


def check_forecastable(config: Config) -> TranslationConfig:
    """Return `config`. ConfigError: it is not for one corpus in one direction."""
    if not isinstance(config, TranslationConfig):
        raise ConfigError("forecasts are for translators; give parallel text")
    if config.mixes or len(config.directions) > 1:
        raise ConfigError("a forecast is for one direction and no mix of corpora; give the files of one")
    if config.data.part != (0.0, 1.0):
        raise ConfigError("a forecast chooses the parts of the text; leave data.part away")
    return config


def count_pairs(config: TranslationConfig, part: tuple[float, float]) -> int:
    """Return the usable pairs in a part of the training text."""
    return sum(map(has_text, open_direction(with_part(config, part))[0].pairs()))


def with_part(config: TranslationConfig, part: tuple[float, float]) -> TranslationConfig:
    """Return `config` with a part of its training text."""
    return config.model_copy(update={"data": config.data.model_copy(update={"part": part})})


def config_for_part(
    config: TranslationConfig, plan: Plan, part: tuple[float, float], *, number: int
) -> TranslationConfig:
    """Return the configuration of the training of this `number` from 0, on a part of the text.

    Its schedule ends with its updates, and it has a seed of its own, so that the forecast knows of chance.
    """
    training = config.training
    steps, tokens = plan.max_steps, training.batch_tokens * training.update_freq
    short = {
        "max_steps": steps,
        "batch_tokens": plan.batch_tokens,
        "update_freq": 1,
        "learning_rate": training.learning_rate * math.sqrt(plan.batch_tokens / tokens),
        "warmup_steps": max(1, min(training.warmup_steps, steps // 5)),
        "ema_decay": min(training.ema_decay, max(0.0, 1 - 20 / steps)),  # an average over a twentieth
        "valid_every": math.ceil(steps / N_VALIDATIONS),
        "average": "none",
        "patience": 0,
    }
    seed_of_split = config.data.seed_of_split(config.seed)
    data = {"part": part, "split_seed": seed_of_split}  # all hold out the same text, whatever their seeds
    return config.model_copy(
        update={
            "seed": config.seed + number,
            "data": config.data.model_copy(update=data),
            "training": training.model_copy(update=short),
        }
    )


def make_plan(config: TranslationConfig, out: Path, *, minutes: float, say: Callable[[str], object]) -> Plan:
    """Return the plan kept in `out`, or one that fits `minutes` by the speed of this machine.

    RunError: the plan there is of another length, or `out` cannot be written.
    """
    if (out / PLAN).exists():
        there = Plan(**Run(out, config).read_json(PLAN))
        if there.minutes != minutes:
            raise RunError(
                f"{out}: holds a forecast with --minutes {there.minutes:g}; give the same, or another folder"
            )
        return there
    say("measuring the speed")
    training = config.training
    tokens = training.batch_tokens * training.update_freq
    whole = Plan(minutes, training.max_steps, min(tokens, training.batch_tokens), 0.0)
    speed = measure_speed(config_for_part(config, whole, PARTS["a half"], number=0), out / TRIAL)
    allowed = minutes * 60 / speed * whole.batch_tokens  # tokens
    batch = whole.batch_tokens
    while allowed / batch < ENOUGH_STEPS and batch // 2 >= SMALLEST_BATCH:
        batch //= 2
    steps = max(FEWEST_STEPS, min(round(allowed / batch), training.max_steps * tokens // batch))
    plan = Plan(minutes, steps, batch, speed * batch / whole.batch_tokens)
    Run(out, config).write_json(PLAN, asdict(plan))
    return plan


def measure_speed(config: TranslationConfig, folder: Path) -> float:
    """Return the seconds of an update, measured in a trial run in `folder`, which is removed.

    DataError, RunError: as of a training.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with joined(config.training.device) as processes:
        run = Run.create(folder, config)
        trainer = start_or_continue(config, run, TrainingListener(), processes)
        updater = make_updater(
            trainer.task,
            trainer.state,
            config,
            module=trainer.module,
            processes=processes,
            message=trainer.listener.message,
        )
        began, n_steps = math.inf, 0
        for number, batches in enumerate(trainer.batches()):
            updater(batches)
            if number + 1 == TRIAL_WARMUP:
                updater.settle()
                began = time.perf_counter()
            elif number >= TRIAL_WARMUP:
                n_steps += 1
                if time.perf_counter() - began > TRIAL_SECONDS:
                    break
        updater.settle()
        seconds = (time.perf_counter() - began) / n_steps
    shutil.rmtree(folder, ignore_errors=True)
    return seconds


def read_row(run: Run, name: str, n_pairs: int) -> Row:
    """Return what the finished run of a part measured at its best validation."""
    report = run.read_json(REPORT)
    best = [record for record in run.history() if record.get("best")][-1]
    loss = best["valid_loss"] * tokens_per_character(run)
    return Row(name, n_pairs, exactly(best["bleu"]), exactly(loss), report["minutes"], True, report["epochs"])


def tokens_per_character(run: Run) -> float:
    """Return the target tokens of the validation text by its characters: every part has its own tokens."""
    config = translation_config(run)
    targets = [pair.tgt for pair in open_direction(config)[1].pairs() if has_text(pair)]
    ids = TokenizerPair.load(run.tokenizer_folder).tgt.encode_batch(targets)
    return (sum(map(len, ids)) + len(ids)) / sum(map(len, targets))  # an end token each


def exactly(value: float) -> Prediction:
    """Return a measured value."""
    return Prediction(value, (value, value))


def predict(measured: Sequence[Row], whole: int) -> list[Row]:
    """Return the forecast for each of AMOUNTS of a text of `whole` pairs, from the rows of its parts."""
    sizes = [row.n_pairs for row in measured]
    wanted = [whole * factor for factor in AMOUNTS.values()]
    losses = [row.loss.value for row in measured]
    scores = extrapolate(sizes, [row.score.value for row in measured], wanted, noise=SCORE_NOISE)
    gains = extrapolate(
        sizes, [-math.log(loss) for loss in losses], wanted, noise=LOSS_NOISE
    )  # the logarithm: a loss stays above 0
    minutes = fmean(row.minutes for row in measured)
    return [
        Row(
            name,
            round(n),
            Prediction(*_within(score, 0.0, 100.0)),
            Prediction(math.exp(-gain.value), (math.exp(-gain.interval[1]), math.exp(-gain.interval[0]))),
            minutes,
            False,
        )
        for name, n, score, gain in zip(AMOUNTS, wanted, scores, gains, strict=True)
    ]


def _within(found: Prediction, low: float, high: float) -> tuple[float, tuple[float, float]]:
    """Return a prediction, limited to the values that a score can have."""
    value, start, end = (min(max(one, low), high) for one in (found.value, *found.interval))
    return value, (start, end)


def full_minutes(config: TranslationConfig, plan: Plan) -> float:
    """Return the minutes of the configuration's own training at the measured speed, without validations."""
    training = config.training
    tokens = training.max_steps * training.batch_tokens * training.update_freq
    return tokens / plan.batch_tokens * plan.seconds_per_step / 60
