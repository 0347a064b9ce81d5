"""Names that earlier versions had, and what to do instead: the command line answers an old name with that."""

from __future__ import annotations

import os
from collections.abc import Iterator

REMOVED = {
    "dragoman forecast": "train on a half of the text and compare the scores: --set data.part='[0.0, 0.5]'",
    "dragoman merge": "fine-tune with --from RUN --replay 0.2 to keep what a run has learnt",
    "dragoman models": "runs of the hub are listed at https://huggingface.co/models?library=dragoman",
    "dragoman get": "name the run hf:user/model in any command; it is downloaded once",
    "--metric": "score with the metric's own program and give its numbers: --scores NAME=FILE",
    "--metric-python": "score with the metric's own program and give its numbers: --scores NAME=FILE",
    "--csv": "use --json",
    "--report": "use --examples N or --json; --threshold KIND=VALUE says what another threshold finds",
    "--engine": "remove it; `dragoman export RUN --to ctranslate2` writes for that engine",
    "--mbr": "take the best candidate, or rerank those of --json --n-best N with a program of your own",
    "--prefixes": "call Translator.translate(texts, prefixes=...) in Python, or give prefix over HTTP",
    "--required": "give terms as --glossary FILE, or required= in Python",
    "--per-token": "use --json, which has the tokens of each pair",
    "--keep-best": "score the pairs with score-model; data filter --by-score FILE --keep SHARE",
    "--reverse": "score in both directions; data filter --by-score A --by-score B --dual",
    "--teacher-output": "train on the pairs: train --tsv FILE --from RUN --set model.n_decoder_layers=2",
    "--record": "run `python tools/record_results.py RECIPE RUN` in a checkout",
    "log_text": "remove it; the log holds no text",
    "batching.joining": "remove it; requests are decoded in batches",
    "limits.required_characters": "set limits.required_cost, tokens times hypotheses times length",
    "mtdata:": "download with `mtdata get`, and give its files to --src and --tgt",
    "DRAGOMAN_MODELS": "name runs as hf:user/model",
    "DRAGOMAN_PULSE_SECONDS": "set training.timeout_minutes",
    "DRAGOMAN_SILENCE_SECONDS": "set training.timeout_minutes",
}
"""What to do instead of each command, option, setting, corpus prefix and environment variable."""


def instead_of(name: str) -> str | None:
    """Return a sentence about a removed name; None: there was no such name."""
    return f"{name} was removed in 0.3; {REMOVED[name]}" if name in REMOVED else None


def removed_variables() -> Iterator[str]:
    """Yield a sentence for each environment variable that is set and has no effect any more."""
    for name in REMOVED:
        if name.isupper() and name in os.environ:
            yield f"{name} was removed in 0.3 and has no effect; {REMOVED[name]}"
