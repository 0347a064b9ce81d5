"""Two trees of Dragoman in turn on one machine: training, decoding, serving. Did a change cost speed?

    git worktree add ../before COMMIT
    python benchmarks/before_after.py ../before RUN

Training: updates of the default preset on Multi30k from $DRAGOMAN_DATA by `dragoman train`, tokens a second
of its log lines without the first. Decoding: sentences of the run's first test set with the run's own beam by
`Translator.translate`, all in one call, and 60 of them in a call each: sentences a second of processor time.
Serving: one sentence a request by `dragoman serve`, requests a second of --clients clients, and the median
latency of one. Both trees run in turn, in processes of their own, and the order changes from round to round;
the table has medians, and the median of the ratios of the rounds. Train RUN with the older tree, so that both
can load it.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from dragoman.runs import Run
from measuring import PeerProcess, Result, Table, in_turn, parser_of
from serve_load import Phase, closed_loop, quantile
from service import request_bytes, running
from texts import test_set

PARTS = ("training", "decoding", "serving")

DECODER = """
import sys, time
from dragoman.predict.translator import Translator
texts = open(sys.argv[2], encoding="utf-8").read().split("\\n")
translator = Translator.load(sys.argv[1])
translator.translate(texts)
print("ready", flush=True)
for line in sys.stdin:
    calls = [texts] if line == "together\\n" else [[text] for text in texts[:60]]
    begun = time.thread_time()
    for call in calls:
        translator.translate(call)
    print(sum(map(len, calls)) / (time.thread_time() - begun), flush=True)
"""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("before", type=Path, help="the root of the other tree")
    parser.add_argument("run", type=Path)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be repeated; default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=40, help="of each training")
    parser.add_argument("--limit", type=int, default=500, help="sentences of the test set")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1, help="processes of each service")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement of a service")
    options = parser.parse_args()
    trees = {"before": options.before.resolve(), "after": Path(__file__).resolve().parents[1]}
    parts = options.only or PARTS
    sources, _, _ = test_set(options.run, options.limit)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        result, folder = stack.enter_context(Result("before_after", options)), Path(name)
        columns = {"": "", "before": ",.1f", "after": ",.1f", "after / before, median": ".3f"}
        table = result.table(columns | {"least": ".3f", "most": ".3f"})
        measure = partial(compare, table, options.rounds)
        if "training" in parts:
            measure("training, tokens/s", lambda tree: train(trees[tree], folder, options.updates))
        if "decoding" in parts:
            texts = folder / "texts"
            texts.write_text("\n".join(sources), encoding="utf-8")
            decoders = {tree: decoder(tree, root, options.run, texts) for tree, root in trees.items()}
            for call in ("together", "one by one"):
                measure(f"decoding {call}, sentences/s", partial(ask, decoders, call))
            for peer in decoders.values():
                peer.end()
        if "serving" not in parts:
            return
        services, workers = {}, ["--workers", str(options.workers)]
        for tree, root in trees.items():
            with path_of(root):
                services[tree] = stack.enter_context(running(str(options.run), *workers))
        requests = [request_bytes("/v1/translate", {"text": source, "split": False}) for source in sources]

        def load(tree: str, n_clients: int) -> Phase:
            phase = Phase(tree)
            service, seconds = services[tree], options.seconds
            asyncio.run(closed_loop(service, requests, phase, n_clients=n_clients, seconds=seconds))
            if phase.n_errors:
                raise SystemExit(f"{tree}: {phase.n_errors} requests failed")
            return phase

        load("before", options.clients), load("after", options.clients)  # warm up
        many = f"serving {options.clients} clients, requests/s"
        measure(many, lambda tree: load(tree, options.clients).throughput)
        measure("serving one client, ms", lambda tree: 1000 * quantile(load(tree, 1).latencies, 0.5))


def compare(table: Table, n_rounds: int, what: str, measure: Callable[[str], float]) -> None:
    """Measure both trees in turn; add their medians and the ratios of the rounds to the table."""
    found = in_turn({tree: partial(measure, tree) for tree in ("before", "after")}, n_rounds, warm_up=0)
    ratios = [after / before for before, after in zip(*found.values(), strict=True)]
    medians = map(statistics.median, (*found.values(), ratios))
    table.add(what, *medians, min(ratios), max(ratios))


def ask(decoders: Mapping[str, PeerProcess], call: str, tree: str) -> float:
    """Return the sentences a second of the tree's decoder, asked for them `call`."""
    return float(decoders[tree].ask(call))


def path_of(root: Path) -> AbstractContextManager[Any]:
    """Let processes that are started in this block import the package of the tree `root`."""
    return mock.patch.dict(os.environ, PYTHONPATH=str(root / "src"))


def train(root: Path, folder: Path, n_updates: int) -> float:
    """Train for `n_updates` updates; return the median of tokens a second of the log lines but the first."""
    data = Path(os.environ["DRAGOMAN_DATA"]) / "multi30k"
    with tempfile.TemporaryDirectory(dir=folder) as out:
        settings: Sequence[str] = (
            f"training.max_steps={n_updates}", "training.log_every=5", f"training.valid_every={n_updates}",
            "seed=1",
        )  # fmt: skip
        command = [
            sys.executable, "-m", "dragoman", "train", "--preset", "default", "--out", out,
            "--src", str(data / "train.en.gz"), "--tgt", str(data / "train.de.gz"),
            "--valid-src", str(data / "val.en.gz"), "--valid-tgt", str(data / "val.de.gz"),
            *(word for setting in settings for word in ("--set", setting)),
        ]  # fmt: skip
        with path_of(root):
            subprocess.run(command, check=True, capture_output=True)
        lines = Path(out, "history.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return statistics.median([r["tokens_per_second"] for r in records if r["kind"] == "train"][1:])


def decoder(name: str, root: Path, run: Path, texts: Path) -> PeerProcess:
    """Return a process of the tree `root` that has translated `texts` once and is ready to do so again."""
    peer = PeerProcess(name, [sys.executable, "-c", DECODER, str(Run.open(run).path), str(texts)], 1)
    with path_of(root):
        peer.start()
    return peer


if __name__ == "__main__":
    main()
