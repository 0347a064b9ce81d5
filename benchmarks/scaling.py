"""What limits work on very many sentence pairs: hours, bytes and dollars, worked out on paper.

    python benchmarks/scaling.py [--pairs 1e8 1e9] [--gpu-hour 2.5] [...]

Prints Markdown tables, which docs/scaling.md holds: for each number of pairs every stage from the download
to the filtered corpus, on a machine with 8 GPUs and on one with 64 cores, then the data of the last number
of pairs, models on machines, and every rate. Nothing is run. A rate is measured, in this repository, or
assumed; each can be given. What one process does is paid for on the machine that waits for it.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

SHARD_PAIRS = 1 << 22
PAGE = 4096
"""Bytes that are read from a disk at least."""


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of the tables; each is an option of the command line."""

    pairs: float = 1e9
    """Sentence pairs."""
    src_tokens: float = 25.0
    """Tokens of a source sentence, on average; assumed."""
    tgt_tokens: float = 27.0
    """Tokens of a target sentence, on average; assumed."""
    id_bytes: float = 2.0
    """Bytes of a token's number, of a vocabulary of less than 65,536."""
    offset_bytes: float = 16.0
    """Bytes of a pair's places in the two files."""
    batch_tokens: float = 100_000.0
    """Target tokens of an update, of all processes together; assumed."""
    encoding: float = 17_500.0
    """Pairs a second that become ids; measured on two cores, by benchmarks/scale.py training."""
    planning: float = 0.9
    """Seconds to plan a shard; measured on one core, by benchmarks/scale.py tokens."""
    disk: float = 1e9
    """Bytes a second that a disk reads or writes; assumed."""
    link: float = 200e9
    """Bytes a second between the GPUs of a machine; assumed."""
    network: float = 12.5e9
    """Bytes a second between machines, 100 Gbit/s; assumed."""
    gpu_base: float = 475_000.0
    """Tokens a second of the base model on one H200; measured by benchmarks/gpu_speed.py, free steps."""
    gpu_big: float = 372_000.0
    """Tokens a second of the big model on one H200; measured by the same."""
    text_bytes: float = 337.0
    """Bytes of a pair's text; measured on words drawn by Zipf's law, 20 a sentence."""
    packed: float = 0.31
    """Size of .gz by the text's; measured on Multi30k."""
    download: float = 50e6
    """Bytes a second of a download; assumed."""
    packing: float = 18.9e6
    """Bytes of text a second that are written as .gz; measured on one core, as `data fetch` writes."""
    checking: float = 3_693.0
    """Pairs a second that a core checks, with `data check`; measured by benchmarks/scale.py doctor."""
    reading: float = 200_000.0
    """Pairs a second that one process reads for those that check; measured by benchmarks/scale.py doctor."""
    cleaning: float = 118_000.0
    """Pairs a second that one process compares with all others and writes; measured by the same."""
    check_workers: float = 32.0
    """Processes that check, `data check --workers`; more would wait for the one that reads; assumed."""
    vocabulary: float = 1_270_000.0
    """Pairs a second of which a vocabulary draws some; measured by benchmarks/scale.py tokens."""
    opening: float = 4_500_000.0
    """Pairs a second that a start compares with its store, 1.5 GB of text; measured on two cores."""
    passes: float = 1.0
    """Passes of a training over its pairs; assumed."""
    core_small: float = 8_640.0
    """Tokens a second of the 7.6 M model on a core; measured, half of the two cores of docs/speed.md."""
    core_base: float = 708.0
    """Tokens a second of the base model, 52 M, on a core; measured, recipes/iwslt17-en-de/README.md."""
    core_sharing: float = 1.0
    """What a core of 64 does of what it does alone; assumed, as no machine with 64 cores was at hand."""
    gpu_sentences: float = 4_000.0
    """Sentences a second that a GPU translates greedily with the base model; assumed."""
    core_sentences: float = 707.0
    """Sentences a second that a core translates greedily with the 7.6 M model; measured, docs/bulk.md."""
    scoring: float = 3.0
    """Speed of scoring pairs, which is a forward pass, by that of training; assumed."""
    gpu_hour: float = 2.5
    """Dollars for a GPU and hour, its share of the machine included; assumed."""
    core_hour: float = 0.04
    """Dollars for a core and hour; assumed."""
    disk_month: float = 0.1
    """Dollars for a GB on disk and month; assumed."""

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


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


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

    def row(self, given: Assumptions) -> str:
        """Return the limit of this training; a checkpoint is weights, two moments and their average."""
        update, checkpoint = self.update_seconds(given), 16 * self.n_parameters
        seconds, saving = update * given.n_tokens / given.update_tokens, checkpoint / given.disk
        return row(
            self.model, self.hardware, f"{given.update_tokens / update:,.0f}", self.origin,
            f"{seconds / 86400:,.1f}", f"{self.n_machines * given.pass_bytes / seconds / 1e6:.3g}",
            f"{self.exchanged / 1e6:.0f}", f"{100 * self.exchange_seconds(given) / update:.0f} %",
            f"{checkpoint / 1e9:.2f}", f"{saving:.1f}", f"{100 * saving / (saving + 1000 * update):.1f} %",
        )  # fmt: skip


