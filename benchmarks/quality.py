"""Which settings translate Multi30k best at the same cost: variants of one base, with as many operations.

    python benchmarks/quality.py run base wsd r-drop --seeds 1 2 --out runs/quality
    python benchmarks/quality.py show

`run` trains every variant named, with every seed, and adds a line each to benchmarks/results/quality.json;
what is there already is left out, and what was interrupted goes on where it was. A variant makes as many
updates as cost what the base's cost, counted as in train_speed.py: 6 operations per weight of a matrix
product and token, with as many source tokens as target tokens, and the products of Muon; warm-up and
validations keep their place in the training. Attention between tokens, validations, and the tokens that
BPE-dropout draws for every epoch are not counted: the CPU minutes beside the score show them.

Each training gives three models: the moving average of the weights, the last weights, and the mean of the
weights at the last five of the six validations. All three are scored on the validation pairs with the
recipe's beam of 5, in cased sacreBLEU; nothing looks at the test set. CPU and wall minutes are those of the
training, with its tokenizer and its validations and without these scores, summed over its sittings. A
sitting that was killed outright is not among them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dragoman.cli.listener import TerminalListener
from dragoman.config import TranslationConfig, load_recipe
from dragoman.errors import PausedError
from dragoman.hardware import choose_dtype, environment
from dragoman.predict.loading import build_model, inference_copy
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tensors import load_tensors
from dragoman.text.tokenizer import TokenizerPair
from dragoman.training.objective import Weights
from dragoman.training.state import average_weights
from measuring import Result, kept_rows, parser_of
from texts import bleu_of, valid_pairs
from updates import weights_per_token

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-en-de" / "recipe.toml"
N_VALIDATIONS = 6

BASE = (
    "model.d_model=256",
    "model.d_ff=1024",
    "model.n_encoder_layers=3",
    "model.n_decoder_layers=3",
    "model.dropout=0.2",
    "tokenizer.vocab_size=8000",
    "training.batch_tokens=4096",
    "training.max_steps=900",
    "training.learning_rate=2e-3",
    "training.warmup_steps=150",
    "training.schedule=cosine",
    "training.ema_decay=0.99",
    "training.average=none",
    "training.keep_checkpoints=5",
    "training.n_threads=1",
)
"""What all variants start from, on top of the recipe."""

SMALL = ("model.d_model=128", "model.d_ff=256", "model.n_encoder_layers=4", "model.n_decoder_layers=4")

VARIANTS: dict[str, tuple[str, ...]] = {
    "base": (),
    "inverse-sqrt": ("training.schedule=inverse_sqrt",),
    "linear": ("training.schedule=linear",),
    "wsd": ("training.schedule=wsd",),
    "rate-halved": ("training.learning_rate=1e-3",),
    "rate-doubled": ("training.learning_rate=4e-3",),
    "d128-4+4": SMALL,
    "d128-4+4-rate-doubled": (*SMALL, "training.learning_rate=4e-3"),
    "d128-4+4-batch-2048": (*SMALL, "training.batch_tokens=2048"),
    "d256-6+2": ("model.n_encoder_layers=6", "model.n_decoder_layers=2"),
    "vocabulary-4000": ("tokenizer.vocab_size=4000",),
    "vocabulary-10000": ("tokenizer.vocab_size=10000",),
    "bpe-dropout-0.1": ("tokenizer.dropout=0.1",),
    "r-drop": ("training.consistency=1.0",),
    "dropout-0.1": ("model.dropout=0.1",),
    "dropout-0.3": ("model.dropout=0.3",),
    "attention-dropout-0.1": ("model.attention_dropout=0.1",),
    "activation-dropout-0.1": ("model.activation_dropout=0.1",),
    "no-smoothing": ("training.label_smoothing=0.0",),
    "batch-2048": ("training.batch_tokens=2048",),
    "batch-8192": ("training.batch_tokens=8192",),
    "post-norm": ("model.norm=post",),
    "muon": ("training.optimizer=muon",),
    "muon-rate-doubled": ("training.optimizer=muon", "training.learning_rate=4e-3"),
    "d128-4+4-muon": (*SMALL, "training.optimizer=muon"),
    "d128-4+4-muon-wsd": (*SMALL, "training.optimizer=muon", "training.schedule=wsd"),
    "d128-4+4-wsd": (*SMALL, "training.schedule=wsd"),
}
"""What each changes; the number of updates follows."""

MODELS = {"ema": "moving average", "last": "last weights", "mean": "mean of last 5"}
"""What a training gives, by the name in the file and in the table."""


class Row(NamedTuple):
    """A line of the table: a variant, with what its seeds gave."""

    variant: str
    steps: int
    records: Sequence[dict[str, Any]]

    def scores(self, model: str) -> list[float]:
        """Return the BLEU of a model, for each seed."""
        return [record["bleu"][model] for record in self.records]

    def cpu_minutes(self, cpu: str) -> str:
        """Return the mean over the seeds that were trained on this processor, or – for none."""
        minutes = [record["cpu_minutes"] for record in self.records if record["cpu"] == cpu]
        return f"{statistics.fmean(minutes):.1f}" if minutes else "–"


def main() -> None:
    parser = parser_of(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train what is not among the results yet")
    run.add_argument("variants", nargs="+", choices=VARIANTS, metavar="NAME", help=", ".join(VARIANTS))
    run.add_argument("--seeds", type=int, nargs="+", default=[1])
    run.add_argument("--out", type=Path, default=Path("runs/quality"), help="the folder of the trainings")
    commands.add_parser("show", help="print the table")
    options = parser.parse_args()
    if options.command == "show":
        print(table(kept_rows("quality", options.results)))
        return
    try:
        run_missing(options)
    except (KeyboardInterrupt, PausedError):
        raise SystemExit("interrupted; the same command continues") from None


def run_missing(options: argparse.Namespace) -> None:
    """Add what the results have not yet: all variants with the first seed, then with the next."""
    for seed, variant in itertools.product(options.seeds, options.variants):
        if not is_there(kept_rows("quality", options.results), variant, seed):
            folder = options.out / f"{variant}-{seed}"
            with Result("quality", options, adds=True) as result:
                result.rows.append(measure(variant, seed, folder))
            shutil.rmtree(Run.open(folder).checkpoints)  # half a gigabyte


def is_there(records: Sequence[dict[str, Any]], variant: str, seed: int) -> bool:
    """Whether a variant has been measured with this seed."""
    return any((record["variant"], record["seed"]) == (variant, seed) for record in records)


def measure(variant: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train a variant in `folder`, or finish what is there; what the file of results keeps of it."""
    config = configuration(variant, seed)
    torch.set_num_threads(config.training.n_threads)  # also where only the scores are missing
    costs = folder / "costs.jsonl"
    with TerminalListener() as listener, timed(costs):
        listener.message(f"{variant}, seed {seed}, {config.training.max_steps} steps")
        train(config, folder, listener=listener)
    sittings = list(map(json.loads, costs.read_text(encoding="utf-8").splitlines()))
    run = Run.open(folder)
    return {
        "variant": variant,
        "seed": seed,
        "settings": VARIANTS[variant],
        "steps": config.training.max_steps,
        "n_parameters": run.read_json("report.json")["n_parameters"],
        "bleu": {name: validation_bleu(run, weights) for name, weights in models(run)},
        "cpu_minutes": sum(sitting["cpu_seconds"] for sitting in sittings) / 60,
        "wall_minutes": sum(sitting["wall_seconds"] for sitting in sittings) / 60,
        "cpu": environment()["cpu"],
    }


