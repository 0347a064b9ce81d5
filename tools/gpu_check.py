"""Does a GPU do what the processor does? PASS or FAIL for every path, then tables of speed.

    PYTHONPATH=src python tools/gpu_check.py
    PYTHONPATH=src python tools/gpu_check.py --only "search static" "resume free" --json check.json
    PYTHONPATH=src python tools/gpu_check.py --device cpu --short

Works from a plain checkout, without network, on the embedded corpus. Each check is a process of its own with
a time limit, so that a crash or a hang of one does not stop the others. A check whose needs this machine does
not have is a SKIP. Exit code 1: a check failed, or there is no GPU. `--device cpu` runs the same checks on
the processor, each as far as it makes sense; `--short` makes them small, to try the checks themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import operator
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.request import Request, urlopen

import torch
from torch import distributed

from dragoman.cli.serve import PACKAGES
from dragoman.config import Config, parse_config
from dragoman.data import phrasebook
from dragoman.data.buckets import StaticBatches
from dragoman.errors import ConfigError, MissingExtraError, require
from dragoman.hardware import choose_device, find_device, has_bf16, matrix_ceiling
from dragoman.metrics.translation import bleu
from dragoman.model.kernels import choose_kernels
from dragoman.predict.alignment import align
from dragoman.predict.attention import attention_maps
from dragoman.predict.classifier import Classifier
from dragoman.predict.flow import searched
from dragoman.predict.results import Translation
from dragoman.predict.scoring import score_pairs
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.serving.batching import Batcher, Client, GoneError
from dragoman.tasks.training import train
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.training.checkpoints import newest_checkpoint
from dragoman.training.parallel.processes import Processes
from dragoman.training.parallel.sharding import shard
from dragoman.training.state import TrainPosition, TrainState, parameters
from dragoman.training.trainer import TrainingListener
from dragoman.training.updates.optimizer import make_optimizer
from dragoman.training.updates.updater import BatchShare, LossModule, SyncUpdater

ROOT = Path(__file__).resolve().parents[1]

MINUTES = 10
"""For all checks together; the tables come after them."""
EXACT, CLOSE, ROUGH = 1e-3, 1e-2, 5e-2
"""Relative differences of losses: the same arithmetic in another order; over more updates; in bf16."""
SAME = 0.97
"""Share of translations that must be those of the processor: rounding decides a tie in another way."""
CORPUS = {"train": 4000, "valid": 100, "test": 100}
"""Pairs of each split of the phrasebook that are used; a tenth of them with --short."""


class SkipError(Exception):
    """Something that a check needs is missing."""


@dataclass
class Finding:
    """Something that a check has found, and the limit that it is judged by."""

    what: str
    value: Any
    limit: str = ""
    ok: bool = True

    def __str__(self) -> str:
        value = f"{self.value:.3g}" if isinstance(self.value, float) else str(self.value)
        return f"    {' ' if self.ok else '!'} {self.what}: {value}" + f"  ({self.limit})" * bool(self.limit)


@dataclass
class Outcome:
    """Outcome of a check."""

    name: str
    status: str = "PASS"
    seconds: float = 0.0
    reason: str = ""
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.status}  {self.name} ({self.seconds:.0f} s)" + f": {self.reason}" * bool(self.reason)
        return "\n".join([head, *map(str, self.findings)])


@dataclass
class Place:
    """Device and folder of a check, with its findings so far."""

    folder: Path
    device: str
    short: bool
    findings: list[Finding] = field(default_factory=list)

    def note(self, what: str, value: Any, limit: str = "", *, ok: bool = True) -> None:
        self.findings.append(Finding(what, value, limit, ok))

    def at_most(self, what: str, value: float, limit: float) -> None:
        self.note(what, value, f"at most {limit:g}", ok=value <= limit)

    def at_least(self, what: str, value: float, limit: float) -> None:
        self.note(what, value, f"at least {limit:g}", ok=value >= limit)

    def equal(self, what: str, value: Any, expected: Any) -> None:
        self.note(what, value, f"expected {expected}", ok=value == expected)

    def alike(self, what: str, ours: Sequence[Any], theirs: Sequence[Any], limit: float = SAME) -> None:
        share = sum(map(operator.eq, ours, theirs)) / max(len(ours), len(theirs))
        self.at_least(f"{what}: share that is the processor's", share, limit)

    def trained(self, name: str, config: Config) -> Path:
        """Train in a folder of that name for this check alone."""
        return train(config, self.work / name)

    def apart(self, run: Path, other: Path, limit: float = EXACT, what: str = "losses are apart") -> None:
        self.at_most(what, farthest(run, other), limit)

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def reference(self) -> Path:
        """Folder of the processor's models: translator/ and classifier/."""
        return self.folder / "reference"

    @cached_property
    def work(self) -> Path:
        """A folder for this check alone."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def corpus(self, split: str) -> Path:
        return self.folder / f"{split}.tsv"

    def test(self, n: int = 1000) -> tuple[list[str], list[str]]:
        """The first `n` sources of the test, and their translations."""
        lines = self.corpus("test").read_text(encoding="utf-8").splitlines()[:n]
        sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
        return list(sources), list(targets)

    def updates(self, n: int) -> str:
        """Return the setting for this number of updates, or for a few with --short."""
        return f"training.max_steps={6 if self.short else n}"


CHECKS: dict[str, tuple[Callable[[Place], None], float]] = {}
"""By name: a path to be checked, and the seconds that it may take."""


def check(name: str, *, seconds: float = 90.0) -> Callable[[Callable[[Place], None]], None]:
    """Make a function the check of this name."""

    def register(function: Callable[[Place], None]) -> None:
        CHECKS[name] = function, seconds

    return register


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def killed_on_the_way(program: Sequence[str], ready: Callable[[], object]) -> bool:
    """Start a program and kill it when it is `ready`; whether it was still at work."""
    process = subprocess.Popen(program)
    while process.poll() is None and not ready():
        time.sleep(0.01)
    was_alive = process.poll() is None
    process.kill()
    process.wait()
    return was_alive


# Trainings


def settings(
    place: Place, *overrides: str, device: str = "", classifier: bool = False, mixed: bool = False
) -> Config:
    """Return a small model without dropout, in fp32; `device` goes before the check's.

    `mixed`: two corpora in place of one.
    """
    recipe: dict[str, Any] = {"name": "gpu-check", "tokenizer": {"vocab_size": 1000}}
    shape = {"d_model": 64, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "dropout": 0.0}
    if classifier:
        data: dict[str, Any] = {name: [f"phrasebook:reviews-{name}"] for name in ("train", "valid")}
        recipe |= {"task": "classification", "model": {**shape, "ngrams": 2}}
    else:
        data = {name: [str(place.corpus(name))] for name in ("train", "valid")}
        if mixed:
            few = {"name": "few", "files": data["valid"], "langs": ["en", "de"], "weight": 5.0}
            data = {"corpora": [few, {**few, "name": "many", "files": data["train"], "valid": data["valid"]}]}
        data |= {"src_lang": "en", "tgt_lang": "de"}
        recipe |= {"model": {**shape, "n_decoder_layers": 2}}
    recipe["data"] = data
    recipe["training"] = {
        "device": device or place.device, "precision": "fp32", "batch_tokens": 1024, "learning_rate": 3e-3,
        "warmup_steps": 20, "log_every": 1, "valid_every": 1000, "average": "none",
    }  # fmt: skip
    return parse_config(recipe, overrides=overrides)


def losses(run: Path) -> dict[int, float]:
    return {r["step"]: r["train_loss"] for r in Run.open(run).history() if r["kind"] == "train"}


def farthest(run: Path, other: Path) -> float:
    """Return the largest relative difference of the losses of two trainings.

    Inf: they are of other updates.
    """
    ours, theirs = losses(run), losses(other)
    if not ours or ours.keys() != theirs.keys():
        return float("inf")
    return max(abs(ours[step] / theirs[step] - 1) for step in ours)


@check("reference", seconds=240)
def make_reference(place: Place) -> None:
    """The corpus, and models that the processor has trained, for all other checks."""
    for split, n_pairs in CORPUS.items():
        pairs = list(phrasebook.pairs(split, "en", "de"))[: n_pairs // (10 if place.short else 1)]
        place.corpus(split).write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    for name in ("translator", "classifier"):
        config = settings(place, place.updates(400), device="cpu", classifier=name == "classifier")
        report = Run.open(train(config, place.reference / name)).read_json("report.json")
        place.note(f"score of the {name}", report.get("valid_bleu", report.get("valid_accuracy")))


FREE, STATIC = "training.steps=free", "training.steps=static"
TRAININGS: dict[str, tuple[tuple[str, ...], float]] = {
    "free": ((FREE,), EXACT),
    "static": ((STATIC,), EXACT),
    "several corpora": ((STATIC,), EXACT),
    "static, seldom read": ((STATIC, "training.log_every=4", "training.update_freq=2"), EXACT),
    "plain kernels": ((STATIC, "training.kernels=plain"), EXACT),
    "r-drop": (("training.consistency=1.0",), EXACT),
    "muon": ((FREE, "training.optimizer=muon"), CLOSE),  # it multiplies in bf16
    "static muon": ((STATIC, "training.optimizer=muon"), CLOSE),
    "bf16": ((STATIC, "training.precision=bf16"), ROUGH),
    "fp16": (("training.precision=fp16",), ROUGH),
    "classifier": (("training.max_steps=20",), EXACT),  # later, rounding errors grow, on a CPU too
}
"""Settings of trainings, and how far their losses may be from those of the processor in fp32."""


def training(name: str) -> Callable[[Place], None]:
    def compare(place: Place) -> None:
        if name == "fp16" and not place.on_gpu:
            raise SkipError("for GPUs")
        overrides, limit = TRAININGS[name]
        kind, all_ = name == "classifier", (place.updates(40), *overrides)
        configured = partial(settings, place, *all_, classifier=kind, mixed=name == "several corpora")
        there = place.trained("there", configured())
        here = place.trained("here", configured("training.precision=fp32", device="cpu"))
        ours, theirs = ([*losses(run).values()] for run in (there, here))
        place.note("first losses are apart", abs(ours[0] / theirs[0] - 1))
        place.apart(there, here, limit)
        if not kind:  # a classifier's loss is still flat after 20 updates
            place.at_least("fall of the loss, nats", ours[0] - ours[-1], 0.0)

    return compare


for _name in TRAININGS:
    check(f"train {_name}")(training(_name))


@check("train with dropout")
def train_with_dropout(place: Place) -> None:
    """Recorded steps draw other numbers each time, as steps that are not recorded do."""
    ends = []
    for steps in (FREE, STATIC):
        run = place.trained(steps, settings(place, place.updates(80), steps, "model.dropout=0.3"))
        ends.append(sum(list(losses(run).values())[-10:]))
    place.at_most("last losses, free and static, are apart", abs(ends[1] / ends[0] - 1), 0.15)


def resuming(*overrides: str) -> Callable[[Place], None]:
    def resume(place: Place) -> None:
        """A training that is killed with -9 in its middle continues where it was."""
        every = f"training.valid_every={2 if place.short else 20}"
        config = settings(place, place.updates(300), every, "model.dropout=0.1", *overrides)
        cut = Run.create(place.work / "cut", config)
        again = command("train", cut.config_path, "--out", cut.path)
        alive = killed_on_the_way(again, lambda: newest_checkpoint(cut))
        place.equal("it was killed before its end", alive, True)
        newest = newest_checkpoint(cut)
        place.note("it continues from", newest.name if newest else "its beginning")
        subprocess.run(again, check=True)
        whole = place.trained("whole", config)
        ours, theirs = losses(cut.path), losses(whole)
        same = sum(ours.get(step) == loss for step, loss in theirs.items())
        place.note("losses that are equal to the bit", f"{same} of {len(theirs)}")
        place.apart(cut.path, whole, CLOSE, "losses are apart from those of one that ran through")

    return resume


check("resume free", seconds=150)(resuming(FREE))
check("resume static", seconds=150)(resuming(STATIC, "training.ema_decay=0.9"))
check("resume muon", seconds=150)(resuming("training.optimizer=muon"))


class Stopping(TrainingListener):
    """Interrupts a training after some updates."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, position: TrainPosition) -> None:
        if position.step == self.step:
            signal.raise_signal(signal.SIGINT)


