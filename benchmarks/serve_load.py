"""What a service does under load, beside the same sentences translated offline.

    python benchmarks/serve_load.py RUN
    python benchmarks/serve_load.py RUN --seconds 60 --workers 2 --set batching.threads=1

Sentences of the run's first test set, one a request, with the run's own beam, by clients on the same machine:

1. offline: all of them at once by `Translator.translate`, three times, in a process of its own;
2. one client, which waits for each answer before it asks again;
3. --clients clients that do so, for --seconds: throughput, and the memory of the service as it goes on;
4. --clients clients whose texts hold no sentence, for a fifth of --seconds and a minute at most: what HTTP,
   the service and the clients themselves cost without a search;
5. half load: requests that come at random moments (a Poisson process), at half of the throughput of 3, for as
   long;
6. --clients clients as before, but one of them sends a text of 100 sentences again and again, for as long.

A latency is from the first byte of a request to the last of its answer, p50 and p95 of all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from measuring import Result, parser_of, python
from service import MIB, Connection, ServiceProcess, request_bytes, running

PART, LONGEST_PART = 5, 60.0
"""A phase beside the main one takes this part of its time, and this many seconds at most."""


@dataclass
class Phase:
    """Latencies and statuses that clients measured."""

    name: str
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def note(self, status: int, latency: float) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.latencies.append(latency)

    @property
    def n_errors(self) -> int:
        """Answers other than 200, and connections that broke (status 0)."""
        return sum(n for status, n in self.statuses.items() if status != 200)

    @property
    def throughput(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds


def quantile(values: list[float], share: float) -> float:
    """Return the value below which so large a share of `values` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=int, default=1000, help="sentences of the test set")
    parser.add_argument("--set", action="append", default=[], help="setting of the service, NAME=VALUE")
    parser.add_argument("--offline", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.offline:
        print(json.dumps(translate_offline(options.run, options.limit)))
        return
    offline = json.loads(python(__file__, options.run, "--offline", "--limit", options.limit))
    settings = [argument for setting in options.set for argument in ("--set", setting)]
    with running(str(options.run), "--workers", str(options.workers), *settings) as service:
        phases, memory = uvloop.run(under_load(service, offline["sources"], options))
    with Result("serve_load", options) as result:
        report(result, offline["sentences_per_second"], phases, memory)


def translate_offline(run: Path, limit: int) -> dict[str, object]:
    """Return the sentences, and the median of how many are translated in a second."""
    from dragoman.predict.translator import Translator
    from texts import test_set

    sources, _, _ = test_set(run, limit)
    translator = Translator.load(run)
    translator.translate(sources[:100])
    speeds = []
    for _ in range(3):
        begun = time.perf_counter()
        translator.translate(sources)
        speeds.append(len(sources) / (time.perf_counter() - begun))
    return {"sources": sources, "sentences_per_second": statistics.median(speeds)}


async def under_load(
    service: ServiceProcess, sources: list[str], options: argparse.Namespace
) -> tuple[list[Phase], list[float]]:
    """Return the phases, and the service's memory in MiB at moments of the main one."""
    requests = [request_bytes("/v1/translate", {"text": source, "split": False}) for source in sources]
    part = min(options.seconds / PART, LONGEST_PART)
    warm = Phase("warm-up")
    await closed_loop(service, requests, warm, n_clients=options.clients, seconds=min(5.0, part))
    alone = Phase("one client")
    await closed_loop(service, requests, alone, n_clients=1, seconds=part)
    full = Phase(f"{options.clients} clients")
    memory: list[float] = []
    watching = asyncio.create_task(watch_memory(service, memory))
    await closed_loop(service, requests, full, n_clients=options.clients, seconds=options.seconds)
    watching.cancel()
    empty = Phase(f"{options.clients} clients, no sentence")
    nothing = request_bytes("/v1/translate", {"text": " ", "split": True})
    await closed_loop(service, [nothing], empty, n_clients=options.clients, seconds=part)
    half = Phase("half load")
    await open_loop(service, requests, half, per_second=full.throughput / 2, seconds=part)
    beside = Phase(f"{options.clients - 1} clients beside a book")
    book = request_bytes("/v1/translate", {"text": "\n".join(sources[:100])})
    await closed_loop(service, requests, beside, n_clients=options.clients - 1, seconds=part, beside=[book])
    return [alone, full, empty, half, beside], memory


async def closed_loop(
    service: ServiceProcess,
    requests: list[bytes],
    phase: Phase,
    *,
    n_clients: int,
    seconds: float,
    beside: list[bytes] | None = None,
) -> None:
    """Clients that ask again as soon as they are answered; one more sends what is `beside`, uncounted."""
    begun = time.perf_counter()
    end = begun + seconds

    async def client(number: int, own: list[bytes], note: Phase) -> None:
        connection = Connection(service.port)
        turn = number * 7919
        while time.perf_counter() < end:
            await connection.timed(own[turn % len(own)], note.note)
            turn += 1
        connection.close()

    clients = [client(i, requests, phase) for i in range(n_clients)]
    if beside is not None:
        clients.append(client(0, beside, Phase("beside")))
    await asyncio.gather(*clients)
    phase.seconds = time.perf_counter() - begun


async def open_loop(
    service: ServiceProcess, requests: list[bytes], phase: Phase, *, per_second: float, seconds: float
) -> None:
    """Send requests at random moments, without waiting for earlier answers."""
    rng = random.Random(1)
    idle: list[Connection] = []
    begun = time.perf_counter()

    async def ask(request: bytes) -> None:
        connection = idle.pop() if idle else Connection(service.port)
        await connection.timed(request, phase.note)
        idle.append(connection)

    asked, moment = [], begun
    while moment < begun + seconds:
        moment += rng.expovariate(per_second)
        await asyncio.sleep(max(0.0, moment - time.perf_counter()))
        asked.append(asyncio.create_task(ask(rng.choice(requests))))
    await asyncio.gather(*asked)
    phase.seconds = time.perf_counter() - begun
    for connection in idle:
        connection.close()


async def watch_memory(service: ServiceProcess, memory: list[float]) -> None:
    """Note the memory of the service every second."""
    while True:
        memory.append(service.memory / MIB)
        await asyncio.sleep(1.0)


def report(result: Result, offline: float, phases: list[Phase], memory: list[float]) -> None:
    """Print the table, and how it compares."""
    alone, full, empty, half, _ = phases
    table = result.table(
        {"": "", "requests": ",", "errors": ",", "a second": ".0f", "p50, ms": ".0f", "p95, ms": ".0f"}
    )
    table.add("offline", None, None, offline, None, None)
    for phase in phases:
        p50, p95 = (1000 * quantile(phase.latencies, share) for share in (0.5, 0.95))
        table.add(phase.name, len(phase.latencies), phase.n_errors, phase.throughput, p50, p95)
    print()
    result.figure("throughput, % of offline", 100 * full.throughput / offline, ".0f")
    bound = empty.throughput / (empty.throughput + offline)
    result.figure("the same were searches as fast as offline, % of offline", 100 * bound, ".0f")
    ratio = quantile(half.latencies, 0.95) / statistics.median(alone.latencies)
    result.figure("p95 at half load, times the median of one client", ratio, ".1f")
    tenth = max(1, len(memory) // 10)
    for name, part in (("second", memory[tenth : 2 * tenth]), ("last", memory[-tenth:])):
        result.figure(f"memory in the {name} tenth of the time, MiB", statistics.median(part), ".0f")


if __name__ == "__main__":
    main()
