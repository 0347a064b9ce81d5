"""Merge two runs of one vocabulary and shape: weights between theirs (Wortsman et al. 2022, "WiSE-FT").

After fine-tuning on a domain, a model between the old and the new one often keeps most of the old text's
score and of the new one's gain.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from torch import Tensor

from dragoman.config import TranslationConfig, to_toml
from dragoman.data.corpora import Pair, has_text
from dragoman.data.named import open_direction
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.evaluation.comparison import names_of
from dragoman.evaluation.translation import evaluate
from dragoman.files import replacing_folder, write_atomically
from dragoman.predict.engine import NativeEngine
from dragoman.predict.loading import load_weights
from dragoman.predict.translator import Translator, translation_config
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair

WEIGHTS = tuple(i / 10 for i in range(11))
"""Weights of the second run that are tried where none is given."""

MAX_PAIRS = 500
"""Validation pairs of each run and direction that are translated for each weight, at most."""


@dataclass(frozen=True)
class Tried:
    """A weight of the second run, and the BLEU that it has on each validation text."""

    weight: float
    scores: Mapping[str, float]

    @property
    def mean(self) -> float:
        """What the weight is chosen by."""
        return fmean(self.scores.values())


def merge(
    first: str | Path,
    second: str | Path,
    out: str | Path,
    *,
    weight: float | None = None,
    say: Callable[[str], Any] = lambda message: None,
) -> list[Tried]:
    """Write the run `out` with (1 - weight) × the weights of `first` + weight × those of `second`.

    Without `weight` those of WEIGHTS are tried, greedily, on the validation text of both runs, and the one
    with the best mean BLEU is taken. Settings and tokenizers are those of `first`. Return what was tried, the
    chosen one first.

    Raises:
        ConfigError: `weight` is not between 0 and 1, or no validation text is here to choose one by.
        RunError: the runs have other vocabularies or shapes, or no weights; `out` is there already.
    """
    if weight is not None and not 0 <= weight <= 1:
        raise ConfigError(f"--weight {weight}: give a number from 0, all of the first run, to 1")
    runs = [Run.open(first), Run.open(second)]
    config = translation_config(runs[0])
    check_mergeable(*runs)
    if Path(out).exists():
        raise RunError(f"{out}: is there already; choose a new folder")
    old, new = (run.load_weights() for run in runs)
    found = [] if weight is not None else choose_weight(runs, old, new, say)
    chosen = found[0].weight if weight is None else weight
    with replacing_folder(Path(out)) as folder:
        shutil.copytree(runs[0].tokenizer_folder, folder / "tokenizer")
        name = f"{config.name}-merged"
        write_atomically(folder / "config.toml", to_toml(config.model_copy(update={"name": name})).encode())
        run = Run(folder, config)
        run.save_weights(between(old, new, chosen))
        tried = [{"weight": one.weight, **one.scores, "mean": one.mean} for one in found]
        origin = {"runs": [str(first), str(second)], "weight": chosen, "tried": tried}
        run.write_json("report.json", {"merged": origin})
    return found


def check_mergeable(first: Run, second: Run) -> None:
    """RunError: ids do not mean the same in both runs, or they have other shapes."""
    models = [translation_config(run).model for run in (first, second)]
    shapes = [
        model.model_dump(exclude={"dropout", "attention_dropout", "activation_dropout"}) for model in models
    ]
    pairs = [TokenizerPair.load(run.tokenizer_folder) for run in (first, second)]
    prints = [(pair.src.fingerprint, pair.tgt.fingerprint) for pair in pairs]
    if shapes[0] != shapes[1] or prints[0] != prints[1]:
        what = "vocabulary" if prints[0] != prints[1] else "shape"
        raise RunError(
            f"{second.path}: has not the {what} of {first.path}; only runs that were fine-tuned from one "
            "another, or from the same run, can be merged (dragoman train --from)"
        )


def between(first: Mapping[str, Tensor], second: Mapping[str, Tensor], weight: float) -> dict[str, Tensor]:
    """Return weights that are `weight` of the way from the first ones to the second."""
    return {name: tensor.lerp(second[name], weight) for name, tensor in first.items()}


def choose_weight(
    runs: Sequence[Run], old: Mapping[str, Tensor], new: Mapping[str, Tensor], say: Callable[[str], Any]
) -> list[Tried]:
    """Return the weights that were tried between `old` and `new`, the best first.

    The best has the highest mean BLEU on the validation text of both runs.

    ConfigError: neither text is here.
    """
    texts = validation_texts(runs, say)
    if not texts:
        raise ConfigError("the validation text of neither run is here; say --weight, from 0 to 1")
    translator = Translator.load(runs[0].path, device="cpu", precision="fp32")
    translator.engine = NativeEngine(*translator.models)  # without its shortlist, which no merged run has
    tried = []
    for weight in WEIGHTS:
        load_weights(translator.model, between(old, new, weight), where=str(runs[0].path))
        scores = {
            name: evaluate(translator.towards(to), name, pairs, settings={"beam_size": 1}).scores[0].value
            for name, (to, pairs) in texts.items()
        }
        tried.append(Tried(weight, scores))
        shown = ", ".join(f"{name} {score:.1f}" for name, score in scores.items())
        say(f"weight {weight:g}: mean BLEU {tried[-1].mean:.1f} ({shown})")
    return sorted(tried, key=lambda one: -one.mean)


def validation_texts(runs: Sequence[Run], say: Callable[[str], Any]) -> dict[str, tuple[str, list[Pair]]]:
    """Return the direction and the pairs of each validation text that is here, by run and direction."""
    texts: dict[str, tuple[str, list[Pair]]] = {}
    for name, run in zip(names_of(runs), runs, strict=True):
        config = translation_config(run)
        for direction in config.data.trained_directions:
            to = "-".join(direction)
            try:
                pairs = valid_pairs(config.towards(direction))
            except DataError as error:
                say(f"{run.path}, {to}: its validation text is not here ({error})")
                continue
            if all(pairs != known for _, known in texts.values()):
                texts[f"{name} {to}"] = to, pairs
    return texts


def valid_pairs(config: TranslationConfig) -> list[Pair]:
    """Return validation pairs of a run in one direction, MAX_PAIRS at most, spread over all."""
    pairs = [pair for pair in open_direction(config)[1].pairs() if has_text(pair)]
    step = -(-len(pairs) // MAX_PAIRS)
    return pairs[::step]
