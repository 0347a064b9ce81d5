"""Runs with random weights, for tests that export them: every setting there is, without a training."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.predict.classifier import TOKENIZER, classification_config, load_labels
from dragoman.predict.loading import classifier_weights
from dragoman.predict.networks import NetworkClassifier, build_model, load_classifier
from dragoman.runs import Run
from dragoman.text.slots import SLOTS
from dragoman.text.tokenizer import EOS_ID, TokenizerPair, load_tokenizer
from tiny import TINY, WORDS, write_corpus

PAIRS = [(src, tgt) for src, tgt in WORDS.items() for _ in range(3)]


def untrained_run(
    folder: Path, *, model: dict[str, Any] | None = None, slots: bool = False, **tokenizer: Any
) -> Path:
    """A run in `folder` with large random weights, so that translations differ; output biases end them.

    With `slots` it has them, and output biases that write them.
    """
    folder.mkdir()
    write_corpus(folder, "valid", 12, seed=3)
    settings = {
        "name": "untrained",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": [str(folder / "valid.tsv")]},
        "tokenizer": tokenizer, "model": model or {}, "modifiers": {"slots": 0.5 * slots},
    }  # fmt: skip
    overrides = [o for o in TINY if o.partition("=")[0] not in {f"model.{name}" for name in model or {}}]
    config = parse_config(settings, overrides=overrides)
    assert isinstance(config, TranslationConfig)
    run = Run.create(folder / "run", config)
    tokenizers = TokenizerPair.train(PAIRS, config.tokenizer, src_lang="en", tgt_lang="de", slots=slots)
    tokenizers.save(run.tokenizer_folder)
    torch.manual_seed(1)
    fresh = build_model(config, tokenizers, device=torch.device("cpu"))
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        if fresh.output.bias is not None:
            fresh.output.bias[EOS_ID] += 4.0 + 4.0 * slots
            fresh.output.bias[[tokenizers.tgt.pieces().index(slot) for slot in SLOTS[:2] * slots]] += 5.0
    run.save_weights({name: parameter.detach() for name, parameter in fresh.named_parameters()})
    return run.path


def run_script_of_readme(
    export: Path, lines: str, *more: str, warns: str = "", refuses: str = ""
) -> list[str]:
    """What the script that README.md names writes for `lines`, in a Python without Dragoman.

    It warns or refuses with that alone. `more` are its arguments behind the folder.
    """
    (script,) = re.findall(r"`python (\w+\.py) FOLDER", (export / "README.md").read_text(encoding="utf-8"))
    code = (
        "import runpy, sys; sys.modules['dragoman'] = None; sys.path.insert(0, sys.argv[1]);"
        f"runpy.run_path(f'{{sys.argv[1]}}/{script}', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-IB", "-Wignore", "-c", code, str(export), *more],
        input=lines, text=True, capture_output=True, check=False, encoding="utf-8",
        env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
    )  # fmt: skip
    assert done.returncode == bool(refuses), done.stderr
    if refuses:  # perhaps behind what a library has printed
        assert done.stderr.splitlines()[-1] == refuses
        return done.stdout.splitlines()
    assert done.stderr.splitlines() == warns.splitlines()
    return done.stdout.splitlines()


def classifier_network(path: Path) -> NetworkClassifier:
    """The classifier of a run, in PyTorch."""
    run = Run.open(path)
    config, labels = classification_config(run), load_labels(run)
    tokenizer = load_tokenizer(run.tokenizer_folder / TOKENIZER)
    weights = classifier_weights(run, config, tokenizer.vocab_size, len(labels))
    return load_classifier(weights, config, tokenizer, device="cpu", precision="fp32")
