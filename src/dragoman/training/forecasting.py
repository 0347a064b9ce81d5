"""Forecast what more text would score: train on parts of it, and extrapolate (metrics/extrapolation.py).

Every part is read the same number of times, in batches of the same size, and validated on the same pairs. The
forecast is of a training with as many passes over more text, which takes longer in proportion. With equal
updates instead, short trainings score the same on any amount of text (docs/forecast.md).
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from dragoman.config import MAX_SEED, Config, TranslationConfig
from dragoman.data.corpora import has_text
from dragoman.data.named import changed_files, hashes_of, open_direction
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.metrics.extrapolation import Prediction, extrapolate
from dragoman.predict.translator import translation_config
from dragoman.runs import Run, only_writer
from dragoman.text.tokenizer import TokenizerPair
from dragoman.training.loop import start_or_continue
from dragoman.training.parallel.processes import joined
from dragoman.training.trainer import REPORT, TrainingListener

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

FEWEST_PAIRS = 800
"""Pairs that a text needs, so that an eighth of it has about a hundred."""

ENOUGH_STEPS = 500
"""Updates that the half should get: smaller batches allow more of them ..."""
SMALLEST_BATCH = 512
"""... down to this number of target tokens."""

FEW_PASSES = 5
"""Passes below which scores say more about the length of the training than about its text."""

N_VALIDATIONS = 2
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
    """The length of the trainings of a forecast."""

    minutes: float
    """As requested for the half."""
    max_steps: int
    """Updates of the half; other parts make as many for each of their pairs."""
    n_pairs: int
    """Of the half."""
    passes: float
    """Over every part."""
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
        }


@dataclass(frozen=True)
class Forecast:
    """Measured and forecast rows, and what a full training costs."""

    plan: Plan
    rows: tuple[Row, ...]
    full_steps: int
    """Updates of the configuration's own training."""
    full_minutes: float
    """What they take at the speed of the half's training."""

    def record(self) -> dict[str, Any]:
        """Return what forecast.json keeps."""
        return {
            **asdict(self.plan),
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
        ConfigError: `config` is for classification, or for several corpora or directions.
        DataError: the text is too little, or cannot be read.
        RunError: `out` holds other runs, or cannot be written.
    """
    config = check_forecastable(config)
    whole = count_pairs(config)
    if whole < FEWEST_PAIRS:
        raise DataError(
            f"{whole:,} training pairs are too few for a forecast, which needs {FEWEST_PAIRS:,}; "
            "give more text"
        )
    parts = {name: count_pairs(part_of(config, share)) for name, share in PARTS.items()}
    with only_writer(out):
        plan = make_plan(config, out, n_pairs=parts["a half"], minutes=minutes, say=say)
        for line in describe_plan(plan).splitlines():
            say(line)
        measured = []
        for number, (name, n_pairs) in enumerate(parts.items()):
            say(f"training {number + 1} of {len(parts)}: {name} of the text, {n_pairs:,} pairs")
            part = part_of(config, PARTS[name], seed=(config.seed + number) % MAX_SEED)
            run = out / name.replace(" ", "-")
            train(shortened(part, plan, n_pairs), run)
            measured.append(read_row(Run.open(run), name, n_pairs))
        predicted = predict(measured, whole)
        full = full_minutes(config, plan, measured[-1])
        found = Forecast(plan, (*measured, *predicted), config.training.max_steps, full)
        Run(out, config).write_json(RESULT, found.record())
    return found


def describe_plan(plan: Plan) -> str:
    """Return the plan in words, with a warning where the trainings are short."""
    text = (
        f"{len(PARTS)} trainings of {plan.passes:.1f} passes, with updates of {plan.batch_tokens:,} tokens; "
        f"for the half {plan.max_steps:,} updates, about {plan.max_steps * plan.seconds_per_step / 60:.1f} "
        "minutes"
    )
    if plan.passes >= FEW_PASSES:
        return text
    enough = plan.max_steps * plan.seconds_per_step / 60 * FEW_PASSES / plan.passes
    return f"{text}\nwarning: so few passes hide what more text is worth; give --minutes {enough:.0f} or more"


def check_forecastable(config: Config) -> TranslationConfig:
    """Return `config`. ConfigError: it is not for one corpus in one direction."""
    if not isinstance(config, TranslationConfig):
        raise ConfigError("forecasts are for translators; give parallel text")
    if config.data.corpora or len(config.directions) > 1:
        raise ConfigError("a forecast is for one direction and no mix of corpora; give the files of one")
    return config


def count_pairs(config: TranslationConfig) -> int:
    """Return the usable pairs of the training text."""
    return sum(map(has_text, open_direction(config)[0].pairs()))


def part_of(
    config: TranslationConfig, share: tuple[float, float], *, seed: int | None = None
) -> TranslationConfig:
    """Return `config` with a part of its training text, which may be a part already, and another seed.

    All parts hold out the same text for validation, whatever their seed.
    """
    low, high = config.data.part
    part = tuple(low + one * (high - low) for one in share)
    data = {"part": part, "split_seed": config.data.seed_of_split(config.seed)}
    changed = {"data": config.data.model_copy(update=data), "seed": config.seed if seed is None else seed}
    return config.model_copy(update=changed)


def shortened(config: TranslationConfig, plan: Plan, n_pairs: int) -> TranslationConfig:
    """Return `config` with a training of the plan's passes over its `n_pairs`; its schedule ends with it."""
    training = config.training
    steps, tokens = max(FEWEST_STEPS, round(plan.max_steps * n_pairs / plan.n_pairs)), tokens_of(config)
    short = {
        "max_steps": steps,
        "max_epochs": 0,
        "max_minutes": 0.0,
        "batch_tokens": plan.batch_tokens,
        "update_freq": 1,
        "learning_rate": training.learning_rate * math.sqrt(plan.batch_tokens / tokens),
        "warmup_steps": max(1, min(training.warmup_steps, steps // 5)),
        "ema_decay": min(training.ema_decay, max(0.0, 1 - 20 / steps)),  # an average over a twentieth
        "valid_every": math.ceil(steps / N_VALIDATIONS),
        "average": "none",
        "patience": 0,
    }
    return config.model_copy(update={"training": training.model_copy(update=short)})


def tokens_of(config: TranslationConfig) -> int:
    """Return the target tokens of an update."""
    return config.training.batch_tokens * config.training.update_freq


def make_plan(
    config: TranslationConfig, out: Path, *, n_pairs: int, minutes: float, say: Callable[[str], object]
) -> Plan:
    """Return the plan kept in `out`, or one that fits `minutes` for the half by the speed of this machine.

    `n_pairs` are those of the half.

    Raises:
        RunError: the plan there is of another length or other text, or `out` cannot be written.
    """
    text = hashes_of(config)
    if (out / PLAN).exists():
        return kept_plan(Run(out, config), text, minutes=minutes)
    say("measuring the speed")
    batch, half = config.training.batch_tokens, part_of(config, PARTS["a half"])
    trial = Plan(minutes, config.training.max_steps, n_pairs, 0.0, batch, 0.0)
    speed, steps_of_pass = measure_speed(shortened(half, trial, n_pairs), out / TRIAL)
    allowed = min(60 * minutes / speed * batch, config.training.max_steps * tokens_of(config) / 2)  # tokens
    passes = allowed / batch / steps_of_pass
    smaller = batch
    while allowed / smaller < ENOUGH_STEPS and smaller // 2 >= SMALLEST_BATCH:
        smaller //= 2
    steps = max(FEWEST_STEPS, round(allowed / smaller))
    plan = Plan(minutes, steps, n_pairs, passes, smaller, speed * smaller / batch)
    Run(out, config).write_json(PLAN, {"plan": asdict(plan), "text": text})
    return plan


def kept_plan(folder: Run, text: Mapping[str, Mapping[str, str]], *, minutes: float) -> Plan:
    """Return the plan in `folder`. RunError: it is damaged, of another length, or of changed text."""
    kept = folder.read_json(PLAN)
    try:
        plan = Plan(**kept["plan"])
        changed = changed_files(kept["text"], text)
    except (KeyError, TypeError, AttributeError):
        raise RunError(f"{folder.path / PLAN}: is damaged; choose another folder") from None
    if plan.minutes != minutes:
        raise RunError(
            f"{folder.path}: holds a forecast with --minutes {plan.minutes:g}; give the same, or choose "
            "another folder"
        )
    if changed:
        raise RunError(
            f"{', '.join(changed[:3])}: changed since the forecast in {folder.path} began; "
            "choose another folder"
        )
    return plan


def measure_speed(config: TranslationConfig, folder: Path) -> tuple[float, int]:
    """Measure the seconds of an update, and count the updates of a pass, in a trial run that is removed.

    DataError, RunError: as of a training.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with joined(config.training.device) as processes:
        run = Run.create(folder, config)
        trainer = start_or_continue(config, run, TrainingListener(), processes)
        updater = trainer.updater()
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
        seconds, steps_of_pass = (time.perf_counter() - began) / n_steps, len(trainer.plan())
    shutil.rmtree(folder, ignore_errors=True)
    return seconds, steps_of_pass


def read_row(run: Run, name: str, n_pairs: int) -> Row:
    """Return what the finished run of a part measured in its best validation."""
    report = run.read_json(REPORT)
    validations = [record for record in run.history() if record["kind"] == "valid"]
    score = max(record["bleu"] for record in validations)
    loss = min(record["valid_loss"] for record in validations) * tokens_per_character(run)
    return Row(name, n_pairs, exactly(score), exactly(loss), report["minutes"], True)


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
    minutes = fmean(row.minutes / row.n_pairs for row in measured)  # of a pair
    return [
        Row(
            name,
            round(n),
            _within(score, 0.0, 100.0),
            Prediction(math.exp(-gain.value), (math.exp(-gain.interval[1]), math.exp(-gain.interval[0]))),
            minutes * n,
            False,
        )
        for name, n, score, gain in zip(AMOUNTS, wanted, scores, gains, strict=True)
    ]


def _within(found: Prediction, low: float, high: float) -> Prediction:
    """Return a prediction, limited to the values that a score can have."""
    value, start, end = (min(max(one, low), high) for one in (found.value, *found.interval))
    return Prediction(value, (start, end))


def full_minutes(config: TranslationConfig, plan: Plan, half: Row) -> float:
    """Return the minutes of the configuration's own training at the speed of the half's."""
    return half.minutes * config.training.max_steps * tokens_of(config) / (plan.max_steps * plan.batch_tokens)