@check("resume on another device", seconds=150)
def resume_elsewhere(place: Place) -> None:
    """A run that was begun on a GPU is continued without one, and the other way round."""
    for first, second in ((place.device, "cpu"), ("cpu", place.device)):
        begun, continued = (settings(place, place.updates(20), STATIC, device=d) for d in (first, second))
        path = place.work / f"on-{first.replace(':', '-')}-first"
        with suppress(KeyboardInterrupt):
            train(begun, path, listener=Stopping(3))
        text = (path / "config.toml").read_text(encoding="utf-8")
        changed = text.replace(f'device = "{first}"', f'device = "{second}"')
        (path / "config.toml").write_text(changed, encoding="utf-8")
        train(continued, path)
        alone = train(begun, path.with_suffix(".alone"))
        place.apart(path, alone, what=f"losses, first on {first}, then on {second}, are apart")


@check("resident corpus")
def resident_corpus(place: Place) -> None:
    """Batches of a corpus that lies on the device hold what those from its files hold."""
    config, device, cpu = settings(place, STATIC), choose_device(place.device), torch.device("cpu")
    assert config.task == "translation"
    run = Run.create(place.work / "run", config)
    task = TranslationObjective(config, run, device, TrainingListener(), static=True)
    plan = task.plan(0)
    assert task.static_batches is not None
    buckets = task.static_batches.buckets
    there, here = (StaticBatches(task.epoch_store, buckets, d, max_bytes=1e12) for d in (device, cpu))
    place.equal("it lies on the device", there.on_device, device.type != "cpu")
    ours, theirs = ([[ids.tolist() for ids in make(i)[:3]] for i in plan[:20]] for make in (there, here))
    place.alike("batches", ours, theirs, 1.0)


