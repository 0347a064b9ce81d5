"""What limits a training on very many sentence pairs: bytes, seconds and days, worked out on paper.

    python benchmarks/scaling.py [--pairs 1e9] [--disk 1e9] [...]

Prints two tables in Markdown, which docs/distributed.md holds: of the data, and of models on machines.
Nothing is run. Speeds are marked as measured, in this repository, or as assumed; those can be given.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields

SHARD_PAIRS = 1 << 22
PAGE = 4096
"""Bytes that are read from a disk at least."""


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of the tables; each is an option of the command line."""

    pairs: float = 1e9
    src_tokens: float = 25.0
    """Tokens of a source sentence, on average."""
    tgt_tokens: float = 27.0
    id_bytes: float = 2.0
    """Bytes of a token's number, of a vocabulary of less than 65,536."""
    offset_bytes: float = 16.0
    """Bytes of a pair's places in the two files."""
    batch_tokens: float = 100_000.0
    """Target tokens of an update, of all processes together."""
    encoding: float = 10_200.0
    """Pairs a second that become ids; measured on two cores, by benchmarks/store_memory.py."""
    planning: float = 15.4
    """Seconds to plan a shard; measured on one core, by benchmarks/store_memory.py."""
    disk: float = 1e9
    """Bytes a second that a disk reads or writes; assumed."""
    link: float = 200e9
    """Bytes a second between the GPUs of a machine; assumed."""
    network: float = 12.5e9
    """Bytes a second between machines, 100 Gbit/s; assumed."""
    gpu_base: float = 100_000.0
    """Tokens a second of the base model on one GPU; assumed."""
    gpu_big: float = 40_000.0
    """Tokens a second of the big model on one GPU; assumed."""

    @property
    def n_tokens(self) -> float:
        """Source and target tokens of a pass."""
        return self.pairs * (self.src_tokens + self.tgt_tokens)

    @property
    def store_bytes(self) -> float:
        """The token store: ids and offsets."""
        return self.n_tokens * self.id_bytes + self.pairs * self.offset_bytes

    @property
    def n_shards(self) -> int:
        """Shards of the token store."""
        return -int(-self.pairs // SHARD_PAIRS)

    @property
    def pass_bytes(self) -> float:
        """Bytes read in a pass: every shard once, and its offsets once before, to count batches.

        The sentences of all processes share pages, and a shard stays in memory while it is used.
        """
        return self.store_bytes + self.pairs * self.offset_bytes

    @property
    def random_bytes(self) -> float:
        """Bytes read in a pass if no sentence's page were in memory when its turn comes."""
        return 2 * self.pairs * PAGE

    @property
    def update_tokens(self) -> float:
        """Source and target tokens of an update."""
        return self.batch_tokens * (self.src_tokens + self.tgt_tokens) / self.tgt_tokens


@dataclass(frozen=True)
class Training:
    """A model on machines."""

    model: str
    n_parameters: float
    hardware: str
    speed: float
    """Tokens a second of one process that waits for no other."""
    origin: str = "assumed"
    n_processes: int = 1
    n_machines: int = 1

    @property
    def exchanged(self) -> float:
        """Bytes that a process sends in an update: its gradients in fp32, summed over all in a ring."""
        return 2 * (self.n_processes - 1) / self.n_processes * 4 * self.n_parameters

    def exchange_seconds(self, given: Assumptions) -> float:
        """Seconds of an update in which gradients are exchanged."""
        return self.exchanged / (given.network if self.n_machines > 1 else given.link)

    def update_seconds(self, given: Assumptions) -> float:
        """Seconds of an update whose exchange begins when all gradients are there, as at worst."""
        computing = given.update_tokens / (self.speed * self.n_processes)
        return computing + self.exchange_seconds(given)

    @property
    def checkpoint_bytes(self) -> float:
        """Weights, two moments and the moving average, in fp32."""
        return 16 * self.n_parameters


def trainings(given: Assumptions) -> Iterator[Training]:
    """Trainings of the second table. The CPU's speeds: README.md and recipes/iwslt17-en-de/README.md."""
    yield Training("small, 7.6 M", 7.6e6, "2 CPU cores", 17_281, "measured")
    yield Training("base, 52 M", 52e6, "1 CPU core", 708, "measured")
    for model, n_parameters, speed in (
        ("base, 65 M", 65e6, given.gpu_base),
        ("big, 213 M", 213e6, given.gpu_big),
    ):
        yield Training(model, n_parameters, "1 GPU", speed)
        yield Training(model, n_parameters, "8 GPUs, 1 machine", speed, n_processes=8)
        yield Training(model, n_parameters, "32 GPUs, 4 machines", speed, n_processes=32, n_machines=4)


def data_table(given: Assumptions) -> Iterator[str]:
    """Return the costs of the data, independent of the model."""
    making, planning = given.pairs / given.encoding / 3600, 2 * given.n_shards * given.planning / 60
    rows = (
        (f"{given.pairs:.3g} pairs of {given.src_tokens:g} + {given.tgt_tokens:g} tokens", ""),
        ("---", "---"),
        ("token store", f"{given.store_bytes / 1e9:.0f} GB in {given.n_shards} shards"),
        ("files of the shard in use", f"{given.store_bytes / given.n_shards / 1e9:.1f} GB"),
        (f"making the store, {given.encoding:,.0f} pairs/s (measured, two cores)", f"{making:.0f} h"),
        (f"planning an epoch, {given.planning:g} s a shard (measured), twice", f"{planning:.0f} min"),
        ("read by a machine in a pass", f"{given.pass_bytes / 1e9:.0f} GB"),
        (
            "the same from one file larger than memory, a page a sentence",
            f"{given.random_bytes / 1e9:,.0f} GB",
        ),
    )
    yield from (f"| {what} | {how_much} |" for what, how_much in rows)


def training_table(given: Assumptions) -> Iterator[str]:
    """Return the limit of each training."""
    yield (
        "| model | hardware | tokens/s | | days a pass | read by all, MB/s | gradients sent, MB an update "
        "| share of an update | checkpoint, GB | s | share, every 1,000 updates |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for training in trainings(given):
        update = training.update_seconds(given)
        seconds = update * given.n_tokens / given.update_tokens
        saving = training.checkpoint_bytes / given.disk
        cells = (
            training.model,
            training.hardware,
            f"{given.update_tokens / update:,.0f}",
            training.origin,
            f"{seconds / 86400:,.1f}",
            f"{training.n_machines * given.pass_bytes / seconds / 1e6:.3g}",
            f"{training.exchanged / 1e6:.0f}",
            f"{100 * training.exchange_seconds(given) / update:.0f} %",
            f"{training.checkpoint_bytes / 1e9:.2f}",
            f"{saving:.1f}",
            f"{100 * saving / (saving + 1000 * update):.1f} %",
        )
        yield f"| {' | '.join(cells)} |"


def tables(given: Assumptions) -> str:
    """Both tables, as docs/distributed.md holds them."""
    return "\n".join([*data_table(given), "", *training_table(given)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for field in fields(Assumptions):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=float, default=field.default, help="default: %(default)s")
    print(tables(Assumptions(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