def training_table(given: Assumptions) -> Iterator[str]:
    """Yield the limit of each training. The CPU's speeds: README.md and recipes/iwslt17-en-de/README.md."""
    yield (
        "| model | hardware | tokens/s | | days a pass | read by all, MB/s | gradients sent, MB an update "
        "| share of an update | checkpoint, GB | s | share, every 1,000 updates |"
    )
    yield "|---" * 11 + "|"
    yield Training("small, 7.6 M", 7.6e6, "2 CPU cores", 17_281, "measured").row(given)
    yield Training("base, 52 M", 52e6, "1 CPU core", 708, "measured").row(given)
    for model, size, speed in (("base, 65 M", 65e6, given.gpu_base), ("big, 213 M", 213e6, given.gpu_big)):
        yield Training(model, size, "1 GPU", speed, "measured").row(given)
        yield Training(model, size, "8 GPUs, 1 machine", speed, "measured × 8", 8).row(given)
        yield Training(model, size, "32 GPUs, 4 machines", speed, "measured × 32", 32, 4).row(given)


def data_table(given: Assumptions) -> Iterator[str]:
    """Yield the costs of the data, independent of the model."""
    making, planning = given.pairs / given.encoding / 3600, 2 * given.n_shards * given.planning / 60
    yield row(f"{given.pairs:.3g} pairs of {given.src_tokens:g} + {given.tgt_tokens:g} tokens", "")
    yield row("---", "---")
    yield row("token store", f"{given.store_bytes / 1e9:.0f} GB in {given.n_shards} shards")
    yield row("files of the shard in use", f"{given.store_bytes / given.n_shards / 1e9:.1f} GB")
    yield row(f"making the store, {given.encoding:,.0f} pairs/s (measured, two cores)", f"{making:.0f} h")
    yield row(f"planning an epoch, {given.planning:g} s a shard (measured), twice", f"{planning:.0f} min")
    yield row("read by a machine in a pass", f"{given.pass_bytes / 1e9:.0f} GB")
    unordered = f"{given.random_bytes / 1e9:,.0f} GB"
    yield row("the same from one file larger than memory, a page a sentence", unordered)


class Machine(NamedTuple):
    """A machine that all stages run on."""

    name: str
    n_workers: int
    dollars: float
    """An hour of it."""
    base: float
    """Tokens a second of a training of the base model, of the whole machine."""
    sentences: float
    """Sentences a second that it translates greedily."""


class Stage(NamedTuple):
    """One line of the table: what a stage takes for all pairs."""

    name: str
    seconds: float
    disk_bytes: float
    memory_bytes: float | None
    """Of the whole machine; None: not measured."""
    origin: str
    is_counted: bool = True
    """Whether it is in the sum: of two trainings only one is."""


def machines(given: Assumptions) -> tuple[Machine, Machine]:
    """Return the two machines of the tables."""
    base = Training("base", 65e6, "8 GPUs", given.gpu_base, n_processes=8)
    speed, cores = given.update_tokens / base.update_seconds(given), 64 * given.core_sharing
    return (
        Machine("8 GPUs", 8, 8 * given.gpu_hour, speed, 8 * given.gpu_sentences),
        Machine("64 cores", 64, 64 * given.core_hour, cores * given.core_base, cores * given.core_sentences),
    )


