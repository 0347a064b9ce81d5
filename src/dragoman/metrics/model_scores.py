"""Score translations by COMET or BERTScore, as a process of its own, in any Python that has their package.

Needs no other part of Dragoman. Each line of stdin is a request, a JSON object; each is answered by a line:

    {"metric": "comet", "model": "", "layer": null, "language": "de", "device": "auto"}
        {"facts": {...}}: the model is loaded; what its scores depend on
    the same with "sources", "hypotheses" and "references"
        {"scores": [...]}: one for each sentence, as the package gives them

or by {"missing": PACKAGE} or {"error": TEXT}. All else that is printed goes to stderr.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

MIN_TORCH = (2, 6)
"""Earlier versions have holes in what reads weights alone (CVE-2025-32434)."""


class ScoringError(Exception):
    """A model cannot be loaded; the message says why, and what to do."""


class Comet:
    """A COMET model (Rei et al. 2020)."""

    package = "unbabel-comet"
    default = "Unbabel/wmt22-comet-da"

    def __init__(self, request: dict[str, Any]) -> None:
        import comet

        model, self.device = request["model"] or self.default, request["device"]
        local = Path(model)
        try:
            checkpoint = _checkpoint(local) if local.exists() else Path(comet.download_model(model))
        except KeyError:
            raise ScoringError(f"{model} is neither on this machine nor can it be downloaded") from None
        self.model = comet.load_from_checkpoint(str(checkpoint))
        name = checkpoint.parent.parent.name if local.exists() else model
        self.facts = {"nrefs": int("ref" in self._inputs()), "model": name, "weights": _digest(self.model)}

    def _inputs(self) -> tuple[str, ...]:
        if self.model.requires_references():
            return "src", "mt", "ref"
        segments = getattr(self.model.hparams, "input_segments", ())
        return ("src", "mt", "ref") if "ref" in segments else ("src", "mt")

    def score(self, request: dict[str, Any]) -> list[float]:
        columns = {"src": request["sources"], "mt": request["hypotheses"], "ref": request["references"]}
        names = self._inputs()
        samples = [dict(zip(names, row)) for row in zip(*(columns[name] for name in names))]  # noqa: B905
        device = _device(self.device)
        gpus = (
            {"gpus": 1, "devices": [int(device.partition(":")[2] or 0)]} if device != "cpu" else {"gpus": 0}
        )
        return [float(score) for score in self.model.predict(samples, progress_bar=False, **gpus).scores]


class BertScore:
    """F1 of BERTScore (Zhang et al. 2020), without weights of words and without rescaling."""

    package = "bert-score"

    def __init__(self, request: dict[str, Any]) -> None:
        import transformers
        from bert_score import BERTScorer
        from bert_score.utils import lang2model, model2layers

        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model = request["model"] or lang2model[request["language"]]
        local = Path(model)
        if local.is_dir():  # its name alone: the package takes any path with "t5" in it for a T5
            os.chdir(local.resolve().parent)
            model = local.resolve().name
        layer = model2layers.get(model) if request["layer"] is None else request["layer"]
        if layer is None:
            raise ScoringError(
                "bert-score recommends no layer for this model; name one, as in bertscore:MODEL@9"
            )
        scorer = BERTScorer(model_type=model, num_layers=layer, device=_device(request["device"]))
        self.scorer = scorer
        _mend(scorer._tokenizer, scorer._model.config)
        self.facts = {
            "nrefs": 1,
            "model": model,
            "layer": layer,
            "idf": "no",
            "rescaled": "no",
            "transformers": transformers.__version__,
            "weights": _digest(scorer._model),
        }

    def score(self, request: dict[str, Any]) -> list[float]:
        scores: list[float] = self.scorer.score(request["hypotheses"], request["references"])[2].tolist()
        return scores


METRICS: dict[str, type[Comet] | type[BertScore]] = {"comet": Comet, "bertscore": BertScore}


def _checkpoint(path: Path) -> Path:
    """Return the checkpoint in a folder of COMET, or `path` itself."""
    found = [path] if path.is_file() else sorted(path.glob("checkpoints/*.ckpt"))
    if len(found) != 1 or not (found[0].parent.parent / "hparams.yaml").is_file():
        raise ScoringError(f"{path}: a model of COMET has hparams.yaml and one file checkpoints/*.ckpt")
    return found[0]


def _mend(tokenizer: Any, config: Any) -> None:
    """Give a tokenizer of transformers 5 what bert-score 0.3.13 asks for: a length, and empty texts."""
    if tokenizer.model_max_length > 10**6:  # it names none; the Rust tokenizers cannot count that far
        tokenizer.model_max_length = min(512, getattr(config, "max_position_embeddings", 514) - 2)
    if not hasattr(tokenizer, "build_inputs_with_special_tokens"):
        tokenizer.build_inputs_with_special_tokens = lambda ids: tokenizer.encode("")


def _device(name: str) -> str:
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def _digest(model: Any) -> str:
    """Return a hash of a model's parameters, in 12 digits."""
    import torch

    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:12]


def _open(request: dict[str, Any]) -> Any:
    """Return the metric of a request, loaded."""
    kind = METRICS[request["metric"]]
    installed = version(kind.package)
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < MIN_TORCH:
        raise ScoringError(f"needs torch 2.6 or later, and {sys.executable} has {torch.__version__}")
    opened = kind(request)
    opened.facts = {**opened.facts, "times": 100, "package": kind.package, "version": installed}
    return opened


def _answer(request: dict[str, Any], opened: dict[str, Any]) -> dict[str, Any]:
    key = json.dumps([request[name] for name in ("metric", "model", "layer", "language", "device")])
    try:
        if key not in opened:
            opened[key] = _open(request)
        metric = opened[key]
        return {"scores": metric.score(request)} if "hypotheses" in request else {"facts": metric.facts}
    except PackageNotFoundError as error:
        return {"missing": str(error.name)}
    except ScoringError as error:
        return {"error": str(error)}
    except Exception as error:  # of packages that are not ours: any
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"}


def main() -> None:
    """Answer requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.pop(0)  # the folder of this file, whose modules have common names
    logging.disable(logging.INFO)
    opened: dict[str, Any] = {}
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_answer(json.loads(line), opened)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