@check("sharding in one process")
def sharding(place: Place) -> None:
    """FSDP2 in a group of one process has the losses of whole weights, also behind a checkpoint."""
    config, device = settings(place, "training.sharding=full"), choose_device(place.device)
    assert config.task == "translation"
    backend = "nccl" if place.on_gpu else "gloo"
    address = f"file://{place.work / 'meeting'}"
    distributed.init_process_group(backend, init_method=address, rank=0, world_size=1)
    found = []
    for name in ("spread", "whole"):
        torch.manual_seed(1)
        run = Run.create(place.work / name, config)
        task = TranslationObjective(config, run, device, TrainingListener())
        module = LossModule(task)
        if name == "spread":
            shard(module, Processes(0, 1, device))
        task.model.to(device)
        average = {key: value.clone() for key, value in parameters(task.model).items()}
        optimizer = make_optimizer(task.model, config.training)
        state = TrainState(task.model, optimizer, average, TrainPosition())
        updater = SyncUpdater(task, state, config, module=module)
        for i, indices in enumerate(task.plan(0)[:12]):
            updater.update([BatchShare(task.batch(indices, device))])
            if i == 2:
                state.snapshot().save(run.path / "checkpoint")
                state.restore(run.path / "checkpoint")
        found.append(state.position.window_loss / state.position.window_items)
    distributed.destroy_process_group()
    place.at_most("mean losses are apart", abs(found[0] / found[1] - 1), EXACT)


