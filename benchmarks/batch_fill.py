"""How full training batches are: those of any shape, and those of a dozen shapes that a GPU is given.

    python benchmarks/batch_fill.py recipes/multi30k-en-de/recipe.toml recipes/tatoeba-en-de/recipe.toml

Plans three epochs of each recipe's training text, and prints the target tokens of a batch (mean), how many
batches have less than half of `training.batch_tokens`, and how much of the sources and targets is padding.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from dragoman.config import TranslationConfig, parse_config, read_settings
from dragoman.runs import Run
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.training.trainer import TrainingListener

N_EPOCHS = 3


class Filling(NamedTuple):
    """What the batches of some epochs hold."""

    n_batches: float
    """In an epoch."""
    n_tokens: float
    """Target tokens, padding excluded: the mean of all batches."""
    less_than_half: float
    """Share of the batches that have less than half of the target tokens that they may have."""
    src_padding: float
    """Share of the sources that is padding."""
    tgt_padding: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="+")
    options = parser.parse_args()
    print("| recipe | at most | batches | an epoch | tokens | below half | source padding | target padding |")
    print("|---|--:|---|--:|--:|--:|--:|--:|")
    for path in options.recipe:
        config = parse_config(read_settings(path), where=str(path))
        assert isinstance(config, TranslationConfig)
        for kind, static in (("any shape", False), ("a dozen shapes", True)):
            found = filling(config, static=static)
            shares = (f"{100 * share:.1f} %" for share in found[2:])
            cells = (
                path.parent.name, f"{config.training.batch_tokens:,}", kind,
                f"{found.n_batches:,.0f}", f"{found.n_tokens:,.0f}", *shares,
            )  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)


def filling(config: TranslationConfig, *, static: bool) -> Filling:
    """Plan `N_EPOCHS` epochs, and count what their batches hold."""
    cpu = torch.device("cpu")
    n_tokens, real, cells = [], np.zeros(2), np.zeros(2)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", config)
        task = TranslationObjective(config, run, cpu, TrainingListener(), static=static)
        for epoch in range(N_EPOCHS):
            for indices in task.plan(epoch):
                batch = task.batch(indices, cpu)
                real += batch.n_src_tokens, batch.n_tgt_tokens
                cells += batch.src.numel(), batch.tgt_out.numel()
                n_tokens.append(batch.n_tgt_tokens)
    few = sum(2 * n < config.training.batch_tokens for n in n_tokens)
    src_padding, tgt_padding = (1 - real / cells).tolist()
    return Filling(
        len(n_tokens) / N_EPOCHS, sum(n_tokens) / len(n_tokens), few / len(n_tokens), src_padding, tgt_padding
    )


if __name__ == "__main__":
    main()
