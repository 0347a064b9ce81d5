"""Do a job: in this process, in others or on Ray; with progress, and resumable where there is a journal."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import NamedTuple

import torch

from dragoman.bulk.input import Chunk, Input
from dragoman.bulk.job import Done, Job
from dragoman.bulk.journal import Journal
from dragoman.bulk.output import write_output
from dragoman.data.readers.files import compressed
from dragoman.errors import ConfigError, require
from dragoman.files import refuse_overwriting
from dragoman.processes import Tick, in_order, usable_cores
from dragoman.runs import Run


@dataclass
class Status:
    """How far a translation is."""

    size: int
    """Bytes of the input, as it is stored; 0 = unknown ..."""
    n_bytes: int
    """... and those that have been read; 0 = none yet, or unknown."""
    n_read: int
    """Lines that have been read."""
    n_earlier: int
    """Lines that were done before this sitting."""
    n_new: int
    """Lines translated in this sitting, those of unfinished chunks included."""
    seconds: float
    """How long this sitting has lasted."""

    @property
    def share(self) -> float:
        """Fraction of the input that has been read, 0 to 1."""
        return min(1.0, self.n_bytes / self.size) if self.size else 0.0

    @property
    def lines_per_second(self) -> float:
        """Speed since the start of this call, including loading the weights."""
        return self.n_new / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining seconds, if the remaining lines have the same length; None = too early."""
        if not self.n_new or not self.share:
            return None
        n_lines = self.n_read / self.share
        return max(0.0, n_lines - self.n_earlier - self.n_new) / self.lines_per_second


class Summary(NamedTuple):
    """What a job comes to."""

    n_lines: int
    """Of the input."""
    n_new: int
    """Of those, done in this sitting."""
    counts: Mapping[str, int]
    """What was left out, by reason."""
    seconds: float
    """How long this sitting has lasted."""


class Plain:
    """Output without a journal: lines on stdout as they are done; files and documents whole."""

    def __init__(self, job: Job, say: Callable[[str], None]) -> None:
        """`say` receives what is to be said of single lines, and of a document."""
        self.job, self.say = job, say
        self.n_lines, self.digest, self.finished = 0, "", False
        self.counts: Counter[str] = Counter()
        self._data: list[str] = []
        self._links: list[str] = []

    def append(self, done: Done) -> None:
        """Take the result of the next lines."""
        for remark in done.remarks:
            self.say(remark)
        self.n_lines += done.n_lines
        self.counts.update(done.counts)
        self._data.append(done.data.decode())
        self._links.append(done.links)
        if self.job.out is None and self.job.input.ending is None:
            write_output(None, self._data.pop())

    def finish(self) -> None:
        """Write what is written whole. RunError: it cannot be."""
        job, content = self.job, "".join(self._data)
        if job.input.ending is not None:
            document = job.input.document
            write_output(job.out, document.written(list(map(json.loads, content.splitlines()))))
            for note in document.notes:
                self.say(f"{job.input.name}: {note}")
        elif job.out is not None:
            write_output(job.out, content)
        if job.pharaoh is not None:
            write_output(job.pharaoh, "".join(self._links))