@contextmanager
def timed(path: Path) -> Iterator[None]:
    """Add the seconds of the block to the file `path`, however it ends."""
    wall, cpu = time.monotonic(), time.process_time()
    try:
        yield
    finally:
        seconds = {"wall_seconds": time.monotonic() - wall, "cpu_seconds": time.process_time() - cpu}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(seconds) + "\n")


def configuration(variant: str, seed: int) -> TranslationConfig:
    """Return the settings of a variant, with as many updates as cost what the base's cost."""
    overrides = [*BASE, *VARIANTS[variant], f"seed={seed}"]
    return load([*overrides, *same_cost(load(overrides), load(BASE))])


def load(overrides: Sequence[str]) -> TranslationConfig:
    config = load_recipe(RECIPE, overrides)
    assert config.task == "translation"
    return config


def same_cost(config: TranslationConfig, base: TranslationConfig) -> list[str]:
    """Return the overrides that give `config` as many operations as `base` has, to within a few updates.

    Validations are at equal distances, the last one at the end.
    """
    ratio = operations(base) / operations(config)
    valid_every = max(1, round(base.training.max_steps * ratio / N_VALIDATIONS))
    return [
        f"training.max_steps={valid_every * N_VALIDATIONS}",
        f"training.valid_every={valid_every}",
        f"training.warmup_steps={max(1, round(config.training.warmup_steps * ratio))}",
    ]


