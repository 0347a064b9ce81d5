"""Large corpora and files: doctor, tokens, a training's start, translating, scoring; time and memory.

    DRAGOMAN_DATA=... python benchmarks/scale.py doctor [--pairs 1000000] [--seed 1] [--folder DIR]
    DRAGOMAN_DATA=... python benchmarks/scale.py tokens [--pairs 1000000] [--shard-pairs N] [--folder DIR]
    DRAGOMAN_DATA=... python benchmarks/scale.py training [--pairs 1000000] [--kills 10 60 120] [--run DIR]
    python benchmarks/scale.py translating [--lines 20000 100000] [--workers 1] [--folder DIR]
    python benchmarks/scale.py scoring [--lines 20000 100000] [--workers 1] [--folder DIR]

The corpus is made in DIR, unless it is there: two random pairs of multi30k, tatoeba-en-de and iwslt17 are
joined to one, and faults are planted block by block as in doctor.py, each kind into about 1 % of the pairs,
with repetitions and near repetitions of pairs from earlier blocks. `doctor` runs `data check --write-clean`
with every planted kind dropped, and counts what dropped.jsonl says of pairs with that fault planted (found),
and of pairs with nothing planted (false alarms). Each step is a process of its own; peak resident memory is
that of all its processes together, looked at ten times a second, mapped files included.

`tokens` learns a vocabulary, makes a store, opens it again, plans an epoch and makes its batches, with
`--shard-pairs` also in shards of N pairs; it plans the largest shard there is, of random lengths, and encodes
the same lines with the `tokenizers` library alone.
`training` prepares a training and makes two updates. Its process is killed with SIGKILL when it has worked
for each number of seconds of `--kills`; the next line says after how many seconds the one that continues is
further than the one that was killed: the vocabulary is there, or more pairs are in the store. Then it pauses
after an update, and is started once more with all at hand. `--run` starts one that was paused before.

`translating` and `scoring` run a file of each number of lines through the smallest model there can be, as
`translate --out` and `score-model --out` do. The largest one is done a second time, killed with SIGKILL when
half of its lines are done, continued, and compared byte by byte. `scoring` ends with `data filter` by these
scores.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from doctor import SOURCES, Planter, foreign_texts, plant_all
from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import DROPPED
from dragoman.data.records import Pair
from measuring import Result, Table, parser_of

if TYPE_CHECKING:  # each step imports what it needs, and pays for it
    from dragoman.data.store import TokenStore

BLOCK = 50_000
N_HELD_OUT = 2000
N_REMEMBERED = 20_000
N_VALID = 100
LANGS = "en", "de"
SMALL = [
    option
    for setting in ("model.d_model=256", "model.d_ff=1024", "model.n_heads=4", "training.batch_tokens=2048")
    for option in ("--set", setting)
]
"""A model whose updates are short, for what is measured is all that comes before them."""
PLANTED = "planted.jsonl"
PAUSED = 75
"""Exit code of a training whose time is up."""
STEP = {"step": "", "processor seconds": ".0f", "wall seconds": ".1f", "peak MiB": ",.0f", "": ""}
CHUNK_LINES = 4096
WORDS = ("red", "blue", "big", "small", "cat", "dog", "bird", "house", "tree", "river")
MIB = 2**20
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts the most memory that a process had in use."""