def translate_file(
    job: Job,
    *,
    n_workers: int = 1,
    ray: str | None = None,
    chunk_lines: int | None = None,
    watch: Callable[[Status], None] = lambda status: None,
    say: Callable[[str], None] = lambda line: None,
) -> Summary:
    """Do a job, or continue one that was interrupted.

    The output does not depend on the number of workers. `ray` is the address of a Ray cluster to use. `watch`
    receives the progress, `say` what is to be said of single lines. If the job has a journal, finished chunks
    are kept on an error, and the same call continues.

    Raises:
        DataError: the input cannot be read, or lines of it that are done have changed.
        ConfigError: a setting is wrong; the output is the input or a file of the run.
        RunError: a worker died; the output cannot be written, or was started with other settings.
    """
    compressed(b"", job.out.name if job.out else "")  # complains now rather than later
    if ray is not None:
        require("ray", extra="ray", purpose=f"--ray {ray}")
        if job.input.is_stream:
            raise ConfigError(f"--ray {ray}: {job.input.name} cannot be read on a cluster; name a file")
    start = time.monotonic()
    refuse_overwriting(
        job.out,
        inputs=[*job.input.files, *(file for run in job.model.runs for file in Run.open(run).files())],
    )
    if chunk_lines is None:
        chunk_lines = job.chunk_lines(n_workers)
    output: AbstractContextManager[Journal | Plain] = nullcontext(Plain(job, say))
    if job.out is not None and job.has_journal:
        output = Journal(job.out, {**job.described(), "chunk_lines": chunk_lines})
    with output as written:
        n_earlier = written.n_lines
        if not written.finished:
            results = run_chunks(
                job, n_workers=n_workers, ray=ray, chunk_lines=chunk_lines, watch=watch,
                n_done=n_earlier, digest=written.digest,
            )  # fmt: skip
            with closing(results):
                for done in results:
                    written.append(done)
        written.finish()
    return Summary(written.n_lines, written.n_lines - n_earlier, written.counts, time.monotonic() - start)


def run_chunks(
    job: Job,
    *,
    n_workers: int,
    ray: str | None,
    chunk_lines: int,
    watch: Callable[[Status], None],
    n_done: int,
    digest: str,
) -> Generator[Done, None, None]:
    """Yield the result of each chunk of the input, in order, from line `n_done` + 1 on.

    Parameters and errors are those of `translate_file`; nothing is written.
    """
    start = time.monotonic()
    status = Status(job.input.size(), 0, n_done, n_done, 0, 0.0)

    def tick(n_lines: int) -> None:
        status.n_new += n_lines
        status.seconds = time.monotonic() - start
        watch(status)

    read: Callable[[Input], Iterator[Chunk]] = methodcaller(
        "chunks", n_done=n_done, digest=digest, chunk_lines=chunk_lines
    )

    def chunks() -> Iterator[Chunk]:
        for chunk in read(job.input):
            status.n_read, status.n_bytes = chunk.first_number - 1 + len(chunk.lines), chunk.n_bytes
            yield chunk

    results: Generator[Done, None, None]
    if job.model.engine != "native" and (ray is not None or n_workers > 1):
        replace(job.model).translator  # converts the run once, and not in each worker  # noqa: B018
    if ray is not None:
        from dragoman.bulk.cluster import on_cluster

        results = on_cluster(job, read, address=ray, n_workers=n_workers)
    elif n_workers == 1:
        translate = job.open()
        results = (translate(chunk, tick) for chunk in chunks())
    else:
        remedy = "the same command starts again"
        if job.has_journal:
            remedy = "what was finished is kept, and the same command continues"
        open_job = partial(_open, job, n_workers)
        results = in_order(open_job, chunks(), n_workers=n_workers, tick=tick, remedy=remedy)
    with closing(results):
        for done in results:
            yield done
            n_lines = done.first_number - 1 + done.n_lines
            if status.n_read < n_lines:  # read elsewhere
                status.n_read, status.n_bytes = n_lines, done.n_bytes
            tick(max(0, n_lines - n_done - status.n_new))


def _open(job: Job, n_workers: int, number: int) -> Callable[[Chunk, Tick], Done]:
    """Return the opened job with this worker's share of cores, or one of the GPUs."""
    torch.set_num_threads(min(torch.get_num_threads(), max(1, usable_cores() // n_workers)))
    device = device_of_worker(job.model.device, number, n_gpus=torch.cuda.device_count())
    return replace(job, model=replace(job.model, device=device)).open()


def device_of_worker(device: str, number: int, *, n_gpus: int) -> str:
    """Return the device of worker `number`: where any GPU will do, they take turns."""
    return f"cuda:{number % n_gpus}" if n_gpus and device in ("auto", "cuda") else device
