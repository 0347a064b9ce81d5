"""`dragoman demo`: from nothing to a translator in about two minutes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.train import Overrides, run_training
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.evaluation.translation import Evaluation

SETTINGS: dict[str, dict[str, Any]] = {
    "tokenizer": {"kind": "bpe", "vocab_size": 1500},
    "model": {
        "d_model": 128,
        "n_heads": 4,
        "d_ff": 512,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
        "dropout": 0.1,
    },
    "training": {
        "max_steps": 900,
        "batch_tokens": 2048,
        "learning_rate": 4e-3,
        "warmup_steps": 150,
        "schedule": "cosine",
        "ema_decay": 0.99,
        "average": "none",
        "log_every": 50,
        "valid_every": 300,
    },
    "search": {"beam_size": 4},
}
"""Found on the phrasebook's validation split, to be done in about two minutes on two CPU cores."""

N_SHOWN = 12
"""Translations in the table."""


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    task: Annotated[str, typer.Option(help="translation or classification.")] = "translation",
    src: Annotated[
        str | None, typer.Option(help="Source language: en, de, pl or zh.", show_default="en")
    ] = None,
    tgt: Annotated[
        str | None, typer.Option(help="Target language: en, de, pl or zh.", show_default="de")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, max=1e7, help="Stop training after so long.", show_default="no limit"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run's folder.", show_default="runs/demo, runs/demo-<src>-<tgt> or runs/demo-reviews"
        ),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Train and translate in two minutes, without network; or classify, in one.

    Trains on the embedded corpus, scores held-out sentences, and shows translations beside references, or
    reviews beside the labels they are given.
    """
    if task not in ("translation", "classification"):
        raise ConfigError(f"--task {task}: there are translation and classification")
    if task == "classification":
        from dragoman.cli.demo_classifier import demo_classifier

        if src or tgt:
            raise ConfigError("--src and --tgt are for --task translation; the reviews are English")
        demo_classifier(minutes=minutes, out=out, overrides=overrides or ())
        return
    src, tgt = src or "en", tgt or "de"
    from dragoman.config import parse_config
    from dragoman.data.corpora import open_corpus
    from dragoman.data.phrasebook import unseen_phrases
    from dragoman.evaluation.scores import keep_scores
    from dragoman.evaluation.translation import evaluate, read_pairs
    from dragoman.predict.translator import Translator
    from dragoman.runs import Run

    changes = list(overrides or ())
    if minutes is not None:
        changes.insert(0, f"training.max_minutes={minutes}")
    config = parse_config(demo_settings(src, tgt), overrides=changes, where="demo")
    path = run_training(config, out or Path("runs") / config.name)
    test = read_pairs(open_corpus(["phrasebook:test"], src_lang=src, tgt_lang=tgt))
    translator = Translator.load(path)
    whole = evaluate(translator, "phrasebook", test)
    unseen_sources = {phrase._asdict()[src] for phrase in unseen_phrases()}
    unseen = [i for i, pair in enumerate(test) if pair.src in unseen_sources]
    seen = [i for i in range(len(test)) if i not in set(unseen)]
    parts = {"word and construction seen together": seen, "never seen together": unseen}
    evaluations = [whole, *(whole.part(n, i, tgt_lang=tgt) for n, i in parts.items() if i)]
    keep_scores(Run.open(path), [evaluation.record() for evaluation in evaluations])
    _print_tables([pair.src for pair in test], evaluations, unseen)
    say(f"{len(test):,} sentences in {whole.seconds:.1f} s, {whole.sentences_per_second:.0f} sentences/s")
    for command in next_commands(path, test[0].src):
        say(command)


def demo_settings(src: str, tgt: str) -> dict[str, Any]:
    """The demo's recipe. ConfigError: the phrasebook has no such pair of languages."""
    from dragoman.data.phrasebook import LANGUAGES

    for option, lang in (("--src", src), ("--tgt", tgt)):
        if lang not in LANGUAGES:
            raise ConfigError(f"{option} {lang}: the phrasebook has {', '.join(LANGUAGES)}")
    if src == tgt:
        raise ConfigError(f"--src {src} --tgt {tgt}: choose two different languages")
    return {
        "name": "demo" if (src, tgt) == ("en", "de") else f"demo-{src}-{tgt}",
        "data": {
            "src_lang": src,
            "tgt_lang": tgt,
            "train": ["phrasebook:train"],
            "valid": ["phrasebook:valid"],
            "test": {"phrasebook": ["phrasebook:test"]},
        },
        **SETTINGS,
    }


def next_commands(path: Path, example: str) -> list[str]:
    """What to try after the demo, ready to be copied."""
    return [
        "",
        "Try next:",
        f"  echo {shlex.quote(example)} | {command_line('translate', path)}",
        f"  {command_line('show', path)}",
        "  dragoman demo --src de --tgt en",
        "  dragoman train --src your.en --tgt your.de",
    ]


def _print_tables(sources: Sequence[str], evaluations: Sequence[Evaluation], unseen: Sequence[int]) -> None:
    """Scores, and a few translations beside their references, on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    whole = evaluations[0]
    translations = Table(
        "source", "translation", "reference", title="Held-out sentences", title_justify="left"
    )
    chosen = [*unseen[: N_SHOWN // 2], *(i for i in range(len(sources)) if i not in set(unseen))][:N_SHOWN]
    for i in chosen:
        right = whole.hypotheses[i] == whole.references[i]
        translations.add_row(
            Text(sources[i]),
            Text(whole.hypotheses[i], style="green" if right else "yellow"),
            Text(whole.references[i]),
        )
    scores = Table(title="Scores", title_justify="left")
    for heading in ("test sentences", "number", "BLEU", "chrF2", "exactly right"):
        scores.add_column(heading, justify="left" if heading == "test sentences" else "right")
    for evaluation in evaluations:
        values = {score.name: score for score in evaluation.scores}
        n_right = sum(map(str.__eq__, evaluation.hypotheses, evaluation.references))
        n = len(evaluation.hypotheses)
        scores.add_row(
            "all" if evaluation is whole else evaluation.name,
            f"{n:,}",
            *(f"{values[name].value:.1f}" for name in ("BLEU", "chrF2")),
            f"{100 * n_right / n:.0f} %",
        )
    console = Console(highlight=False)
    console.print(translations)
    console.print(scores)
