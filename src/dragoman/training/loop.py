"""The training loop: functions over an explicit state, from a configuration to a finished run."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dragoman.config import Config
from dragoman.data.batching import TranslationBatch, make_batch, plan_epoch
from dragoman.data.corpora import Corpus, Pair, has_text, open_corpus, split_held_out
from dragoman.data.store import TokenStore
from dragoman.errors import TrainingError
from dragoman.hardware import choose_device, choose_dtype, keep_freed_memory
from dragoman.predict.loading import build_model
from dragoman.runs import Run, environment
from dragoman.text.subword import TokenizerPair
from dragoman.training.loss import batch_loss
from dragoman.training.optimizer import make_optimizer, set_learning_rate
from dragoman.training.schedule import learning_rate
from dragoman.training.state import Position, TrainState, parameters
from dragoman.training.validation import Validation, Validator, average_weights

REPORT = "report.json"
"""Written last: a run that has it is finished."""


class TrainingListener:
    """Is told what happens during a training. This one says nothing; override what you want to hear."""

    def message(self, text: str) -> None:
        """A sentence for the user."""

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
        """The first update is about to be made, or the first after a pause."""

    def stepped(self, position: Position) -> None:
        """One update was made."""

    def logged(self, record: dict[str, Any]) -> None:
        """A line was added to history.jsonl."""

    def validating(self) -> None:
        """Training pauses for a validation."""


@dataclass(frozen=True)
class Corpora:
    """The stores and texts of one training."""

    tokenizers: TokenizerPair
    train: Corpus
    valid_store: TokenStore
    valid_pairs: list[Pair]
    cache: Path

    def train_store(self, config: Config, *, epoch: int) -> TokenStore:
        """The training tokens of `epoch`: always the same ones, or with BPE-dropout a fresh draw."""
        drawn = config.tokenizer.dropout > 0
        return TokenStore.prepare(
            self.train,
            self.tokenizers,
            max_length=config.data.max_length,
            cache=self.cache / "train",
            dropout=drawn,
            draw=epoch if drawn else 0,
        )


def train(config: Config, out: str | Path, *, listener: TrainingListener | None = None) -> Path:
    """Trains as `config` says into the run directory `out`, or continues there; returns its path.

    The same call on an unfinished run continues to the bit. DataError, RunError, TrainingError: see
    their messages. KeyboardInterrupt saves a checkpoint first.
    """
    listener = listener or TrainingListener()
    run = Run.create(out, config)
    if is_finished(run):
        listener.message(f"{run.path} is finished; choose another folder to train again")
        return run.path
    device = choose_device(config.training.device)
    keep_freed_memory()
    if config.training.n_threads:
        torch.set_num_threads(config.training.n_threads)
    corpora = prepare_corpora(config, run, listener)
    state = start_or_continue(config, run, corpora.tokenizers, device, listener)
    validator = Validator(config, corpora.tokenizers, corpora.valid_pairs, corpora.valid_store)
    listener.started(state.position, config, state.model.n_parameters)
    with interruption() as interrupted:
        run_updates(state, config, run, corpora, validator, listener, interrupted)
    if interrupted():
        listener.message(f"interrupted at step {state.position.step}; the same command continues from here")
        raise KeyboardInterrupt
    finish(state, config, run, validator, listener)
    return run.path


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C or SIGTERM into an answer of True, so that it falls between two updates.

    A second one interrupts at once. Outside the main thread signals are left alone.
    """
    requested = False
    previous: dict[int, Any] = {}
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def request(signum: int, frame: Any) -> None:
        nonlocal requested
        requested = True
        signal.signal(signum, previous[signum])

    for signum in signals:
        previous[signum] = signal.signal(signum, request)
    try:
        yield lambda: requested
    finally:
        for signum in signals:
            signal.signal(signum, previous[signum])


def prepare_corpora(config: Config, run: Run, listener: TrainingListener) -> Corpora:
    """Reads, tokenizes and stores the corpora; trains the tokenizer where the run has none yet."""
    data = config.data
    open_files = partial(open_corpus, src_lang=data.src_lang, tgt_lang=data.tgt_lang, columns=data.columns)
    if data.valid:
        train_corpus, valid_corpus = open_files(data.train), open_files(data.valid)
    else:
        corpus = open_files(data.train)
        train_corpus, valid_corpus = split_held_out(corpus, n_held_out=data.n_held_out, seed=config.seed)
    valid_pairs = [pair for pair in valid_corpus.pairs() if has_text(pair)]
    tokenizers = prepare_tokenizers(config, run, train_corpus, listener)
    cache = run.path / "cache"
    valid_store = TokenStore.prepare(
        valid_corpus, tokenizers, max_length=config.model.max_positions, cache=cache / "valid"
    )
    corpora = Corpora(tokenizers, train_corpus, valid_store, valid_pairs, cache)
    store = corpora.train_store(config, epoch=0)
    listener.message(
        f"{len(store):,} training pairs ({store.src_lengths.sum():,} + {store.tgt_lengths.sum():,} tokens), "
        f"{len(valid_pairs):,} validation pairs"
    )
    if skipped := store.skipped_message():
        listener.message(skipped)
    return corpora