@check("two processes", seconds=150)
def two_processes(place: Place) -> None:
    """Two processes, with whole and with spread weights, have the losses of one; one GPU is too few."""
    device = "cuda" if place.on_gpu else "cpu"
    one = place.trained("one", settings(place, place.updates(20), FREE, device=device))
    for spread in ("none", "full"):
        config = settings(place, place.updates(20), FREE, f"training.sharding={spread}", device=device)
        run = Run.create(place.work / spread, config)
        two = command("train", run.config_path, "--out", run.path, "--processes", 2)
        done = subprocess.run(two, capture_output=True, text=True, check=False)
        if place.on_gpu and torch.cuda.device_count() < 2:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            place.note("with one GPU", last)
            place.equal("it is refused in a line", (done.returncode, "GPU of its own" in last), (1, True))
            return
        place.equal(f"exit code, sharding = {spread}", done.returncode, 0)
        place.apart(run.path, one, what=f"losses are apart, sharding = {spread}")


@check("out of memory", seconds=120)
def out_of_memory(place: Place) -> None:
    """Batches that do not fit are read in pieces, and searches made in halves, with the same results."""
    if not place.on_gpu:
        raise SkipError("for GPUs")
    device = choose_device(place.device)
    total = torch.cuda.get_device_properties(device).total_memory

    def limit_memory(mebibytes: int) -> None:
        """Allow this process `mebibytes` beyond what it holds for good."""
        gc.collect()  # a finished training is a reference cycle
        torch.cuda.empty_cache()
        taken = torch.cuda.memory_reserved(device)  # workspaces of cuBLAS, one for each stream
        torch.cuda.set_per_process_memory_fraction((taken + (mebibytes << 20)) / total, device)

    big = ("training.batch_tokens=40000", "training.max_steps=4")
    kinds = {"free": FREE, "static": STATIC}
    wide = {name: place.trained(name, settings(place, *big, steps)) for name, steps in kinds.items()}
    sources, _ = place.test()
    many: dict[str, Any] = {"beam_size": 8, "batch_sentences": 512}
    expected = texts_of(loaded(place, place.device).translate(sources * 8, **many))
    limit_memory(200)
    for name, steps in kinds.items():
        narrow = place.trained(f"narrow-{name}", settings(place, *big, steps))
        position = max((narrow / "checkpoints").glob("step-*")) / "position.json"
        n_pieces = json.loads(position.read_text(encoding="utf-8"))["n_pieces"]
        place.at_least(f"pieces of a batch, {name}", n_pieces, 2)
        place.apart(narrow, wide[name], what=f"losses are apart, {name}")
    limit_memory(60)
    place.alike(
        "translations", texts_of(loaded(place, place.device).translate(sources * 8, **many)), expected
    )


