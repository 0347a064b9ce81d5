"""How much memory the processes of a service use, and how much of it they share.

    python benchmarks/serve_memory.py RUN [n_workers …]      # by default 1 2 4

Each service translates until all its workers have done so, and is asked what Linux knows of its processes.
The last row is one service per worker of the largest, by what one of them uses.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
from concurrent.futures import ThreadPoolExecutor

from service_process import Memory, running

SENTENCE = "A man is riding a bike down a busy street."
N_REQUESTS = 200
MIB = 2**20


def main(run: str, *numbers: str) -> None:
    print("| processes | RSS, added up | memory used (PSS, added up) | a worker for itself (USS) |")
    print("|---|--:|--:|--:|")
    alone = most = 0
    for n_workers in map(int, numbers or ("1", "2", "4")):
        with running(run, "--workers", str(n_workers)) as service:
            with ThreadPoolExecutor(4 * n_workers) as pool:
                list(pool.map(translate, [service.port] * N_REQUESTS))
            workers = service.workers or [service.process.pid]
            pids = {service.process.pid, *workers}
            memory = {pid: Memory.of(pid) for pid in pids}
        own = statistics.median(memory[pid].uss for pid in workers)
        rss, pss = (sum(getattr(each, kind) for each in memory.values()) for kind in ("rss", "pss"))
        name = "1" if n_workers == 1 else f"1 + {n_workers} workers"
        print(f"| {name} | {rss / MIB:,.0f} MiB | {pss / MIB:,.0f} MiB | {own / MIB:,.0f} MiB |", flush=True)
        most = max(most, n_workers)
        if n_workers == 1:
            alone = memory[service.process.pid].uss
    if alone:
        print(f"| {most} of one each | | {most * alone / MIB:,.0f} MiB | |")


def translate(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"text": SENTENCE})
    connection.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    answer.read()
    connection.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arguments", nargs="+", help="a run, then numbers of workers: 1 2 4")
    main(*parser.parse_args().arguments)
