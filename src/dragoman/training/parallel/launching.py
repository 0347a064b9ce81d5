"""Launch the processes of a training on this machine, and restart them if one dies.

For several machines use `torchrun` (docs/distributed.md).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from dragoman.errors import TrainingError
from dragoman.runs import Run

RESTARTS = 3
"""Maximum restarts after a process has died."""

EXPECTED = {1, 2, 75, 130, 143}
"""Exit codes of a process that has reported its own reason."""

SHUTDOWN_TIMEOUT = 3600
"""Seconds that processes have to save and exit after a SIGTERM. The sender usually waits for less."""


def launch(
    n_processes: int,
    run: Run,
    *,
    max_hours: float = 0.0,
    options: Sequence[str] = (),
    say: Callable[[str], None],
) -> int:
    """Train `run` with `n_processes` processes and return their exit code, 0 = success.

    `max_hours` (0 = no limit) covers all restarts together. `options` are further options of `dragoman
    train` that are not settings of the run.

    When one of them dies the others are ended, and all of them continue from the last checkpoint. The
    launcher counts the restarts itself: PyTorch's would restart after a mistake in the recipe, too.

    Raises:
        TrainingError: restarts did not help.
    """
    for name in list(logging.root.manager.loggerDict):  # what happens is said below, in our words
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    arguments = ["-m", "dragoman", "train", str(run.config_path), "--out", str(run.path), *options]
    threads = max(1, (os.cpu_count() or 1) // n_processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SHUTDOWN_TIMEOUT))
    begun = time.monotonic()
    for attempt in range(RESTARTS + 1):
        with tempfile.TemporaryDirectory() as logs:
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=n_processes,
                run_id=run.path.name,
                rdzv_backend="c10d",
                rdzv_endpoint="127.0.0.1:0",
                local_addr="127.0.0.1",
                max_restarts=0,
                logs_specs=DefaultLogsSpecs(log_dir=logs),
            )
            try:
                elastic_launch(config, sys.executable)(*arguments, *hours_left(max_hours, since=begun))
            except ChildFailedError as error:
                failure = error.get_first_failure()[1]
                if failure.exitcode in EXPECTED:
                    return failure.exitcode
                what = describe(failure, n_processes, run)
                if attempt == RESTARTS:
                    raise TrainingError(
                        f"{what}, after {RESTARTS} restarts; saved checkpoints are kept"
                    ) from error
                say(f"{what}; restarting all processes from the last checkpoint")
            except SignalException as error:
                return 128 + error.sigval
            else:
                return 0
    raise AssertionError("the last attempt returns or raises")


def hours_left(max_hours: float, *, since: float) -> list[str]:
    """Return the option --max-hours with what is left of it since the time `since`, of `time.monotonic`.

    Where nothing is left, a moment is: an update and a checkpoint.
    """
    remaining = max(1e-9, max_hours - (time.monotonic() - since) / 3600)
    return ["--max-hours", str(remaining)] if max_hours else []


def describe(failure: ProcessFailure, n_processes: int, run: Run) -> str:
    """Say which process has died, of what, and after which step of the history."""
    code = failure.exitcode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    hint = " (out of memory?)" if code == -9 else ""
    steps = [record["step"] for record in run.history() if "step" in record]
    when = f"after step {max(steps)}" if steps else "before its first log line"
    return f"process {failure.local_rank} of {n_processes} {how}{hint} {when}"