# Searches


SEARCHES: dict[str, tuple[dict[str, Any], float]] = {
    "greedy": ({"beam_size": 1}, SAME),
    "beam": ({"beam_size": 4, "n_best": 4}, SAME),
    "one at a time": ({"beam_size": 4, "batch_sentences": 1}, SAME),
    "diverse": ({"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5}, 0.95),
    "sampling": ({"method": "sampling", "seed": 2}, 0.9),
    "top k": ({"method": "sampling", "seed": 2, "top_k": 10}, 0.9),
    "nucleus": ({"method": "sampling", "seed": 2, "top_p": 0.9}, 0.9),
    "no repeats": ({"beam_size": 3, "no_repeat_ngram": 2}, SAME),
    "coverage": ({"beam_size": 3, "coverage_penalty": 0.2}, SAME),
    "required": ({"beam_size": 3, "required": ["und"]}, 0.95),
    "prefixes": ({"beam_size": 3, "prefixes": "Der"}, SAME),
}
"""Settings of searches (of each sentence: what is required, and prefixes), and the share to be the same."""


def loaded(place: Place, device: str = "cpu", **options: Any) -> Translator:
    run = place.reference / "translator"
    return Translator.load(run, device=device, **{"precision": "fp32", **options})


def texts_of(translations: Sequence[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def on_processor(place: Place, texts: Sequence[str], **options: Any) -> list[str]:
    """Return the translations that the processor finds."""
    return texts_of(loaded(place).translate(texts, **options))


@contextmanager
def decoder(place: Place, *, static: bool) -> Iterator[None]:
    """Have the processor, too, use the decoder of a GPU, or the plain one."""
    if place.on_gpu:
        yield
        return
    with mock.patch("dragoman.predict.torch_engine.can_record", return_value=static):
        yield


def searching(*, static: bool, n_runs: int = 1) -> Callable[[Place], None]:
    def search(place: Place) -> None:
        """Every kind of search finds what the processor finds."""
        runs = [place.reference / "translator"] * n_runs
        texts, _ = place.test(6 if place.short else 60)
        here, there = (Translator.load(runs, device=d, precision="fp32") for d in ("cpu", place.device))
        for model in there.models:
            model.kernels = choose_kernels("fast" if static else "plain", model.device)
        there.engine = TorchEngine(*there.models)
        for name, (options, limit) in SEARCHES.items():
            each = {k: [v] * len(texts) for k, v in options.items() if k in ("required", "prefixes")}
            given = {"batch_sentences": 16, **options, **each}
            expected = here.translate(texts, **given)
            with decoder(place, static=static):
                found = there.translate(texts, **given)
            place.alike(name, [t.ids[0] for t in found], [t.ids[0] for t in expected], limit)
            pairs = zip(found, expected, strict=True)
            apart = [abs(ours.score - theirs.score) for ours, theirs in pairs if ours.ids[0] == theirs.ids[0]]
            place.at_most(f"{name}: scores of those are apart", max(apart, default=0.0), 2e-3)
        if static and place.on_gpu:
            assert isinstance(there.engine, TorchEngine)
            stages = [stage for decoder in there.engine._static for stage in decoder.stages.values()]
            place.at_least("recorded steps", sum(stage.recording is not None for stage in stages), 1)

    return search


check("search static", seconds=120)(searching(static=True))
check("search plain", seconds=120)(searching(static=False))
check("search ensemble", seconds=120)(searching(static=True, n_runs=2))


@check("search bf16")
def search_in_bf16(place: Place) -> None:
    scores, (sources, targets) = {}, place.test()
    for device, precision in (("cpu", "fp32"), (place.device, "bf16")):
        found = loaded(place, device, precision=precision).translate(sources, beam_size=4)
        scores[precision] = bleu(texts_of(found), targets, tgt_lang="de", n_bootstrap=0).value
    place.note("BLEU in bf16", scores["bf16"])
    place.at_most("BLEU in fp32 and in bf16 are apart", abs(scores["fp32"] - scores["bf16"]), 2.0)


@check("scores and attention")
def looks(place: Place) -> None:
    found, (sources, targets) = [], place.test(40)
    for device in (place.device, "cpu"):
        translator = loaded(place, device)
        scores = [scored.log_prob for scored in score_pairs(translator, sources, targets)]
        links = [[link[:4] for link in links] for links in align(translator, sources, targets)]
        found.append((scores, links, attention_maps(translator, sources[0], targets[0]).cross.weights))
    (scores, links, weights), (scores_here, links_here, weights_here) = found
    apart = max(abs(a / b - 1) for a, b in zip(scores, scores_here, strict=True))
    place.at_most("log-probabilities are apart", apart, EXACT)
    place.alike("alignments", links, links_here, 0.95)
    place.at_most("attention is apart", float(abs(weights - weights_here).max()), EXACT)


@check("watched searches in a service's thread")
def watched(place: Place) -> None:
    """Clients whose sentences are searched together, one of which leaves in the middle."""
    sources, _ = place.test(24)
    expected = on_processor(place, sources, beam_size=3)
    translator = loaded(place, place.device)
    batcher = Batcher(n_threads=1, max_items=64, max_tokens=4096)
    search = translator.config.search.changed({"beam_size": 3}, where="check")

    def ask(i: int) -> list[str]:
        client = Client(batcher)
        if i == 0:
            vars(client)["wants"] = lambda _: client.leave()  # at the first step of its search
        try:
            return texts_of(asyncio.run(client.finish(searched(translator, sources[i::4], search))))
        except GoneError:
            return ["gone"]

    with ThreadPoolExecutor(4) as pool:
        left, *others = pool.map(ask, range(4))
    batcher.close()
    place.equal("what the client that left is told", left, ["gone"])
    for i, found in enumerate(others, start=1):
        place.alike(f"client {i}", found, expected[i::4], 0.8)


@check("classify")
def classify(place: Place) -> None:
    texts = [text for _, text in phrasebook.reviews("test")][: 20 if place.short else 200]
    there, here = (
        Classifier.load(place.reference / "classifier", device=device, precision="fp32").logits(texts).values
        for device in (place.device, "cpu")
    )
    place.at_most("logits are apart", float(abs(there - here).max()), CLOSE)


# Programs


@check("serve", seconds=120)
def serve(place: Place) -> None:
    """The service over HTTP, with several clients at once, and while its models are loaded again."""
    try:
        require(*PACKAGES, extra="serve", purpose="serving")
    except MissingExtraError as error:
        raise SkipError(str(error)) from None
    sources, _ = place.test(24)
    expected, log = on_processor(place, sources), place.work / "log"
    options = ["--device", place.device, "--precision", "fp32", "--port", 0]
    with log.open("wb") as file:
        service = command("serve", place.reference / "translator", *options)
        process = subprocess.Popen(service, stderr=file)
    try:
        while not (found := re.search(r"http://127.0.0.1:\d+", log.read_text(encoding="utf-8"))):
            if process.poll() is not None:
                raise RuntimeError(f"the service ended: {log.read_text(encoding='utf-8')[-300:]}")
            time.sleep(0.1)
        url = f"{found[0]}/v1/translate"

        def ask(text: str) -> str:
            body = json.dumps({"text": text, "split": False}).encode()
            asked = Request(url, body, {"Content-Type": "application/json"})
            with urlopen(asked, timeout=60) as answer:
                return str(json.load(answer)["translations"][0]["text"])

        with ThreadPoolExecutor(8) as pool:
            place.alike("answers", list(pool.map(ask, sources)), expected)
            process.send_signal(signal.SIGHUP)
            place.alike("answers while models are loaded again", list(pool.map(ask, sources)), expected)
    finally:
        process.kill()
        process.wait()


def bulk(*more: str) -> Callable[[Place], None]:
    def translate(place: Place) -> None:
        """Two workers, killed in the middle and continued, write what the processor writes."""
        if more and (find_spec("ray") is None or find_spec("pyarrow") is None):
            raise SkipError("without Ray")
        texts, source, out = place.test()[0] * 4, place.work / "in.txt", place.work / "out.txt"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        path = str(place.reference / "translator")
        lines = (
            "from pathlib import Path",
            "from dragoman.bulk.input import Input",
            "from dragoman.bulk.job import Job, ModelSpec",
            "from dragoman.bulk.running import translate_file",
            f"model = ModelSpec(Path({path!r}), device={place.device!r}, precision='fp32')",
            f"job = Job(model, Input.of({str(source)!r}), Path({str(out)!r}))",
            f"translate_file({', '.join(['job', 'n_workers=2', 'chunk_lines=16', *more])})",
        )
        program = [sys.executable, "-c", "\n".join(lines)]
        if not more:
            journal = out.with_name(f"{out.name}.journal")
            place.note("killed in the middle", killed_on_the_way(program, journal.exists))
        subprocess.run(program, check=True)
        place.alike("lines", out.read_text(encoding="utf-8").splitlines(), on_processor(place, texts))

    return translate


check("bulk", seconds=150)(bulk())
check("bulk with Ray", seconds=150)(bulk("ray='local'"))


# All of them


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="auto", help="cuda, cuda:1, or cpu to try the checks themselves")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=CHECKS, default=list(CHECKS),
                        help="some of the checks:\n" + "\n".join(CHECKS))  # fmt: skip
    parser.add_argument("--short", action="store_true", help="small models and few updates")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all that was found here")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for all checks together")
    parser.add_argument("--jobs", type=int, default=0, help="checks at once; 0: one for four cores")
    parser.add_argument("--no-tables", action="store_true", help="leave out the tables of speed")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        device = find_device(options.device)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.run:
        return run_check(options.run, Place(options.folder, str(device), options.short))
    if device.type == "cpu" and options.device != "cpu":
        print("error: no GPU here; --device cpu tries the checks on the processor", file=sys.stderr)
        return 1
    facts = describe(device)
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    tables: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        outcomes = check_all(options, str(device), Path(folder))
        counts = {status: sum(o.status == status for o in outcomes) for status in ("PASS", "FAIL", "SKIP")}
        print(" · ".join(f"{n} {status}" for status, n in counts.items()), flush=True)
        if device.type == "cuda" and not options.no_tables:
            tables = speed_tables(str(device), Path(folder))
    if options.json:
        found = {**facts, "checks": [asdict(outcome) for outcome in outcomes], "tables": tables}
        options.json.write_text(json.dumps(found, indent=1, default=str) + "\n", encoding="utf-8")
    return 1 if counts["FAIL"] else 0


def describe(device: torch.device) -> dict[str, Any]:
    """Return device, matrix-product speed and versions of the machine."""
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else "processor"
    dtype = torch.bfloat16 if has_bf16(device) else torch.float32
    ceiling = matrix_ceiling(dtype, n=4096 if on_gpu else 512, device=device)
    return {
        "device": f"{device} ({name})", "GPUs": torch.cuda.device_count(), "torch": str(torch.__version__),
        "python": sys.version.split()[0], "matrix product": f"{ceiling / 1e12:.2f} TFLOP/s in {dtype}",
    }  # fmt: skip


def check_all(options: argparse.Namespace, device: str, folder: Path) -> list[Outcome]:
    """Run each check and print its outcome, in order; the reference comes first."""
    deadline, n_cores = time.monotonic() + 60 * options.minutes, os.cpu_count() or 1
    n_jobs = options.jobs or max(1, n_cores // 4)
    os.environ["OMP_NUM_THREADS"] = str(max(1, n_cores // n_jobs))  # with more, many times slower

    def run(name: str) -> Outcome:
        limit = min(CHECKS[name][1], deadline - time.monotonic())
        return run_alone(name, device, folder, limit=limit, short=options.short)

    outcomes = [run("reference")]
    print(outcomes[0], flush=True)
    names = [name for name in options.only if name != "reference"]
    if outcomes[0].status == "FAIL":
        return outcomes + [Outcome(name, "FAIL", reason="there is no reference") for name in names]
    with ThreadPoolExecutor(n_jobs) as pool:
        for outcome in pool.map(run, names):
            print(outcome, flush=True)
            outcomes.append(outcome)
    return outcomes


def run_alone(name: str, device: str, folder: Path, *, limit: float, short: bool = False) -> Outcome:
    """Run a check in a process of its own, for `limit` seconds at most."""
    if limit <= 0:
        return Outcome(name, "FAIL", reason="no time is left for it; give more --minutes")
    begun, log, result = time.monotonic(), folder / f"{name}.log", folder / f"{name}.json"
    program = [sys.executable, __file__, "--run", name, "--device", device, "--folder", str(folder)]
    program += ["--short"] * short
    with log.open("wb") as file:
        process = subprocess.Popen(
            program, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            code = str(process.wait(limit))
        except subprocess.TimeoutExpired:
            code = ""
        finally:
            with suppress(ProcessLookupError):  # and all that it has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - begun
    if result.exists():
        found = json.loads(result.read_text(encoding="utf-8"))
        findings = [Finding(**finding) for finding in found.pop("findings")]
        return Outcome(**{**found, "findings": findings, "seconds": seconds})
    last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"])[-1]
    reason = f"exit code {code}" if code else f"not done after {limit:.0f} s"
    return Outcome(name, "FAIL", seconds, f"{reason}; it last wrote: {last[:300]}")


def run_check(name: str, place: Place) -> int:
    """Run a check in this process, and print its outcome."""
    outcome = Outcome(name, findings=place.findings)
    try:
        CHECKS[name][0](place)
        outcome.status = "PASS" if all(finding.ok for finding in place.findings) else "FAIL"
    except SkipError as reason:
        outcome.status, outcome.reason = "SKIP", str(reason)
    except Exception as error:
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome.status, said = "FAIL", " ".join(str(error).split())[:300]
        outcome.reason = f"{type(error).__name__}: {said} ({Path(where.filename).name}:{where.lineno})"
    partial = place.folder / f"{name}.partial"
    partial.write_text(json.dumps(asdict(outcome), default=str), encoding="utf-8")
    partial.replace(place.folder / f"{name}.json")
    return 0


def speed_tables(device: str, folder: Path) -> dict[str, str]:
    """Print what benchmarks/gpu_speed.py and gpu_decode.py measure for a model of 7.6 M parameters."""
    run, tables = str(folder / "speed"), {}
    for name, arguments in {
        "gpu_speed.py": ["--corpus", "phrasebook", "--steps", "200", "--keep", run],
        "gpu_decode.py": [run, "--repeat", "2"],
    }.items():
        program = [sys.executable, str(ROOT / "benchmarks" / name), *arguments, "--device", device]
        program += ["--results", str(folder)]
        try:
            done = subprocess.run(program, capture_output=True, text=True, timeout=240, check=False)
            tables[name] = done.stdout if done.returncode == 0 else f"failed: {done.stderr[-500:]}"
        except subprocess.TimeoutExpired:
            tables[name] = "not done after 240 s"
        print(f"\n{name}\n{tables[name]}", flush=True)
    return tables


if __name__ == "__main__":
    sys.exit(main())
