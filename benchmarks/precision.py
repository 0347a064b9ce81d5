"""Whether bf16 learns as fp32 does: the loss of both on Multi30k, from the same seed, and fp32 from another.

    python benchmarks/precision.py
    python benchmarks/precision.py --steps 500 --seeds 1 2 3

Trains a model of 7.6 M parameters (d_model 256, 3+3 layers, d_ff 1024, one vocabulary of 8000, dropout 0.3)
on batches of 4096 target tokens: with the first seed in fp32 and in bf16, with the other seeds in fp32 alone.
How far two seeds lie apart is the yardstick for how far the two types do.

With the same seed both types start from the same weights and read the same batches in the same order. On a
CPU dropout falls on the same elements too, for its draws are random bytes whatever the type
(`byte_dropout`); on a GPU PyTorch's own dropout makes no such promise. What differs is the arithmetic of
activations and of their gradients, which bf16 rounds to 8 significant bits, the factor of what dropout keeps
among them; weights, sums of the loss, and the optimizer are fp32 in both. The closing validation is computed
in the type of its training. Another seed changes the first weights, the order and dropout.

Each curve is added to benchmarks/results/precision.jsonl when it is whole: a line for every 10 steps with
the smoothed loss that is minimised, their mean, and one with the validation loss at the end, in nats a token.
Curves that are there are not trained again. precision.svg beside it shows them all.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.cli.listener import TerminalListener
from dragoman.config import load_recipe
from dragoman.errors import PausedError
from dragoman.report.picture import BLUE, GREY, ORANGE, finish_axes, picture
from dragoman.runs import Run
from dragoman.tasks.training import train
from json_lines import RESULTS, append_lines, read_lines

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-en-de" / "recipe.toml"

SETTINGS = (
    "model.d_model=256",
    "model.d_ff=1024",
    "model.n_encoder_layers=3",
    "model.n_decoder_layers=3",
    "model.dropout=0.3",
    "tokenizer.vocab_size=8000",
    "training.batch_tokens=4096",
    "training.learning_rate=2e-3",
    "training.warmup_steps=150",
    "training.schedule=inverse_sqrt",
    "training.ema_decay=0.0",
    "training.average=none",
    "training.keep_checkpoints=1",
    "training.log_every=10",
    "training.n_threads=1",
)
"""On top of the recipe; the rate at a step is the same however many steps there are."""

N_SMOOTHED = 5
"""Points of a curve, of 10 steps each, whose mean is compared."""


class Curve(NamedTuple):
    """Which training."""

    precision: str
    seed: int
    steps: int

    def __str__(self) -> str:
        return f"{self.precision}, seed {self.seed}"


class Difference(NamedTuple):
    """Return the distance of two smoothed curves, in nats per token."""

    largest: float
    mean: float
    """Of the absolute values ..."""
    signed: float
    """... and with their signs: above 0 where the curve lies higher."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="the first one for both types")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/precision"), help="the folder of the trainings"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of results and picture")
    options = parser.parse_args()
    results = options.results / "precision.jsonl"
    curves = wanted(options.seeds, options.steps)
    try:
        for curve in curves:
            if not lines_of(read_lines(results), curve):
                append_lines(results, trained(curve, options.out))
    except (KeyboardInterrupt, PausedError):
        raise SystemExit("interrupted; the same command continues") from None
    records = read_lines(results)
    print(report(records, curves))
    draw(records, curves, options.results / "precision.svg")


def wanted(seeds: Sequence[int], steps: int) -> list[Curve]:
    """fp32 from the first seed, which the others are compared with; bf16; fp32 from the other seeds."""
    first, *others = seeds
    return [
        Curve("fp32", first, steps),
        Curve("bf16", first, steps),
        *(Curve("fp32", seed, steps) for seed in others),
    ]


def lines_of(records: Sequence[dict[str, Any]], curve: Curve) -> list[dict[str, Any]]:
    """Return the records of one curve."""
    return [record for record in records if all(record[k] == v for k, v in curve._asdict().items())]


