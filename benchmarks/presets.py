"""Whether the presets suit corpora that they were not chosen by, and how long they take.

    python benchmarks/presets.py train de-en 1/8 fast default --out runs/presets
    python benchmarks/presets.py train pl-en 1/2 fast --set training.optimizer=muon --seed 2
    python benchmarks/presets.py show
    python benchmarks/presets.py minutes 5000 20000 150000

`train` takes a part of Tatoeba from German, Polish or Chinese into English, trains with one thread what
`dragoman train` would with these presets, and adds a line each to benchmarks/results/presets.json: cased
sacreBLEU of a beam of 5 on the validation pairs, and the minutes of training. What was interrupted goes on
where it was; what is there already is left out. `--set` changes settings, and names the line.

`minutes` times some updates of each preset for corpora of these sizes and says how long all updates
would take here: with one thread, without tokenizer and validations.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dragoman.cli.listener import TerminalListener
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.named import open_training
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.presets import EFFORTS, preset_for
from dragoman.runs import Run
from dragoman.tasks.training import train
from measuring import Result, kept_rows, parser_of
from texts import bleu_of, valid_pairs

DIRECTIONS = {"de-en": "tatoeba-en-de", "pl-en": "tatoeba-en-pl", "zh-en": "tatoeba-en-zh"}
N_TIMED = 24
"""Updates that are timed, in intervals of a sixth; the first third is left out."""


def data_of(direction: str, share: Fraction) -> dict[str, Any]:
    """Return the section [data] of a part of Tatoeba."""
    src, tgt = direction.split("-")
    corpus = DIRECTIONS[direction]
    texts = {split: [f"{corpus}/{split}.{lang}.gz" for lang in (src, tgt)] for split in ("train", "val")}
    return {
        "src_lang": src, "tgt_lang": tgt, "train": texts["train"], "valid": texts["val"],
        "part": [0.0, float(share)], "max_length": 100,
    }  # fmt: skip


def config_for(
    direction: str, share: Fraction, effort: str, *, n_pairs: int | None = None, overrides: Sequence[str] = ()
) -> TranslationConfig:
    """Return what a preset makes of a part, by its number of pairs or as if they were `n_pairs`."""
    settings: dict[str, Any] = {"name": f"{direction}-{effort}", "data": data_of(direction, share)}
    if n_pairs is None:
        bare = parse_config(settings)
        assert isinstance(bare, TranslationConfig)
        n_pairs = sum(1 for part in open_training(bare)[0] for _ in part.corpus.pairs())
    config = parse_config({**settings, **preset_for(n_pairs, effort)}, overrides=overrides)
    assert isinstance(config, TranslationConfig)
    return config


def train_one(options: argparse.Namespace, effort: str) -> dict[str, Any]:
    """Train one preset on one part, and return its line."""
    own = [*options.set, f"seed={options.seed}", "training.n_threads=1"]
    config = config_for(options.direction, options.share, effort, overrides=own)
    name = "-".join((options.direction, *map(str, options.share.as_integer_ratio()), effort, *own[:-1]))
    folder = train(config, options.out / name, listener=TerminalListener())
    run, translator = Run.open(folder), Translator.load(folder, device="cpu")
    pairs = valid_pairs(translation_config(run))
    found = translator.translate([pair.src for pair in pairs], method="beam", beam_size=5)
    texts, references = [translation.text for translation in found], [pair.tgt for pair in pairs]
    return {
        **key_of(options, effort),
        "pairs": sum(1 for part in open_training(config)[0] for _ in part.corpus.pairs()),
        "bleu": round(bleu_of(texts, references, config.data.tgt_lang), 2),
        "minutes": round(run.read_json("report.json")["minutes"], 1),
    }


def key_of(options: argparse.Namespace, effort: str) -> dict[str, Any]:
    """Return what tells a line from others."""
    return {
        "direction": options.direction, "share": str(options.share), "preset": effort,
        "set": options.set, "seed": options.seed,
    }  # fmt: skip


def show(results: Path) -> Iterator[str]:
    """Format the lines: parts one below the other, each with its presets."""
    yield f"{'part':12}{'pairs':>8}  {'preset':44}{'BLEU':>7}{'minutes':>9}"
    for line in sorted(
        kept_rows("presets", results), key=lambda r: (r["direction"], -r["pairs"], r["minutes"])
    ):
        preset = " ".join([line["preset"], *line["set"], f"(seed {line['seed']})"])
        part = f"{line['direction']} {line['share']}"
        yield f"{part:12}{line['pairs']:8,}  {preset:44}{line['bleu']:7.1f}{line['minutes']:9.1f}"


def minutes(result: Result, sizes: Sequence[int]) -> None:
    """Time some updates of every preset for corpora of these sizes, with one thread."""
    table = result.table({"pairs": ",", "preset": "", "updates": ",", "hours": ".1f", "minutes": ".0f"})
    for n_pairs in sizes:
        for effort in EFFORTS:
            config = config_for("de-en", Fraction(1, 16), effort, n_pairs=n_pairs)
            whole = config.training.max_steps
            every = N_TIMED // 6
            timed = [
                f"training.max_steps={N_TIMED}", f"training.log_every={every}", "training.warmup_steps=1",
                f"training.valid_every={10 * N_TIMED}", "training.n_threads=1",
            ]  # fmt: skip
            config = config_for("de-en", Fraction(1, 16), effort, n_pairs=n_pairs, overrides=timed)
            with tempfile.TemporaryDirectory() as folder:
                run = Run.open(train(config, Path(folder) / "run"))
                passed = [r["seconds"] for r in run.history() if r["kind"] == "train"]
            spent = [after - before for before, after in itertools.pairwise(passed[1:])]
            found = statistics.median(spent) / every * whole / 60
            table.add(n_pairs, effort, whole, found / 60, found)


def main() -> None:
    parser = parser_of(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    one.add_argument("direction", choices=list(DIRECTIONS))
    one.add_argument("share", type=Fraction, help="such as 1/8")
    one.add_argument("preset", nargs="+", choices=list(EFFORTS))
    one.add_argument("--set", action="append", default=[], metavar="SETTING", help="as in dragoman train")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--out", type=Path, default=Path("runs/presets"))
    commands.add_parser("show")
    timing = commands.add_parser("minutes")
    timing.add_argument("pairs", type=int, nargs="+")
    options = parser.parse_args()
    if options.command == "show":
        print(*show(options.results), sep="\n")
    elif options.command == "minutes":
        with Result("presets_minutes", options) as result:
            minutes(result, options.pairs)
    else:
        for effort in options.preset:
            key = key_of(options, effort)
            if not any(key.items() <= line.items() for line in kept_rows("presets", options.results)):
                with Result("presets", options, adds=True) as result:
                    result.rows.append(train_one(options, effort))


if __name__ == "__main__":
    main()
