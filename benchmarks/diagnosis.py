"""What the warnings of a training are decided by, on healthy trainings and on spoilt ones.

    python benchmarks/diagnosis.py                    # the embedded corpus, about 20 minutes
    python benchmarks/diagnosis.py --run runs/mine    # the checkpoints that a training has kept

Every checkpoint is judged as in a validation: nats a token that the right source is worth, and the shares of
translations with a fault, those of the references subtracted. A healthy training has to stay clear of the
thresholds from the step on that warnings are given (`should_be_learning`), a spoilt one has to cross them.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.config import TranslationConfig, parse_config
from dragoman.data.named import open_direction
from dragoman.data.phrasebook import pairs as phrasebook_pairs
from dragoman.data.records import Pair, has_text
from dragoman.data.store import TokenStore
from dragoman.predict.loading import load_weights
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tasks.translation.diagnosis import copies, diagnose, loops, silences, source_use
from dragoman.tensors import load_tensors

N_STEPS = 500

SETTINGS = {
    "tokenizer": {"vocab_size": 1500},
    "model": {
        "d_model": 64, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2,
    },
    "training": {
        "max_steps": N_STEPS, "batch_tokens": 2048, "learning_rate": 4e-3, "warmup_steps": 100,
        "schedule": "cosine", "average": "none", "valid_every": 100, "keep_checkpoints": 100,
    },
}  # fmt: skip
"""A smaller demo, without the moving average, which hides the early steps."""


class Judgement(NamedTuple):
    """Figures of a checkpoint."""

    step: int
    loss: float
    gain: float
    copies: float
    loops: float
    silences: float
    length: float
    warnings: Sequence[str]


def healthy(pairs: list[Pair]) -> list[Pair]:
    return pairs


def unrelated(pairs: list[Pair]) -> list[Pair]:
    """Every source with the target of another pair."""
    targets = [pair.tgt for pair in pairs]
    random.Random(1).shuffle(targets)
    return [Pair(pair.src, tgt) for pair, tgt in zip(pairs, targets, strict=True)]


def half_shifted(pairs: list[Pair]) -> list[Pair]:
    """Return the second half one line off, as after a lost line."""
    middle = len(pairs) // 2
    shifted = [Pair(a.src, b.tgt) for a, b in zip(pairs[middle:], pairs[middle + 1 :], strict=False)]
    return pairs[:middle] + shifted


def half_copied(pairs: list[Pair]) -> list[Pair]:
    """Every second pair not translated."""
    return [Pair(p.src, p.src) if i % 2 else p for i, p in enumerate(pairs)]


def half_empty(pairs: list[Pair]) -> list[Pair]:
    """Every second target nothing but a full stop."""
    return [Pair(p.src, ".") if i % 2 else p for i, p in enumerate(pairs)]


def doubled(pairs: list[Pair]) -> list[Pair]:
    """Every target four times on end."""
    return [Pair(p.src, " ".join([p.tgt] * 4)) for p in pairs]


SPOILERS: dict[str, Callable[[list[Pair]], list[Pair]]] = {
    "healthy": healthy,
    "unrelated": unrelated,
    "half shifted": half_shifted,
    "half copied": half_copied,
    "half empty": half_empty,
    "repeated": doubled,
}
DIRECTIONS = [("en", "de"), ("pl", "en"), ("en", "zh"), ("zh", "de")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", type=Path, action="append", default=[], help="judge this run's checkpoints")
    parser.add_argument("--steps", type=int, default=N_STEPS, help="of each training")
    parser.add_argument("--only", choices=SPOILERS, action="append", help="one kind of training")
    options = parser.parse_args()
    for run in options.run:
        report(str(run), judge(run))
    if options.run:
        return
    with tempfile.TemporaryDirectory() as folder:
        for spoiler in options.only or SPOILERS:
            for src, tgt in DIRECTIONS if spoiler == "healthy" else DIRECTIONS[:1]:
                config = spoilt_recipe(Path(folder), spoiler, src, tgt, n_steps=options.steps)
                report(
                    f"{spoiler}, {src} to {tgt}",
                    judge(train(config, Path(folder) / config.name, check=False)),
                )


def spoilt_recipe(folder: Path, spoiler: str, src: str, tgt: str, *, n_steps: int) -> TranslationConfig:
    """Train on the phrasebook with spoilt training pairs and good validation pairs."""
    name = f"{spoiler.replace(' ', '-')}-{src}-{tgt}"
    pairs = [Pair(*pair) for pair in phrasebook_pairs("train", src, tgt)]
    lines = [f"{pair.src}\t{pair.tgt}\n" for pair in SPOILERS[spoiler](pairs)]
    (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    data = {
        "src_lang": src, "tgt_lang": tgt, "train": [str(folder / f"{name}.tsv")],
        "valid": ["phrasebook:valid"],
    }  # fmt: skip
    config = parse_config(
        {"name": name, "data": data, **SETTINGS}, overrides=[f"training.max_steps={n_steps}"]
    )
    assert config.task == "translation"
    return config


def judge(path: Path) -> Iterator[Judgement]:
    """Each checkpoint of a run, oldest first."""
    run = Run.open(path)
    translator = Translator.load(path)
    corpus = open_direction(translation_config(run))[1]
    pairs = [pair for pair in corpus.pairs() if has_text(pair)]
    with tempfile.TemporaryDirectory() as cache:
        store = TokenStore.prepare(
            corpus,
            translator.tokenizers,
            max_length=translator.config.model.max_positions,
            cache=Path(cache),
        )
        for checkpoint in sorted(run.checkpoints.glob("step-*")):
            weights = checkpoint / "ema.safetensors"
            weights = weights if weights.exists() else checkpoint / "model.safetensors"
            load_weights(translator.model, load_tensors(weights), where=str(weights))
            yield judgement(int(checkpoint.name.removeprefix("step-")), translator, pairs, store)


def judgement(step: int, translator: Translator, pairs: Sequence[Pair], store: TokenStore) -> Judgement:
    sources, references = [p.src for p in pairs], [p.tgt for p in pairs]
    hypotheses = [t.text for t in translator.translate(sources, beam_size=1, n_best=1)]
    use = source_use(translator.model, store)
    assert use is not None

    def excess(share: Callable[[Sequence[str], Sequence[str]], float]) -> float:
        return share(sources, hypotheses) - share(sources, references)

    return Judgement(
        step=step,
        loss=use.loss,
        gain=use.gain,
        copies=excess(copies),
        loops=excess(loops),
        silences=excess(silences),
        length=sum(map(len, hypotheses)) / sum(map(len, references)),
        warnings=list(diagnose(sources, hypotheses, references, use)),
    )


def report(name: str, judgements: Iterator[Judgement]) -> None:
    print(f"\n{name}\n  step   loss   gain  copies  loops  empty  length  would warn", flush=True)
    for j in judgements:
        print(
            f"{j.step:6,} {j.loss:6.2f} {j.gain:6.2f} {100 * j.copies:6.0f}% {100 * j.loops:5.0f}% "
            f"{100 * j.silences:5.0f}% {j.length:7.2f}  {', '.join(j.warnings)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
