"""Forecast beside truth: what `dragoman forecast` says of more text, and what trainings on it then score.

    python benchmarks/forecast_truth.py multi30k tatoeba --out runs/forecasts

For each corpus a base is forecast (a part of the corpus) from its eighths, its quarter and its half; then the
whole base, twice and four times as much are trained with as many passes, as far as the corpus goes. Scores
are on the validation pairs; nothing looks at the test set. What is trained already is kept, so that the
same command goes on; a finished corpus adds a line to benchmarks/results/forecast_truth.jsonl.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.cli.forecast import table_lines
from dragoman.config import TranslationConfig, load_recipe
from dragoman.hardware import environment
from dragoman.runs import Run
from dragoman.training.forecasting import (
    AMOUNTS,
    Forecast,
    Row,
    count_pairs,
    forecast,
    part_of,
    read_row,
    shortened,
)
from dragoman.training.loop import train
from json_lines import RESULTS, append_lines

RECIPES = Path(__file__).parent.parent / "recipes"

SMALL = (
    "tokenizer.vocab_size=2000",
    "model.d_model=64",
    "model.n_heads=4",
    "model.d_ff=128",
    "model.n_encoder_layers=2",
    "model.n_decoder_layers=2",
    "model.dropout=0.1",
    "training.batch_tokens=512",
    "training.update_freq=1",
    "training.learning_rate=4e-3",
    "training.warmup_steps=200",
    "training.schedule=wsd",
    "training.n_threads=1",
    "training.precision=fp32",
    "training.log_every=200",
    "training.average=none",
)


class Base(NamedTuple):
    """A corpus, the share of it that is forecast from, and the updates of that share."""

    recipe: str
    share: float
    max_steps: int


BASES = {
    "multi30k": Base("multi30k-en-de", 0.5, 3600),
    "tatoeba": Base("tatoeba-en-de", 0.125, 3600),
}


def config_of(base: Base) -> TranslationConfig:
    """Return the small configuration of a base; its updates limit the forecast, not the minutes."""
    own = (f"data.part=[0.0, {base.share}]", f"training.max_steps={base.max_steps}", "data.test={}")
    config = load_recipe(RECIPES / base.recipe / "recipe.toml", (*SMALL, *own))
    assert isinstance(config, TranslationConfig)
    return config


def train_amounts(config: TranslationConfig, found: Forecast, out: Path, *, times: float) -> list[Row]:
    """Train on the whole base and on multiples of it, up to `times`, as far as the corpus goes."""
    rows = []
    for number, (name, factor) in enumerate(AMOUNTS.items(), start=10):
        if factor > times or config.data.part[1] * factor > 1:
            break
        part = part_of(config, (0.0, factor), seed=config.seed + number)
        n_pairs, folder = count_pairs(part), out / name.replace(" ", "-")
        train(shortened(part, found.plan, n_pairs), folder)
        rows.append(read_row(Run.open(folder), name, n_pairs))
        print("truth:", describe(rows[-1]), flush=True)
    return rows


def describe(row: Row) -> str:
    """Return a measured row in words."""
    return (
        f"{row.text}, {row.n_pairs:,} pairs: BLEU {row.score.value:.1f}, "
        f"{row.loss.value:.3f} nats/character, {row.minutes:.1f} minutes"
    )


def check(name: str, out: Path, *, times: float) -> dict[str, Any]:
    """Forecast a base and train the truth; print both and return them as a record."""
    config = config_of(BASES[name])
    found = forecast(
        config, out / name, minutes=1000.0, train=train, say=lambda line: print(line, flush=True)
    )
    print(name, *table_lines(found), sep="\n", flush=True)
    truth = train_amounts(config, found, out / name, times=times)
    return {
        "corpus": name,
        "forecast": found.record(),
        "truth": [row.record() for row in truth],
        "environment": environment(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+", choices=list(BASES))
    parser.add_argument("--out", type=Path, default=Path("runs/forecasts"))
    parser.add_argument("--times", type=float, default=4.0, help="largest multiple of the base to train on")
    arguments = parser.parse_args()
    for name in arguments.corpora:
        append_lines(RESULTS / "forecast_truth.jsonl", [check(name, arguments.out, times=arguments.times)])


if __name__ == "__main__":
    main()