def stages(given: Assumptions, machine: Machine) -> Iterator[Stage]:
    """Every stage, in the order of the work. Memory: docs/data.md, docs/decisions.md, docs/distributed.md."""
    pairs, mib, n_workers = given.pairs, float(1 << 20), machine.n_workers
    text = pairs * given.text_bytes
    packed = text * given.packed
    fetching = packed / given.download + text / given.packing
    yield Stage("fetch, write as .gz (1 process)", fetching, packed, 64 * mib, "assumed + measured")
    n_checks = given.check_workers
    checking = pairs / min(n_checks * given.checking, given.reading) + pairs / given.cleaning
    memory = 32 * pairs + n_checks * 600 * mib
    yield Stage(f"check and clean ({n_checks:g} processes)", checking, packed, memory, "measured")
    yield Stage("learn the vocabulary (1 process)", pairs / given.vocabulary, 1e6, 388 * mib, "measured")
    making = pairs / given.encoding
    yield Stage("make the store (1 process)", making, given.store_bytes, 132 * mib, "measured")
    planning = pairs / given.opening + 2 * given.n_shards * given.planning
    shard = given.store_bytes / given.n_shards  # in the page cache
    yield Stage("start, plan an epoch (each process)", planning, 0, n_workers * 121 * mib + shard, "measured")
    tokens, on_gpus = given.passes * given.n_tokens, machine.name == "8 GPUs"
    trained = f"measured × {n_workers}"
    passes = f"{given.passes:g} pass" + "es" * (given.passes != 1)
    if not on_gpus:
        training = tokens / (64 * given.core_sharing * given.core_small)
        memory, name = n_workers * 16 * 7.6e6 + shard, f"or train 7.6 M, {passes} (not in the sum)"
        yield Stage(name, training, 5 * 16 * 7.6e6, memory, trained, False)
    models = None if on_gpus else n_workers * 16 * 52e6 + shard
    yield Stage(f"train base, {passes}", tokens / machine.base, 5 * 16 * 65e6, models, trained)
    model, origin = ("base model", "assumed") if on_gpus else ("7.6 M model", trained)
    name, memory_of_all = f"back-translate as many lines ({model}, greedily)", n_workers * 333 * mib
    yield Stage(name, pairs / machine.sentences, packed, None if on_gpus else memory_of_all, origin)
    scoring = given.n_tokens / (machine.base * given.scoring)
    yield Stage("score all pairs with base, to filter", scoring, 8 * pairs, None, "assumed")


def stage_table(given: Assumptions, machine: Machine) -> Iterator[str]:
    """Yield the lines of the stages on one machine, and their sum."""
    yield f"| {given.pairs:.0e} pairs, {machine.name} | hours | $ | GB on disk | GB of memory | rate |"
    yield "|---|--:|--:|--:|--:|---|"
    hours = disk = alone = 0.0
    for one in stages(given, machine):
        spent = one.seconds / 3600
        memory = "not measured" if one.memory_bytes is None else f"{one.memory_bytes / 1e9:,.1f}"
        dollars, gigabytes = f"{spent * machine.dollars:,.0f}", f"{one.disk_bytes / 1e9:,.1f}"
        yield row(one.name, f"{spent:,.1f}", dollars, gigabytes, memory, one.origin)
        if one.is_counted:
            hours, disk = hours + spent, disk + one.disk_bytes / 1e9
            alone += spent * ("(1 process)" in one.name)
    yield row(
        f"**all** ({alone:,.0f} h of it one process, ${alone * machine.dollars:,.0f}; on 2 cores "
        f"${alone * 2 * given.core_hour:,.2f})",
        f"**{hours:,.0f}**",
        f"**{hours * machine.dollars:,.0f}**",
        f"**{disk:,.0f}**, ${disk * given.disk_month:,.0f} a month | |",
    )


@cache
def meanings() -> dict[str, str]:
    """Return the sentence under each field of `Assumptions`."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    (body,) = (n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Assumptions")
    return {
        ast.unparse(one.target): ast.literal_eval(following.value)
        for one, following in pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(following, ast.Expr)
    }


def option(name: str) -> str:
    """Return the option of a field."""
    return f"--{name.replace('_', '-')}"


def rate_table(given: Assumptions) -> Iterator[str]:
    """Yield the lines of all rates, with the option of each."""
    yield "| option | value | what it is, and where it is from |"
    yield "|---|--:|---|"
    for name, meaning in meanings().items():
        if name != "pairs":
            yield row(f"`{option(name)}`", f"{getattr(given, name):,g}", meaning)


def tables(given: Assumptions, *, pairs: tuple[float, ...] = (1e8, 1e9)) -> str:
    """All tables, as docs/scaling.md holds them; of data and models for the last of `pairs`."""
    sizes = [replace(given, pairs=n_pairs) for n_pairs in pairs]
    blocks = [stage_table(size, machine) for size in sizes for machine in machines(size)]
    blocks += [table(sizes[-1]) for table in (data_table, training_table, rate_table)]
    return "\n\n".join("\n".join(block) for block in blocks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=float, nargs="+", default=[1e8, 1e9], help="default: 1e8 1e9")
    for field in fields(Assumptions):
        if field.name != "pairs":
            meaning = meanings()[field.name].replace("%", "%%")
            parser.add_argument(
                option(field.name), type=float, default=field.default, help=f"{meaning} Default: %(default)s."
            )
    options = vars(parser.parse_args())
    pairs = tuple(options.pop("pairs"))
    print(tables(Assumptions(**options), pairs=pairs))


if __name__ == "__main__":
    main()
