"""`dragoman score-model`: the probability of given translations under a run's model."""

from __future__ import annotations

from collections import Counter, deque
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import FILE_OR_STDOUT, check_outputs, say
from dragoman.cli.bulk import file_progress, run_job
from dragoman.cli.corpus_options import Columns, two_columns
from dragoman.cli.options import Device, Ensemble, Precision, RayAddress, RunPath, To, Workers
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.bulk.scoring import ScoringJob

STDOUT = Path("-")


def score_model(
    run: RunPath,
    files: Annotated[
        list[str],
        typer.Argument(
            help="Sources and their translations: two aligned files, or one file of pairs.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Output, compressed by its suffix; the same command continues after an interruption.",
        ),
    ] = STDOUT,
    mean: Annotated[
        bool,
        typer.Option("--mean", help="Write one number per pair: the mean log-probability of its tokens."),
    ] = False,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Write a line per token: pair, token, log-probability.")
    ] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per pair, not a table.")
    ] = False,
    columns: Columns = None,
    batch_tokens: Annotated[int, typer.Option(min=1, max=10**9, help="Tokens per batch.")] = 2048,
    to: To = None,
    ensemble: Ensemble = None,
    device: Device = "auto",
    precision: Precision = "auto",
    workers: Workers = 1,
    ray: RayAddress = None,
) -> None:
    """Score given translations by the model's own probabilities (forced decoding).

    Each output line has, separated by tabs: number of the pair, log-probability in nats, perplexity per
    token, number of tokens. The end token counts. Pairs that cannot be scored, since a side is empty or too
    long, have empty cells (with --mean an empty line) and are counted. A summary goes to stderr. The corpus
    is read as a stream, of any size.
    """
    from dragoman.bulk import scoring
    from dragoman.data.corpora import DEFAULT_COLUMNS
    from dragoman.data.readers.columns import by_name
    from dragoman.tasks.translation.task import check_precision

    check_precision(precision)
    if precision == "int8":
        raise ConfigError('--precision int8: is for search only; score translations in "fp32" or "bf16"')
    if mean and (per_token or json_):
        raise ConfigError("--mean writes a number per pair; omit --per-token and --json")
    if ray is not None and out == STDOUT:
        raise ConfigError(f"--ray {ray}: writes to a file; give --out FILE")
    if json_:
        write = scoring.as_json_tokens if per_token else scoring.as_json
    else:
        write = scoring.as_mean if mean else scoring.as_token_rows if per_token else scoring.as_row
    check_outputs(out, files=files, runs=[run, *(ensemble or ())])
    source, *targets = paths_of(files)
    pair_columns = two_columns(columns)
    job = scoring.ScoringJob(
        run, source, out,
        target=targets[0] if targets else None,
        columns=by_name(files[0], pair_columns) if pair_columns else DEFAULT_COLUMNS,
        write=write, batch_tokens=batch_tokens, to=to, ensemble=tuple(ensemble or ()),
        device=device, precision=precision,
    )  # fmt: skip
    corpus = job.corpus()
    if out == STDOUT:
        score_to_stdout(job, n_workers=workers)
    else:
        deque(corpus.pairs(), maxlen=0)  # complains now rather than after hours
        run_job(job, n_workers=workers, ray=ray)


def paths_of(files: list[str]) -> list[Path]:
    """Return the paths of one or two files of a corpus; those of stores are copied.

    Raises:
        DataError: there are more files, or one is missing.
    """
    from dragoman.data.corpora import PHRASEBOOK, open_corpus
    from dragoman.data.readers.arrow import HUB
    from dragoman.data.readers.files import find_file

    if len(files) > 2:
        open_corpus(files, src_lang="", tgt_lang="")  # complains
    return [Path(name) if name.startswith((PHRASEBOOK, HUB)) else find_file(name) for name in files]


def score_to_stdout(job: ScoringJob, *, n_workers: int) -> None:
    """Write scores as they come; the summary goes to stderr."""
    from dragoman.bulk.running import run_chunks

    counts: Counter[str] = Counter()
    n_lines = 0
    with (
        file_progress(job.noun) as show,
        closing(run_chunks(job, n_workers=n_workers, watch=show)) as results,
    ):
        for done in results:
            typer.echo(done.data.decode(), nl=False)
            counts.update(done.counts)
            n_lines += done.n_lines
    for remark in job.remarks(counts, n_lines=n_lines):
        say(remark)