def prepare_tokenizers(config: Config, run: Run, corpus: Corpus, listener: TrainingListener) -> TokenizerPair:
    """The run's tokenizers, learnt from `corpus` where it has none yet."""
    folder = run.tokenizer_folder
    if not folder.exists():
        listener.message("training the tokenizer")
        unfinished = folder.with_name(".tokenizer.partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        TokenizerPair.train(corpus.pairs(), config.tokenizer).save(unfinished)
        unfinished.replace(folder)
    return TokenizerPair.load(folder)


def start_or_continue(
    config: Config, run: Run, tokenizers: TokenizerPair, device: torch.device, listener: TrainingListener
) -> TrainState:
    """The state of the newest checkpoint, or a fresh one."""
    torch.manual_seed(config.seed)
    model = build_model(config, tokenizers, device=device).train()
    model.dtype = choose_dtype(config.training.precision, device)
    ema = {k: v.clone() for k, v in parameters(model).items()} if config.training.ema_decay else None
    state = TrainState(model, make_optimizer(model, config.training), ema, Position())
    newest = newest_checkpoint(run)
    if newest is not None:
        state.restore(newest)
        listener.message(f"continuing from step {state.position.step}")
    run.truncate_history(state.position.step)
    return state


def run_updates(
    state: TrainState,
    config: Config,
    run: Run,
    corpora: Corpora,
    validator: Validator,
    listener: TrainingListener,
    interrupted: Callable[[], bool],
) -> None:
    """Updates the weights until there is a reason to stop, validating and saving on the way."""
    training, position = config.training, state.position
    if is_over(position, config):
        return
    clock = time.perf_counter()
    logged_at = position.seconds
    for batches in updates(state, config, corpora):
        gradient_norm = update(state, batches, config)
        now = time.perf_counter()
        position.seconds, clock = position.seconds + now - clock, now
        listener.stepped(position)
        last = is_over(position, config)
        stop = interrupted()  # asked once: what is acted upon below must also have been saved
        if position.step % training.log_every == 0 or last:
            record = log_record(state, config, gradient_norm, position.seconds - logged_at)
            logged_at = position.seconds
            run.append_history(record)
            listener.logged(record)
        if position.step % training.valid_every == 0 or last:
            listener.validating()
            validate(state, config, run, validator, listener)
            now = time.perf_counter()
            position.seconds, clock = position.seconds + now - clock, now
            logged_at = position.seconds
            save_checkpoint(state, run, config)
        elif stop:
            save_checkpoint(state, run, config)
        if stop or is_over(position, config):
            return


def is_over(position: Position, config: Config) -> bool:
    """Whether steps, time or patience have come to their end."""
    training = config.training
    return (
        position.step >= training.max_steps
        or 0 < 60 * training.max_minutes <= position.seconds
        or 0 < training.patience <= position.n_worse
    )


def updates(state: TrainState, config: Config, corpora: Corpora) -> Iterator[list[TranslationBatch]]:
    """The batches of one update after another, for ever, from the position on, which it advances."""
    position, training = state.position, config.training
    device = next(state.model.parameters()).device
    while True:
        store = corpora.train_store(config, epoch=position.epoch)
        plan = plan_epoch(store, batch_tokens=training.batch_tokens, seed=config.seed, epoch=position.epoch)
        while position.batch < len(plan):
            chosen = plan[position.batch : position.batch + training.update_freq]
            batches = [make_batch(store, indices).to(device) for indices in chosen]
            position.batch += len(chosen)
            if position.batch >= len(plan):
                position.epoch, position.batch = position.epoch + 1, 0
                yield batches
                break
            yield batches


def update(state: TrainState, batches: list[TranslationBatch], config: Config) -> float:
    """One update of the weights from the gradients of `batches`; returns the norm of the gradient.

    The loss is divided by the target tokens of the whole update, so that it does not matter how they
    are cut into batches. TrainingError: the loss or the gradient is not a finite number.
    """
    training, position = config.training, state.position
    n_tokens = sum(batch.n_tgt_tokens for batch in batches)
    total = 0.0
    for batch in batches:
        smoothed = batch_loss(state.model, batch, smoothing=training.label_smoothing).smoothed
        (smoothed / n_tokens).backward()  # type: ignore[no-untyped-call]
        total += smoothed.item()
    limit = training.clip_norm or math.inf
    gradient_norm = float(torch.nn.utils.clip_grad_norm_(state.model.parameters(), limit))
    rate = learning_rate(position.step + 1, training)
    if not (math.isfinite(total) and math.isfinite(gradient_norm)):
        what = "loss" if not math.isfinite(total) else "gradient"
        raise TrainingError(
            f"the {what} is not a number at step {position.step + 1} (learning rate {rate:.1e}); the last "
            "checkpoint stands. Try a lower training.learning_rate, more training.warmup_steps, or "
            'training.precision = "fp32"'
        )
    set_learning_rate(state.optimizer, rate)
    state.optimizer.step()
    state.optimizer.zero_grad()
    position.step += 1
    state.update_ema(training.ema_decay)
    position.window_loss += total
    position.window_tgt_tokens += n_tokens
    position.window_tokens += sum(batch.n_tokens for batch in batches)
    return gradient_norm


def log_record(state: TrainState, config: Config, gradient_norm: float, seconds: float) -> dict[str, Any]:
    """What happened since the last log line; the window starts anew."""
    position = state.position
    record = {
        "kind": "train",
        "step": position.step,
        "epoch": position.epoch,
        "train_loss": position.window_loss / position.window_tgt_tokens,
        "lr": learning_rate(position.step, config.training),
        "gradient_norm": gradient_norm,
        "tokens_per_second": position.window_tokens / max(seconds, 1e-9),
        "seconds": position.seconds,
    }
    position.window_loss, position.window_tgt_tokens, position.window_tokens = 0.0, 0, 0
    return record


def validate(
    state: TrainState, config: Config, run: Run, validator: Validator, listener: TrainingListener
) -> None:
    """Scores the weights and keeps them if they are the best yet."""
    position, metric = state.position, config.training.metric
    result = validator(state.model, state.weights())
    score = result.score(metric)
    position.scores[str(position.step)] = score
    best = position.best_score is None or score > position.best_score
    if best:
        position.best_score, position.best_step, position.n_worse = score, position.step, 0
        run.save_weights(state.weights())
    else:
        position.n_worse += 1
    record = {
        "kind": "valid",
        "step": position.step,
        "epoch": position.epoch,
        **_scores(result),
        "best": best,
    }
    run.append_history({**record, "seconds": position.seconds})
    listener.logged(record)


def finish(
    state: TrainState, config: Config, run: Run, validator: Validator, listener: TrainingListener
) -> None:
    """Averages checkpoints, keeps the average if it scores better, and closes the run."""
    training, position = config.training, state.position
    files = [run.checkpoints / _name(step) / "model.safetensors" for step in _kept_steps(position, config)]
    kept = "best"
    if training.average != "none" and len(files) > 1:
        listener.validating()
        mean = average_weights(files)
        result = validator(state.model, mean)
        better = position.best_score is None or result.score(training.metric) > position.best_score
        if better:
            kept = "average"
            position.best_score = result.score(training.metric)
            run.save_weights(mean)
        record = {
            "kind": "average",
            "step": position.step,
            "n": len(files),
            **_scores(result),
            "best": better,
        }
        run.append_history({**record, "seconds": position.seconds})
        listener.logged(record)
    run.write_json("environment.json", environment())
    run.write_json(
        REPORT,
        {
            "kept": kept,
            "best_step": position.best_step,
            "steps": position.step,
            "epochs": position.epoch,
            "minutes": position.seconds / 60,
            "n_parameters": state.model.n_parameters,
            f"valid_{training.metric}": position.best_score,
        },
    )
    shutil.rmtree(run.path / "cache", ignore_errors=True)


def is_finished(run: Run) -> bool:
    """Whether the training came to its end: its report is the last thing it writes."""
    return (run.path / REPORT).exists()


def _scores(result: Validation) -> dict[str, float]:
    return {
        "valid_loss": result.loss,
        "valid_perplexity": result.perplexity,
        "bleu": result.bleu,
        "chrf": result.chrf,
    }


def _name(step: int | str) -> str:
    return f"step-{int(step):06d}"


def newest_checkpoint(run: Run) -> Path | None:
    """The complete checkpoint with the most steps; half-written ones have another name and never count."""
    found = sorted(run.checkpoints.glob("step-*")) if run.checkpoints.exists() else []
    return max(found, key=lambda folder: int(folder.name.removeprefix("step-")), default=None)


def save_checkpoint(state: TrainState, run: Run, config: Config) -> None:
    """Writes the state, then removes the checkpoints that are no longer needed."""
    position = state.position
    state.save(run.checkpoints / _name(position.step))
    needed = {_name(step) for step in _kept_steps(position, config)} | {_name(position.step)}
    for folder in run.checkpoints.glob("step-*"):
        if folder.name not in needed:
            shutil.rmtree(folder, ignore_errors=True)


def _kept_steps(position: Position, config: Config) -> list[str]:
    """The validated steps whose checkpoints are to be averaged: the last ones, or those that scored best."""
    training = config.training
    steps = sorted(position.scores, key=int)
    if training.average == "best":
        steps = sorted(steps, key=lambda step: position.scores[step])
    return steps[-training.keep_checkpoints :]