def trained(curve: Curve, out: Path) -> list[dict[str, Any]]:
    """Return the lines of a curve, from a training in a folder of `out`, or from the rest of one."""
    overrides = (
        *SETTINGS,
        f"seed={curve.seed}",
        f"training.precision={curve.precision}",
        f"training.max_steps={curve.steps}",
        f"training.valid_every={curve.steps}",
    )
    folder = out / f"{curve.precision}-{curve.seed}-{curve.steps}"
    with TerminalListener() as listener:
        listener.message(str(curve))
        train(load_recipe(RECIPE, overrides), folder, listener=listener)
    keys = ("step", "train_loss", "valid_loss")
    return [
        {**curve._asdict(), **{key: record[key] for key in keys if key in record}}
        for record in Run.open(folder).history()
    ]


def losses(records: Sequence[dict[str, Any]], curve: Curve) -> tuple[list[int], list[float]]:
    """Return the steps of a curve, and the training loss of each, smoothed."""
    found = [record for record in lines_of(records, curve) if "train_loss" in record]
    return [record["step"] for record in found], smoothed([record["train_loss"] for record in found])


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the mean of each value and of those before it, `N_SMOOTHED` of them or as many as there are."""
    windows = (values[max(0, i - N_SMOOTHED) : i] for i in range(1, len(values) + 1))
    return [statistics.fmean(window) for window in windows]


def difference(values: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the distance of `values` from `others`, point by point."""
    apart = [value - other for value, other in zip(values, others, strict=True)]
    sizes = [abs(each) for each in apart]
    return Difference(max(sizes), statistics.fmean(sizes), statistics.fmean(apart))


def valid_loss(records: Sequence[dict[str, Any]], curve: Curve) -> float:
    """Return the validation loss at the end."""
    (loss,) = (record["valid_loss"] for record in lines_of(records, curve) if "valid_loss" in record)
    return float(loss)


def report(records: Sequence[dict[str, Any]], curves: Sequence[Curve]) -> str:
    """Return the distance of each curve from the first, in training and at the closing validation."""
    first, *others = curves
    title = f"nats/token, minus {first}"
    lines = [f"{title:28}{'largest':>10}{'mean':>10}{'signed mean':>14}{'validation':>13}"]
    for curve in others:
        apart = difference(losses(records, curve)[1], losses(records, first)[1])
        validation = valid_loss(records, curve) - valid_loss(records, first)
        numbers = f"{apart.largest:10.4f}{apart.mean:10.4f}{apart.signed:+14.4f}{validation:+13.4f}"
        lines.append(f"{curve!s:28}{numbers}")
    of = f"{first.steps} steps; training loss, the mean of {10 * N_SMOOTHED} steps"
    lines.append(f"{of}; largest and mean are of absolute values")
    lines.append(f"{first}: {valid_loss(records, first):.4f} nats/token at the closing validation")
    return "\n".join(lines)


def draw(records: Sequence[dict[str, Any]], curves: Sequence[Curve], path: Path) -> None:
    """Draw the smoothed curves, and the distance of each from the first."""
    colours = dict(zip(curves, [BLUE, ORANGE, *[GREY] * len(curves)], strict=False))
    first = curves[0]
    with picture(path, size=(8.0, 3.4), purpose="drawing loss curves") as figure:
        both, apart = figure.subplots(1, 2, sharex=True)
        for curve, colour in colours.items():
            steps, values = losses(records, curve)
            dashes = "--" if curve.precision == "bf16" else "-"  # it may hide fp32
            both.plot(steps, values, color=colour, linewidth=1.2, linestyle=dashes, label=str(curve))
            if curve != first:
                gaps = [a - b for a, b in zip(values, losses(records, first)[1], strict=True)]
                apart.plot(steps, gaps, color=colour, linewidth=1.2, linestyle=dashes)
        both.set_title("Training loss, nats/token")
        both.legend(frameon=False)
        apart.set_title(f"minus {first}")
        apart.axhline(0, color=BLUE, linewidth=1.2)
        for axes in (both, apart):
            finish_axes(axes, label="step")


if __name__ == "__main__":
    main()