def make_corpus(folder: Path, n_pairs: int, seed: int) -> None:
    """Write train.en, train.de, test.en, test.de and, at last, the lines with planted faults."""
    sources = [source for source in SOURCES if source.tgt_lang == "de"]
    base = [pair for source in sources for pair in source.read(source.train)]
    held_out = SOURCES[0].read("val") + SOURCES[1].read("val")
    texts = {
        "zh": [pair.tgt for pair in SOURCES[3].read("val")],
        "pl": [pair.tgt for pair in SOURCES[2].read("val")],
    }
    foreign = foreign_texts(SOURCES[1], texts)
    rng = random.Random(seed)
    held_out = rng.sample(held_out, min(N_HELD_OUT, len(held_out)))
    earlier: list[Pair] = []
    unfinished = folder / f"{PLANTED}.part"
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"train.{lang}").open("w", encoding="utf-8")) for lang in LANGS
        ]
        planted = stack.enter_context(unfinished.open("w", encoding="utf-8"))
        for start in range(0, n_pairs, BLOCK):
            pairs = [_joined(*rng.choices(base, k=2)) for _ in range(min(BLOCK, n_pairs - start))]
            planter = Planter(pairs, held_out, foreign, rng.randrange(2**32))
            plant_all(planter)
            _plant_repetitions(planter, earlier)
            for i, file in enumerate(files):
                file.writelines(f"{pair[i]}\n" for pair in planter.pairs)
            changed = {line for lines in planter.planted.values() for line in lines}
            for name, lines in planter.planted.items():
                numbers = [start + line + 1 for line in sorted(lines)]
                planted.write(json.dumps({"fault": name, "lines": numbers}) + "\n")
            left = [pair for i, pair in enumerate(pairs) if i not in changed]
            earlier = rng.sample(left, min(len(left), N_REMEMBERED)) + earlier
            earlier = rng.sample(earlier, min(len(earlier), N_REMEMBERED))
            print(f"{min(start + BLOCK, n_pairs):,} pairs made", file=sys.stderr)
    for i, lang in enumerate(LANGS):
        (folder / f"test.{lang}").write_text("".join(f"{p[i]}\n" for p in held_out), encoding="utf-8")
    unfinished.replace(folder / PLANTED)


def _joined(a: Pair, b: Pair) -> Pair:
    return Pair(f"{a.src} {b.src}", f"{a.tgt} {b.tgt}")


def _plant_repetitions(planter: Planter, earlier: Sequence[Pair]) -> None:
    """Plant pairs of earlier blocks, as they were and with other case and punctuation."""
    if earlier:
        rng = planter.rng
        planter.plant("duplicate (of an earlier block)", lambda *_: rng.choice(earlier))
        planter.plant("duplicate-near", lambda *_: _nearly(rng.choice(earlier)))


def _nearly(pair: Pair) -> Pair:
    return Pair(f"{pair.src.upper()} !", pair.tgt.replace(",", ";").lower())


class Step(NamedTuple):
    """What a process took, and what it printed."""

    seconds: float
    cpu_seconds: float
    mib: float
    output: str


def measured(command: Sequence[str], folder: Path, *, ends: int = 0) -> Step:
    """Run Python with these arguments in `folder`, until it `ends` with this exit code."""
    started = time.perf_counter()
    unit = 2**20 if sys.platform == "darwin" else 2**10
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=output)
        mib = 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            mib = max(mib, resident_mib(process.pid))
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != ends:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
        output.seek(0)
        cpu_seconds = usage.ru_utime + usage.ru_stime
        mib = max(mib, usage.ru_maxrss / unit)
        return Step(time.perf_counter() - started, cpu_seconds, mib, output.read())


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process and those that it started; 0 where it has ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) / 2**20
    return 0.0


def add(table: Table, name: str, step: Step, words: str) -> None:
    table.add(name, step.cpu_seconds, step.seconds, step.mib, words)


