"""Translate chunks on a Ray cluster: Ray Data reads the file, actors keep a loaded translator.

The file is read once, in one stream, by whichever machine Ray chooses, so that the input must be at the same
place on all of them, as on a network file system; so must the run. A chunk is a row and a block of its own,
for Ray gives blocks to workers; blocks come back in their order. This process writes the output.

If a machine dies, Ray computes its blocks again on the others: the same bytes, since the result of a chunk
depends on the chunk alone. If no machine is left that can hold a worker, Ray waits without an end; `_watch`
gives up then.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.bulk.input import Chunk, Input
from dragoman.bulk.job import Done, Job
from dragoman.errors import ConfigError, DragomanError, RunError
from dragoman.processes import Tick

LOCAL = "local"
"""Address that starts a temporary cluster on this machine."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
STORE_BYTES = 256 << 20
"""Object-store bytes of a temporary cluster: some hundreds of chunks."""
AS_JSON = ("counts", "remarks")
"""Fields of `Done` that are no single values."""
PATIENCE = 300.0
"""Seconds without a machine for workers before giving up: a cluster that grows by itself needs minutes."""


def on_cluster(
    job: Job, read: Callable[[Input], Iterator[Chunk]], *, address: str, n_workers: int
) -> Generator[Done, None, None]:
    """Yield the result of each chunk of `read`, in order.

    `n_workers` translators run on the cluster at `address`, each with a core, or with a GPU or a share of one
    if there are GPUs.

    Raises:
        ConfigError: no cluster at this address.
        DragomanError: a worker reported an error; the message is the worker's.
        RunError: Ray failed.
    """
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    import ray
    import ray.data

    job = replace(job, model=job.model.resolved(), input=job.input.resolved())  # absolute paths
    with _connected(ray, address, n_workers=n_workers):
        dataset = _dataset(ray, job, partial(read, job.input), n_workers=n_workers)
        try:
            with closing(iter(dataset.iter_rows())) as rows:
                problem = yield from _results(rows)
        finally:  # Ray's scheduling threads end with this object; without a cluster they end the process
            del dataset
            gc.collect()
    if problem:
        raise problem


def _results(rows: Iterator[dict[str, Any]]) -> Generator[Done, None, DragomanError | None]:
    """Yield the results in `rows`; return the error that ended them, if any."""
    try:
        for row in rows:
            done = Done(**{**row, **{name: json.loads(row[name]) for name in AS_JSON}})
            if done.problem:
                return DragomanError(done.problem)
            yield done
    except RunError as error:  # of `_watch`
        return error
    except Exception as error:
        last = str(error).strip().splitlines()[-1:]
        return RunError(
            f"Ray gave up ({type(error).__name__}: {' '.join(last)}); what was finished is kept, and the "
            "same command continues"
        )
    return None


@contextmanager
def _connected(ray: Any, address: str, *, n_workers: int) -> Iterator[None]:
    """Connect to a cluster; a local one is started, with one core per worker, on the loopback interface."""
    options: dict[str, Any] = {}
    if address == LOCAL:
        options = {"num_cpus": n_workers, "object_store_memory": STORE_BYTES, "include_dashboard": False,
                   "_node_ip_address": "127.0.0.1"}  # fmt: skip
    try:
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        if colon and port.isdecimal():  # Ray itself retries for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"--ray {address}: no cluster is there ({reason}); start one with `ray start --head` and say "
            "--ray auto, or say --ray local"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _dataset(ray: Any, job: Job, chunks: Callable[[], Iterator[Chunk]], *, n_workers: int) -> Any:
    """Yield the rows of the results, computed lazily."""
    import pyarrow as pa

    def read() -> Iterator[pa.Table]:
        try:
            for chunk in chunks():
                yield pa.table({"chunk": [json.dumps(chunk, ensure_ascii=False)], "problem": [""]})
        except DragomanError as error:
            yield pa.table({"chunk": [""], "problem": [str(error)]})

    class Chunks(ray.data.Datasource):  # type: ignore[misc]
        """Yield the file as a stream of one-row tables."""

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            unknown = ray.data.block.BlockMetadata(
                num_rows=None, size_bytes=None, input_files=None, exec_stats=None
            )
            return [ray.data.ReadTask(read, unknown)]

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.target_min_block_size = context.target_max_block_size = 1  # a row: a block, a task
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    n_gpus = int(ray.cluster_resources().get("GPU", 0))
    share = gpu_of_worker(job.model.device, n_workers=n_workers, n_gpus=n_gpus)
    context.custom_execution_callback_classes = [_watch(ray, needed={"GPU": share} if share else {"CPU": 1})]
    return ray.data.read_datasource(Chunks(), override_num_blocks=1, num_cpus=0).map_batches(
        ClusterWorker,
        fn_constructor_args=(job,),
        batch_size=1,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=n_workers),
        num_cpus=0 if share else 1,
        num_gpus=share,
    )


def gpu_of_worker(device: str, *, n_workers: int, n_gpus: int) -> float:
    """Return each worker's share of a GPU, 0 to 1; several share one if there are fewer GPUs than workers."""
    return 1 / -(-n_workers // n_gpus) if n_gpus and device != "cpu" else 0.0


def _watch(ray: Any, *, needed: Mapping[str, float]) -> type[Any]:
    """Return the class of a callback that gives up where no machine of the cluster could hold a worker."""
    from ray.data._internal.execution.execution_callback import ExecutionCallback

    class Watch(ExecutionCallback):
        """Looks at the cluster's machines once a second, in the thread that schedules."""

        def __init__(self) -> None:
            self.looked = self.last_possible = time.monotonic()

        def on_execution_step(self, executor: Any) -> None:
            """Look again, if it is time. RunError: none of the machines had room for `PATIENCE` seconds."""
            now = time.monotonic()
            if now < self.looked + 1:
                return
            self.looked = now
            alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            if any(all(one.get(kind, 0) >= n for kind, n in needed.items()) for one in alive):
                self.last_possible = now
            elif now > self.last_possible + PATIENCE:
                what = " and ".join(f"{n:g} {kind}" for kind, n in needed.items())
                raise RunError(
                    f"the Ray cluster has had no machine with {what} for {PATIENCE:g} seconds (machines that "
                    f"are left: {len(alive)}); what was finished is kept, and the same command continues"
                )

    return Watch


class ClusterWorker:
    """A Ray actor that translates chunks."""

    def __init__(self, job: Job) -> None:
        import torch

        torch.set_num_threads(1)
        self.job = job
        self.translate: Callable[[Chunk, Tick], Done] | None = None

    def __call__(self, rows: Any) -> Any:
        """Translate a chunk; return one-row tables."""
        import pyarrow as pa

        (row,) = rows.to_pylist()
        done = Done(0, 0, 0, b"", {}, problem=row["problem"])
        if not done.problem:
            try:
                self.translate = self.translate or self.job.open()
                done = self.translate(Chunk(*json.loads(row["chunk"])), lambda n_lines: None)
            except DragomanError as error:
                done = done._replace(problem=str(error))
        return pa.table({k: [json.dumps(v) if k in AS_JSON else v] for k, v in done._asdict().items()})