def operations(config: TranslationConfig) -> float:
    """Operations of the weights' matrix products in one update whose batches are full, on both sides."""
    training = config.training
    n_passes = 2 if training.consistency else 1
    weights = sum(weights_per_token(config, config.tokenizer.vocab_size))
    products = 6.0 * weights * n_passes * training.batch_tokens * training.update_freq
    return products + (muon_operations(config) if training.optimizer == "muon" else 0.0)


def muon_operations(config: TranslationConfig) -> float:
    """Operations of the products by which Muon makes its steps orthogonal, in one update.

    Five iterations, each X X^T, its square, and a product with X (m, n), m at most n.
    """
    model = config.model
    attention = 4 * [(model.d_model, model.d_model)]
    feed_forward = 2 * [(min(model.d_model, model.d_ff), max(model.d_model, model.d_ff))]
    n_attentions = model.n_encoder_layers + 2 * model.n_decoder_layers
    n_feed_forwards = model.n_encoder_layers + model.n_decoder_layers
    matrices = n_attentions * attention + n_feed_forwards * feed_forward
    return sum(5.0 * (4 * m * m * n + 2 * m**3) for m, n in matrices)


def models(run: Run) -> Iterator[tuple[str, Weights]]:
    """Yield the weights of every model that the checkpoints of a finished run hold."""
    folders = sorted(run.checkpoints.glob("step-*"))
    yield "ema", load_tensors(folders[-1] / "ema.safetensors")
    yield "last", load_tensors(folders[-1] / "model.safetensors")
    yield "mean", average_weights([folder / "model.safetensors" for folder in folders])


def validation_bleu(run: Run, weights: Weights) -> float:
    """BLEU of `weights` on the validation pairs, searched as the recipe says."""
    config, cpu = translation_config(run), torch.device("cpu")
    tokenizers = TokenizerPair.load(run.tokenizer_folder)
    model = build_model(config, tokenizers, device=cpu)
    candidate = inference_copy(model, choose_dtype(config.training.precision, cpu), weights=weights)
    pairs = valid_pairs(config)
    found = Translator(candidate, tokenizers, config).translate([pair.src for pair in pairs], n_best=1)
    texts, references = [translation.text for translation in found], [pair.tgt for pair in pairs]
    return bleu_of(texts, references, config.data.tgt_lang)


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the results of all variants, best moving average first, with minutes for each processor."""
    ordered = sorted(rows(records), key=lambda row: statistics.fmean(row.scores("ema")), reverse=True)
    cpus = list(dict.fromkeys(record["cpu"] for record in records))
    titles = [*MODELS.values(), *(f"minutes ({number})" for number, _ in enumerate(cpus, 1))]
    lines = [f"{'variant':24}{'steps':>7}{'seeds':>7}" + "".join(f"{title:>16}" for title in titles)]
    for row in ordered:
        cells = [mean_and_spread(row.scores(model)) for model in MODELS] + [
            row.cpu_minutes(cpu) for cpu in cpus
        ]
        counts = f"{row.steps:7}{len(row.records):7}"
        lines.append(f"{row.variant:24}{counts}" + "".join(f"{cell:>16}" for cell in cells))
    legend = [f"({number}) CPU minutes on {cpu}" for number, cpu in enumerate(cpus, 1)]
    return "\n".join(
        [*lines, "BLEU on the validation pairs: mean (standard deviation) over the seeds", *legend]
    )


def rows(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the records of each variant together, as long as they made as many updates."""
    keys = dict.fromkeys((record["variant"], record["steps"]) for record in records)
    return [
        Row(*key, [record for record in records if (record["variant"], record["steps"]) == key])
        for key in keys
    ]


def mean_and_spread(scores: Sequence[float]) -> str:
    """Return the mean, and the standard deviation of a sample, or – for a single one."""
    spread = f"{statistics.stdev(scores):.2f}" if len(scores) > 1 else "–"
    return f"{statistics.fmean(scores):.2f} ({spread})"


if __name__ == "__main__":
    main()