def run_doctor(result: Result, folder: Path, options: argparse.Namespace) -> None:
    """Check and clean the corpus in `folder`, and print what was found."""
    n_pairs, planted = corpus_in(folder, options), dict[str, list[int]]()
    with (folder / PLANTED).open(encoding="utf-8") as file:
        for record in map(json.loads, file):
            planted.setdefault(record["fault"], []).extend(record["lines"])
    found: dict[str, set[int]] = {name.split(" ")[0]: set() for name in sorted(planted)}
    files = ["train.en", "train.de", "--test", "test.en,test.de"]
    check = ["-m", "dragoman", "data", "check", *files, "--examples", "0", "--json"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        drop = [option for kind in found for option in ("--drop", kind)]
        step = measured([*check, "--write-clean", f"{name}/clean", *drop], folder)
        with Path(name, "clean", DROPPED).open(encoding="utf-8") as file:
            for record in map(json.loads, file):
                for kind in record["reasons"]:
                    found.setdefault(kind, set()).add(record["number"])
    columns = {"pairs": ",", "processor seconds": ".0f", "pairs a processor second": ",.0f"}
    table = result.table(columns | {"wall seconds": ".0f", "peak MiB": ",.0f"}, "speed")
    table.add(n_pairs, step.cpu_seconds, n_pairs / step.cpu_seconds, step.seconds, step.mib)
    columns = {"fault": "", "planted": ",", "found": ",", "missed": ",", "recall": ".1%"}
    table = result.table(columns | {"false alarms of the kind": ","}, "faults")
    changed = {line for lines in planted.values() for line in lines}
    for name, lines in planted.items():
        kind = name.split(" ")[0]
        n_found, n_alarms = len(found[kind].intersection(lines)), len(found[kind] - changed)
        recall = n_found / len(lines) if lines else None
        table.add(name, len(lines), n_found, len(lines) - n_found, recall, n_alarms)


def corpus_in(folder: Path, options: argparse.Namespace) -> int:
    """Make the corpus, unless it is in `folder`; return the number of its pairs."""
    if not (folder / PLANTED).exists():
        make_corpus(folder, options.pairs, options.seed)
    with (folder / "train.en").open("rb") as file:
        return sum(1 for _ in file)


def run_tokens(result: Result, folder: Path, options: argparse.Namespace) -> None:
    """Learn a vocabulary, make a store and an epoch, and print what each took."""
    result.figure("pairs", corpus_in(folder, options), ",")
    table, sizes = result.table(STEP), [0, *([options.shard_pairs] if options.shard_pairs else [])]
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        stores = [(f"{name}{f', {n:,} pairs a shard' * bool(n)}", name, f"{cache}/{n}", str(n))
                  for n in sizes for name in ("store", "reopen", "epoch")]  # fmt: skip
        for title, name, *arguments in (
            ("vocabulary",) * 2,
            *stores,
            ("full shard",) * 2,
            ("tokenizers alone",) * 2,
        ):
            step = measured([__file__, "--step", name, str(folder), *arguments], folder)
            add(table, title, step, step.output.strip())


def corpus_of(folder: str) -> Any:
    """Return the corpus in `folder`."""
    return open_corpus([f"{folder}/train.{lang}" for lang in LANGS], src_lang=LANGS[0], tgt_lang=LANGS[1])


def store_of(folder: str, cache: str, shard_pairs: str) -> TokenStore:
    """Make the store of a corpus in `cache`, or open it; of the usual shards where `shard_pairs` is "0"."""
    from dragoman.data.store import SHARD_PAIRS, TokenStore
    from dragoman.text.tokenizer import TokenizerPair

    pair, size = TokenizerPair.load(Path(folder) / "tokenizer"), int(shard_pairs) or SHARD_PAIRS
    return TokenStore.prepare(corpus_of(folder), pair, max_length=10_000, cache=Path(cache), shard_pairs=size)


def learn_vocabulary(folder: str) -> str:
    """Learn the vocabulary; say in words what came of it, as all steps do."""
    from dragoman.config import TokenizerConfig
    from dragoman.text.tokenizer import TokenizerPair

    pair = TokenizerPair.train(corpus_of(folder).pairs(), TokenizerConfig())
    pair.save(Path(folder) / "tokenizer")
    return f"{pair.src.vocab_size:,} tokens"


def make_store(folder: str, cache: str, shard_pairs: str) -> str:
    begun = time.process_time()
    store = store_of(folder, cache, shard_pairs)
    size = sum(file.stat().st_size for file in Path(cache).rglob("*.*"))
    return f"{rate(store.n_src_tokens + store.n_tgt_tokens, begun)}, {size / MIB:.0f} MiB on disk"


def rate(n_tokens: int, begun: float) -> str:
    speed = n_tokens / (time.process_time() - begun)
    return f"{speed / 1e6:.2f} M tokens a processor second ({n_tokens / 1e6:.1f} M)"


def make_epoch(folder: str, cache: str, shard_pairs: str) -> str:
    """Plan an epoch and make all its batches."""
    from dragoman.data.batching import make_batch, plan_epoch

    store = store_of(folder, cache, shard_pairs)
    before, begun = peak_mib(), time.perf_counter()
    planned = plan_epoch(store, batch_tokens=4096, seed=1, epoch=0)
    n_batches, seconds, more = len(planned), time.perf_counter() - begun, peak_mib() - before
    begun = time.perf_counter()
    for indices in planned:
        make_batch(store, indices)
    each = 1000 * (time.perf_counter() - begun) / n_batches
    return f"plan {seconds:.1f} s, {more:.0f} MiB more than before; {n_batches:,} batches of {each:.2f} ms"


def peak_mib() -> float:
    """Return the most memory that this process has had in use until now, mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT / MIB


def plan_full_shard(folder: str) -> str:
    """Plan a shard of the usual size, of about 27 tokens a sentence, each as long as its translation."""
    import numpy as np

    from dragoman.data.batching import cut_by_tokens
    from dragoman.data.store import SHARD_PAIRS, Side

    rng = np.random.default_rng(1)
    side = Side(np.empty(0), np.concatenate([[0], np.cumsum(rng.poisson(26, size=SHARD_PAIRS) + 1)]))
    before, begun = peak_mib(), time.perf_counter()
    batches = cut_by_tokens(side.lengths, side.lengths, rng, batch_tokens=25_000)
    seconds = time.perf_counter() - begun
    return f"{SHARD_PAIRS:,} pairs, {len(batches):,} batches in {seconds:.1f} s, {before:.0f} MiB before"


def encode_alone(folder: str) -> str:
    """Encode both sides with the `tokenizers` library alone, as it reads lists of lines."""
    from tokenizers import Tokenizer

    begun, n_tokens = time.process_time(), 0
    (path,) = (Path(folder) / "tokenizer").glob("*.json")
    tokenizer = Tokenizer.from_file(str(path))
    for lang in LANGS:
        with Path(folder, f"train.{lang}").open(encoding="utf-8") as file:
            while lines := file.readlines(4_000_000):
                n_tokens += sum(map(len, tokenizer.encode_batch_fast([line.rstrip("\n") for line in lines])))
    return rate(n_tokens, begun)


def run_training(result: Result, folder: Path, options: argparse.Namespace) -> None:
    """Prepare a training that is killed on the way, make updates, and print what each took.

    With a run that is prepared already, only what comes after that.
    """
    n_pairs, run = corpus_in(folder, options), options.run
    result.figure("pairs", n_pairs, ",")
    for lang in LANGS:
        with (folder / f"test.{lang}").open(encoding="utf-8") as file:
            (folder / f"valid.{lang}").write_text("".join(islice(file, N_VALID)), encoding="utf-8")
    steps = ["a warm start, and an update"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        if run is None:
            run = Path(name) / "run"
            kill_and_continue(result, folder, run, n_pairs, options.kills)
            steps.insert(0, "the rest, and an update")
        table = result.table(STEP, "steps")
        for what in steps:
            step = measured([*training(folder, run), "--max-hours", "1e-9"], folder, ends=PAUSED)
            add(table, what, step, "a checkpoint")


def training(folder: Path, run: Path) -> list[str]:
    """Return the command that trains on the corpus in `folder`."""
    files = [
        f"--{split}{side}={folder}/{name}.{lang}"
        for split, name in (("", "train"), ("valid-", "valid"))
        for side, lang in zip(("src", "tgt"), LANGS, strict=True)
    ]
    return ["-m", "dragoman", "train", *files, *SMALL, "--no-check", "--out", str(run)]


def kill_and_continue(result: Result, folder: Path, run: Path, n_pairs: int, kills: Sequence[float]) -> None:
    """Prepare a training, killed after each number of seconds; print when the next one was further."""
    table = result.table(
        {"killed after s of work": "g", "prepared by then": "", "s until there is more": ".1f"}, "kills"
    )
    killed: tuple[float, Prepared] | None = None
    for seconds in (*kills, 0.0):
        command = [sys.executable, *training(folder, run)]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as process:
            began = time.perf_counter()
            if killed is not None:
                while prepared(run) <= killed[1] and process.poll() is None:
                    time.sleep(0.2)
                table.add(killed[0], killed[1].describe(), time.perf_counter() - began)
            while time.perf_counter() < began + seconds and prepared(run).n_pairs < n_pairs:
                time.sleep(0.1)
            process.kill()
        killed = seconds, prepared(run)
        if killed[1].n_pairs == n_pairs:
            table.add(seconds, "all", None)
            return


class Prepared(NamedTuple):
    """How far a preparation is."""

    has_vocabulary: bool
    n_pairs: int

    def describe(self) -> str:
        return f"{self.n_pairs:,} pairs" if self.has_vocabulary else "no vocabulary yet"


def prepared(run: Path) -> Prepared:
    """Look how far the preparation of a run is."""
    n_pairs = 0
    for path in (run / "cache" / "train").glob("*/*.json"):
        with suppress(OSError, ValueError):  # it is being replaced
            record = json.loads(path.read_text(encoding="utf-8"))
            if path.parent.suffix != ".partial":
                n_pairs += record["n_pairs"] + sum(record["skipped"].values())
    return Prepared((run / "tokenizer").exists(), n_pairs)


def make_tiny_run(folder: str) -> str:
    """Make a run with a tiny, untrained model, that may write two tokens."""
    from dragoman.config import parse_config
    from dragoman.tasks.training import train

    pairs = [f"{a} {b}\t{b} {a}\n" for a in WORDS for b in WORDS]
    Path(folder, "train.tsv").write_text("".join(pairs), encoding="utf-8")
    settings = {
        "name": "tiny",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": [f"{folder}/train.tsv"]},
        "tokenizer": {"vocab_size": 300},
        "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1},
        "training": {"max_steps": 1, "batch_tokens": 200, "valid_every": 1},
        "search": {"beam_size": 1, "max_length_factor": 0.01, "max_length_extra": 1},
    }
    return str(train(parse_config(settings), Path(folder) / "run"))


def sentence(i: int) -> str:
    """Return a sentence of 3 to 22 words, another one for another i."""
    return " ".join(WORDS[(i + k * k) % 10] for k in range(3 + i % 20))


def run_bulk(result: Result, folder: Path, options: argparse.Namespace) -> None:
    """Translate or score files of each size, the largest one also with a kill; print what each took."""
    n_workers, n_lines = options.workers, 0
    measured([__file__, "--step", "tiny run", str(folder)], folder)
    columns = {"lines": ",", "workers": "", "wall seconds": ".0f", "lines a second": ",.0f"}
    table = result.table(columns | {"peak MiB": ",.0f", "peak MiB of a worker": ",.0f"}, "sizes")
    for n_lines in sorted(options.lines):
        for side, lag in zip(LANGS, (0, 7), strict=True):
            with gzip.open(folder / f"in.{side}.gz", "wt", encoding="utf-8", compresslevel=1) as file:
                file.writelines(f"{sentence(i + lag)}\n" for i in range(n_lines))
        took = json.loads(
            measured(bulk_step(folder, options.what, "whole", n_lines, n_workers), folder).output
        )
        worker = took["worker"] if n_workers > 1 else None
        table.add(n_lines, n_workers, took["seconds"], n_lines / took["seconds"], took["own"], worker)
    command, journal, n_done = (
        bulk_step(folder, options.what, "killed", n_lines, n_workers),
        folder / "killed.gz.journal",
        0,
    )
    with subprocess.Popen([sys.executable, *command], cwd=folder, stdout=subprocess.PIPE) as process:
        while process.poll() is None and n_done < n_lines // 2:
            time.sleep(0.01)
            with suppress(FileNotFoundError):
                n_done = json.loads(journal.read_bytes())["n_lines"]
        process.kill()
    took = json.loads(measured(command, folder).output)
    is_equal = (folder / "killed.gz").read_bytes() == (folder / "whole.gz").read_bytes()
    print(f"\nThe output {'equals' if is_equal else 'DIFFERS FROM'} that without a kill.")
    result.figure("lines that were done when it was killed", took["lines"] - took["new"], ",")
    result.figure("seconds that the rest took", took["seconds"], ".0f")
    if options.what == "scoring":
        files = [f"in.{side}.gz" for side in LANGS]
        command = ["-m", "dragoman", "data", "filter", *files, "--by-score", "whole.gz", "--keep", "0.8"]
        step = measured([*command, "--out", "best"], folder)
        add(result.table(STEP, "filter"), "data filter --keep 0.8", step, f"{n_lines:,} pairs")


def bulk_step(folder: Path, work: str, out: str, n_lines: int, n_workers: int) -> list[str]:
    """Return the arguments of a process that translates or scores, or continues that."""
    chunk_lines = min(CHUNK_LINES, max(1, n_lines // 4))
    return [__file__, "--step", work, str(folder), f"{out}.gz", str(n_workers), str(chunk_lines)]


def translate_lines(folder: str, out: str, n_workers: str, chunk_lines: str) -> str:
    from dragoman.bulk.input import Input
    from dragoman.bulk.job import Job, ModelSpec

    home = Path(folder)
    return bulk(
        Job(ModelSpec(home / "run"), Input.of(f"{folder}/in.en.gz"), home / out), n_workers, chunk_lines
    )


def score_lines(folder: str, out: str, n_workers: str, chunk_lines: str) -> str:
    from dragoman.bulk.job import ModelSpec
    from dragoman.bulk.scoring import PairsInput, ScoringJob

    home, files = Path(folder), (f"{folder}/in.{side}.gz" for side in LANGS)
    pairs = PairsInput.of_files(*files, languages=LANGS)
    return bulk(ScoringJob(ModelSpec(home / "run"), pairs, home / out), n_workers, chunk_lines)


def bulk(job: Any, n_workers: str, chunk_lines: str) -> str:
    """Run a job in this process or its workers; return what that took as JSON."""
    from dragoman.bulk.running import translate_file

    begun = time.perf_counter()
    summary = translate_file(job, n_workers=int(n_workers), chunk_lines=int(chunk_lines))
    seconds = time.perf_counter() - begun
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * PEAK_UNIT / MIB
    took = {"seconds": seconds, "own": peak_mib(), "worker": worker}
    return json.dumps({**took, "lines": summary.n_lines, "new": summary.n_new})


STEPS: dict[str, Callable[..., str]] = {
    "vocabulary": learn_vocabulary, "store": make_store, "reopen": make_store, "epoch": make_epoch,
    "full shard": plan_full_shard, "tokenizers alone": encode_alone,
    "tiny run": make_tiny_run, "translating": translate_lines, "scoring": score_lines,
}  # fmt: skip
"""What is done in a process of its own; it prints in words, or as JSON, what came of it."""
MEASURES: dict[str, Callable[[Result, Path, argparse.Namespace], None]] = {
    "doctor": run_doctor, "tokens": run_tokens, "training": run_training, "translating": run_bulk,
    "scoring": run_bulk,
}  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["--step"]:
        print(STEPS[sys.argv[2]](*sys.argv[3:]))
        return
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard-pairs", type=int, help="tokens: of a second store")
    parser.add_argument("--kills", type=float, nargs="*", default=[10.0, 60.0, 120.0], help="seconds")
    parser.add_argument("--run", type=Path, help="training: one that was prepared, to be started again")
    parser.add_argument("--lines", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the corpus is, or is to be made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Result(f"scale_{options.what}", options) as result:
        folder = (options.folder or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            keeps_corpus = options.what in ("doctor", "tokens", "training")
            MEASURES[options.what](result, folder if keeps_corpus else Path(scratch), options)


if __name__ == "__main__":
    main()
