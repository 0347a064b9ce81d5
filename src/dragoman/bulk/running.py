"""Do a job: in this process, in others or on Ray; with progress, and resumable where there is a journal."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO

from dragoman.bulk.input import Chunk
from dragoman.bulk.job import Done, Job
from dragoman.bulk.journal import Journal
from dragoman.bulk.output import write_output
from dragoman.data.readers.files import compressed
from dragoman.errors import require
from dragoman.files import refuse_overwriting
from dragoman.hardware import limit_threads, n_gpus
from dragoman.processes import Tick, in_order, usable_cores
from dragoman.runs import Run


@dataclass
class Status:
    """How far a job is, and in the end what it has come to."""

    share: float = 0.0
    """Fraction of the input that has been read, 0 to 1; 0 = none yet, or unknown."""
    n_read: int = 0
    """Lines that have been read."""
    n_earlier: int = 0
    """Lines that were done before this sitting."""
    n_new: int = 0
    """Lines done in this sitting, those of unfinished chunks included."""
    seconds: float = 0.0
    """How long this sitting has lasted."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """In the end: what was left out, by reason."""

    @property
    def n_lines(self) -> int:
        """Lines that are done."""
        return self.n_earlier + self.n_new

    @property
    def lines_per_second(self) -> float:
        """Speed since the start of this call, including loading the weights."""
        return self.n_new / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining seconds, if the remaining lines have the same length; None = too early."""
        if not self.n_new or not self.share:
            return None
        return max(0.0, self.n_read / self.share - self.n_lines) / self.lines_per_second


class Plain:
    """Output without a journal: lines on stdout as they are done; files and documents whole."""

    def __init__(self, job: Job, say: Callable[[str], None]) -> None:
        """`say` receives what is to be said of single lines, and of a document."""
        self.job, self.say = job, say
        self.n_lines, self.digest, self.finished = 0, "", False
        self.counts: Counter[str] = Counter()
        self._text, self._links = StringIO(), StringIO()

    def append(self, chunk: Chunk, done: Done) -> None:
        """Take the result of the next lines."""
        for number, remark in done.remarks:
            self.say(f"{self.job.input.place(number)}{remark}")
        self.n_lines += len(chunk.lines)
        self.counts.update(done.counts)
        self._links.write(done.links)
        if self.job.out is None and self.job.input.ending is None:
            write_output(None, done.data.decode())
        else:
            self._text.write(done.data.decode())

    def finish(self) -> None:
        """Write what is written whole. RunError: it cannot be."""
        job, text = self.job, self._text.getvalue()
        if job.input.ending is not None:
            document = job.input.document
            write_output(job.out, document.written(list(map(json.loads, text.splitlines()))))
            for note in document.notes:
                self.say(f"{job.input.name}: {note}")
        elif job.out is not None:
            write_output(job.out, text)
        if job.pharaoh is not None:
            write_output(job.pharaoh, self._links.getvalue())


def translate_file(
    job: Job,
    *,
    n_workers: int = 1,
    ray: str | None = None,
    chunk_lines: int | None = None,
    watch: Callable[[Status], None] = lambda status: None,
    say: Callable[[str], None] = lambda line: None,
) -> Status:
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
    start, status = time.monotonic(), Status()
    refuse_overwriting(
        job.out,
        inputs=[*job.input.files, *(file for run in job.model.runs for file in Run.open(run).files())],
    )
    if chunk_lines is None:
        chunk_lines = job.chunk_lines(n_workers)
    output: AbstractContextManager[Journal | Plain] = nullcontext(Plain(job, say))
    if job.out is not None and job.has_journal:
        output = Journal(job.out, {**job.described(), "chunk_lines": chunk_lines})
    pending: deque[Chunk] = deque()

    def tick(n_lines: int) -> None:
        status.n_new += n_lines
        status.seconds = time.monotonic() - start
        watch(status)

    def read(n_done: int, digest: str) -> Iterator[Chunk]:
        for chunk in job.input.chunks(n_done=n_done, digest=digest, chunk_lines=chunk_lines):
            status.n_read, status.share = chunk.first_number - 1 + len(chunk.lines), chunk.share
            pending.append(chunk)
            yield chunk

    with output as written:
        status.n_read = status.n_earlier = written.n_lines
        if not written.finished:
            chunks = read(written.n_lines, written.digest)
            with closing(_results(job, chunks, tick, n_workers=n_workers, ray=ray)) as results:
                for done in results:
                    written.append(pending.popleft(), done)
                    tick(max(0, written.n_lines - status.n_lines))
        written.finish()
    status.counts, status.seconds = written.counts, time.monotonic() - start
    return status


def _results(
    job: Job, chunks: Iterator[Chunk], tick: Tick, *, n_workers: int, ray: str | None
) -> Generator[Done, None, None]:
    """Return the results of the chunks, in order. Parameters and errors: those of `translate_file`."""
    if ray is None and n_workers == 1:
        translate = job.open()
        return (translate(chunk, tick) for chunk in chunks)
    job = replace(job, model=replace(job.model), input=replace(job.input))  # without what is loaded here
    if ray is not None:
        from dragoman.bulk.cluster import on_cluster

        return on_cluster(job, chunks, address=ray, n_workers=n_workers)
    remedy = "the same command starts again"
    if job.has_journal:
        remedy = "what was finished is kept, and the same command continues"
    return in_order(partial(_open, job, n_workers), chunks, n_workers=n_workers, tick=tick, remedy=remedy)


def _open(job: Job, n_workers: int, number: int) -> Callable[[Chunk, Tick], Done]:
    """Return the opened job with this worker's share of cores, or one of the GPUs."""
    limit_threads(max(1, usable_cores() // n_workers))
    device = device_of_worker(job.model.device, number, n_gpus=n_gpus())
    return replace(job, model=replace(job.model, device=device)).open()


def device_of_worker(device: str, number: int, *, n_gpus: int) -> str:
    """Return the device of worker `number`: where any GPU will do, they take turns."""
    return f"cuda:{number % n_gpus}" if n_gpus and device in ("auto", "cuda") else device
