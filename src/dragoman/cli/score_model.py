"""`dragoman score-model`: the probability of given translations under a run's model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import check_outputs, say
from dragoman.cli.options import Device, Ensemble, Precision, RunPath, To
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.predict.scoring import ScoredTranslation
    from dragoman.predict.translator import Translator

CHUNK = 10_000
"""Pairs that are scored together; output starts after the first chunk."""


def register(app: typer.Typer) -> None:
    app.command("score-model")(score_model)


def score_model(
    run: RunPath,
    src: Annotated[str, typer.Argument(help="Source sentences, one per line.", show_default=False)],
    tgt: Annotated[str, typer.Argument(help="Their translations, line by line.", show_default=False)],
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Write a line per token: pair, token, log-probability.")
    ] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per pair, not a table.")
    ] = False,
    batch_tokens: Annotated[int, typer.Option(min=1, max=10**9, help="Tokens per batch.")] = 2048,
    to: To = None,
    ensemble: Ensemble = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Score given translations by the model's own probabilities (forced decoding).

    Each output line has, separated by tabs: number of the pair, log-probability in nats, perplexity per
    token, number of tokens. The end token counts. Pairs that are empty on both sides have no tokens. A
    summary goes to stderr.
    """
    from dragoman.predict.scoring import perplexity, score_translations
    from dragoman.tasks.translation.task import load_translator

    if precision == "int8":
        raise ConfigError('--precision int8: is for search only; score translations in "fp32" or "bf16"')
    check_outputs(None, files=[src, tgt], runs=[run, *(ensemble or ())])
    translator = load_translator(run, device=device, precision=precision, ensemble=ensemble or ()).towards(to)
    sources, targets = _read(src, tgt, translator)
    log_prob, n_tokens = 0.0, 0
    with _progress(len(sources)) as progress:
        for start in range(0, len(sources), CHUNK):
            end = start + CHUNK
            try:
                scored = score_translations(
                    translator, sources[start:end], targets[start:end],
                    batch_tokens=batch_tokens, first_number=start + 1, progress=progress(start),
                )  # fmt: skip
            except DataError as error:
                raise DataError(f"{src}, {tgt}: {error}") from None
            for number, one in enumerate(scored, start=start + 1):
                log_prob, n_tokens = log_prob + one.log_prob, n_tokens + len(one.tokens)
                for line in [as_json(one, per_token)] if json_ else as_lines(number, one, per_token):
                    typer.echo(line)
    say(
        f"{len(sources):,} pairs · {n_tokens:,} tokens · log-probability {log_prob:.1f} nats · "
        f"perplexity {perplexity(log_prob, n_tokens):.3f}"
    )


def as_lines(number: int, scored: ScoredTranslation, per_token: bool) -> Iterator[str]:
    """Yield the output lines of a pair: one, or one per token."""
    if per_token:
        yield from (f"{number}\t{token.piece}\t{token.log_prob:.4f}" for token in scored.tokens)
    else:
        yield f"{number}\t{scored.log_prob:.4f}\t{scored.perplexity:.4f}\t{len(scored.tokens)}"


def as_json(scored: ScoredTranslation, per_token: bool) -> str:
    """Return a pair as one line of JSON."""
    record: dict[str, Any] = {
        "source": scored.source,
        "target": scored.target,
        "log_prob": scored.log_prob,
        "perplexity": scored.perplexity,
        "n_tokens": len(scored.tokens),
    }
    if per_token:
        record["tokens"] = [{"token": piece, "log_prob": value} for piece, value in scored.tokens]
    return json.dumps(record, ensure_ascii=False)


def _read(src: str, tgt: str, translator: Translator) -> tuple[list[str], list[str]]:
    """Read all sources and targets. DataError: a file cannot be read, or the numbers of lines differ."""
    from dragoman.data.corpora import open_corpus

    data = translator.config.data
    corpus = open_corpus([src, tgt], src_lang=data.src_lang, tgt_lang=data.tgt_lang)
    pairs = list(corpus.pairs())
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Show a progress bar on a terminal; yield a function from the start of a chunk to its callback."""
    from rich.progress import Progress

    from dragoman.cli.console import Console

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("scoring", total=total)
        yield lambda start: lambda done: bars.update(task, completed=start + done)
