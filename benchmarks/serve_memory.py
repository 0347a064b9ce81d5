"""How much memory the processes of a service use, and how much of it they share.

    python benchmarks/serve_memory.py RUN [n_workers …]      # by default 1 2 4

Each service translates until all its workers have done so, and is asked what Linux knows of its processes.
The last row is one service per worker of the largest, by what one of them uses.
"""

from __future__ import annotations

import asyncio
import statistics

from measuring import Result, parser_of
from service import MIB, Connection, Memory, request_bytes, running

REQUEST = request_bytes("/v1/translate", {"text": "A man is riding a bike down a busy street."})
N_REQUESTS = 50
"""Of each of four clients a worker."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run")
    parser.add_argument("workers", type=int, nargs="*", default=[1, 2, 4])
    options = parser.parse_args()
    with Result("serve_memory", options) as result:
        columns = {"processes": "", "RSS, added up, MiB": ",.0f", "memory used (PSS, added up), MiB": ",.0f"}
        table = result.table(columns | {"a worker for itself (USS), MiB": ",.0f"})
        alone = 0.0
        for n_workers in options.workers:
            with running(options.run, "--workers", str(n_workers)) as service:
                asyncio.run(translate(service.port, 4 * n_workers))
                workers = service.workers or [service.process.pid]
                memory = {pid: Memory.of(pid) for pid in {service.process.pid, *workers}}
            own = statistics.median(memory[pid].uss for pid in workers) / MIB
            alone = own if n_workers == 1 else alone
            rss, pss = (
                sum(each) / MIB for each in zip(*((m.rss, m.pss) for m in memory.values()), strict=True)
            )
            table.add("1" if n_workers == 1 else f"1 + {n_workers} workers", rss, pss, own)
        if alone:
            most = max(options.workers)
            table.add(f"{most} of one each", None, most * alone, None)


async def translate(port: int, n_clients: int) -> None:
    """Let clients translate a sentence again and again."""

    async def client() -> None:
        connection = Connection(port)
        statuses = {await connection.ask(REQUEST) for _ in range(N_REQUESTS)}
        assert statuses == {200}, statuses
        connection.close()

    await asyncio.gather(*(client() for _ in range(n_clients)))


if __name__ == "__main__":
    main()
