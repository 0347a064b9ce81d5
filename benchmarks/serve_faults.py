"""What a service does when its clients, and its own processes, misbehave.

    python benchmarks/serve_faults.py RUN [RUN …] [--scale 1.0] [--rounds 1]

Starts `dragoman serve RUN --workers 2` and does one bad thing after another to it; while it does, another
client asks for a translation five times a second, on connections of its own. A row for each: how many
requests (connections, deaths) there were; the statuses of their answers, where "none" means that the
connection ended without one; 500s and errors in the log that should not be; workers that died although
nobody killed them; the slowest answer to the other client, and how many of its requests failed; the memory
of all processes (PSS, which counts what they share once) before and after; and the time. `--scale` makes
everything that much shorter; `--rounds` repeats all of it on one service, whose memory should then
be what it was after the first.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from attacks.documents import docx
from attacks.requests import SURPRISES, malformed, post
from service import MIB, ServiceProcess, running

PATIENCE = 1.0
"""Seconds that the service gives a slow client."""

SECONDS = 20.0
"""That the service gives a request."""

LARGE = ("limits.characters=1200000", "limits.body_bytes=2000000")
"""Settings of a service that takes a million characters."""

SENTENCE = "A man is riding a bike down a busy street."
KEY = "a key that the service knows"
GOOD = post("/v1/translate", json.dumps({"text": SENTENCE}).encode(), "application/json", f"X-API-Key: {KEY}")
AT_ONCE = 16
"""Connections of a client that sends many requests."""

UNEXPECTED = ("an error that should not be", "Exception in ASGI", "Traceback", "a worker cannot go on")


@dataclass
class Faults:
    """Everything that is done to a service, at a fraction of its full length."""

    service: ServiceProcess
    scale: float
    patience: float = PATIENCE
    seconds: float = SECONDS
    n_killed: int = 0
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    """Of malformed requests, the statuses of each kind."""

    def n(self, number: int) -> int:
        """Return the number at this scale."""
        return max(1, round(number * self.scale))

    async def killed_workers(self) -> Counter[str]:
        """Workers are killed while clients ask without a pause."""
        found: Counter[str] = Counter()
        over = False

        async def ask_on() -> None:
            while not over:
                found[await self.exchange(GOOD)] += 1

        clients = [asyncio.ensure_future(ask_on()) for _ in range(8)]
        for _ in range(self.n(10)):
            await asyncio.sleep(max(0.5, 2 * self.scale))
            workers = self.service.workers
            if workers:
                os.kill(workers[0], signal.SIGKILL)
                self.n_killed += 1
        await asyncio.sleep(1.0)
        over = True
        await asyncio.gather(*clients)
        return found

    async def malformed_requests(self) -> Counter[str]:
        """Send malformed requests."""
        requests = list(itertools.islice(malformed(), self.n(10_000)))

        async def send(each: tuple[str, bytes]) -> str:
            kind, content = each
            status = await self.exchange(content)
            self.kinds.setdefault(kind, Counter())[status] += 1
            return status

        return await at_once(map(send, requests))

    async def slow_heads(self) -> Counter[str]:
        """Heads of which a byte comes now and then."""
        return await together(
            self.pour(b"GET / HTTP/1.1\r\nX: ", b"y", every=0.1) for _ in range(self.n(200))
        )

    async def slow_bodies(self) -> Counter[str]:
        """Bodies of which a byte comes now and then, until the whole request has taken too long."""
        start = GOOD.replace(b"Content-Length: ", b"Content-Length: 9")[:-20]
        return await together(self.pour(start, b" ", every=0.1) for _ in range(self.n(100)))

    async def silent_bodies(self) -> Counter[str]:
        """Bodies that end in the middle."""
        return await together(self.exchange(GOOD[:-10]) for _ in range(self.n(200)))

    async def endless_bodies(self) -> Counter[str]:
        """Bodies without an end, as fast as they are taken."""
        chunked = b"POST /v1/translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        large = b"POST /v1/translate HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"
        tasks = [self.pour(chunked, chunk) for _ in range(self.n(50))]
        tasks += [self.pour(large, b" " * 65_536) for _ in range(self.n(50))]
        return await at_once(tasks)

    async def keyless_uploads(self) -> Counter[str]:
        """Large files without a key, of which as much is sent as is taken."""
        heads = [
            f"POST {path} HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            "Content-Length: 10000000\r\n\r\n"
            "--x\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\n"
            for path in ("/v1/documents", "/translate_file")
        ]
        return await together(self.pour(head.encode(), b" " * 65_536) for head in heads * self.n(40))

    async def slow_readers(self) -> Counter[str]:
        """Readers of a stream, and of large answers, that take a byte now and then, or nothing."""
        text = [f"{SENTENCE} {i}" for i in range(100)]
        stream = post("/v1/translate", json.dumps({"text": text, "stream": True}).encode())
        large = post("/v1/translate", json.dumps({"text": text, "n_best": 4, "align": True}).encode())
        some = self.n(40)
        return await together(self.read_slowly(each) for each in [stream, large] * max(1, some // 2))

    async def leaving_clients(self) -> Counter[str]:
        """Clients that leave in the middle of a request or an answer, politely or not."""
        rng = random.Random(2)
        body = {"text": [SENTENCE] * 20, "stream": False}
        requests = [post("/v1/translate", json.dumps(body | {"stream": s}).encode()) for s in (True, False)]
        found = await at_once(self.leave(rng.choice(requests), rng) for _ in range(self.n(1000)))
        await asyncio.sleep(1.0)
        return found

    async def long_words(self) -> Counter[str]:
        """Return a million characters without a space."""
        words = ["x" * 1_000_000, "Donaudampfschiff" * 62_500, "語" * 330_000]
        bodies = [json.dumps({"text": word}, ensure_ascii=False).encode() for word in words]
        requests = [post("/v1/translate", body) for body in bodies * self.n(3)]
        return await at_once((self.exchange(each) for each in requests), 2)

    async def surprising_texts(self) -> Counter[str]:
        """Right to left, emoji, combining and invisible characters: all are to be answered."""
        bodies = [
            {"text": text, "align": True, "confidence": True, "n_best": 2, "stream": stream}
            for text in SURPRISES.values()
            for stream in (False, True)
        ]
        requests = [post("/v1/translate", json.dumps(body).encode()) for body in bodies] * 5
        requests = requests[: self.n(len(requests))]
        return await at_once((self.exchange(each) for each in requests), 2)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.service.port)

    async def exchange(self, content: bytes, *, seconds: float | None = None) -> str:
        """Return the status of the answer to `content`, which may be no request at all."""
        try:
            reader, writer = await self.connect()
        except OSError:
            return "refused"
        try:
            writer.write(content)
            return await asyncio.wait_for(answered(reader), seconds or 2 * self.seconds)
        except asyncio.TimeoutError:
            return "late"
        finally:
            writer.close()

    async def pour(self, start: bytes, piece: bytes, *, every: float = 0.0) -> str:
        """Return the status of the answer to what has no end, or comes piece by piece, `every` seconds."""
        reader, writer = await self.connect()
        answer = asyncio.ensure_future(answered(reader))
        with suppress(ConnectionError):
            writer.write(start)
            while not answer.done():
                writer.write(piece)
                await (asyncio.sleep(every) if every else writer.drain())
        writer.close()
        return await answer

    async def read_slowly(self, content: bytes) -> str:
        """Take next to nothing of the answer, with as little room for it as there can be."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", self.service.port))
        try:
            await loop.sock_sendall(client, content)
            first = await asyncio.wait_for(loop.sock_recv(client, 12), 2 * self.seconds)
            for _ in range(round(4 * self.patience / 0.1)):
                await asyncio.sleep(0.1)
                await asyncio.wait_for(loop.sock_recv(client, 1), 1.0)
            return first[9:].decode() or "none"
        except (ConnectionError, asyncio.TimeoutError):
            return "none"
        finally:
            client.close()

    async def leave(self, content: bytes, rng: random.Random) -> str:
        """Leave somewhere between the first byte and the last."""
        reader, writer = await self.connect()
        with suppress(ConnectionError, asyncio.TimeoutError):
            writer.write(content[: rng.choice([len(content), rng.randint(1, len(content))])])
            await asyncio.wait_for(reader.read(rng.randint(1, 3000)), rng.random() * 0.3)
        if rng.random() < 0.5:  # with a reset
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        return "left"


FAULTS: dict[str, Callable[[Faults], Awaitable[Counter[str]]]] = {
    "malformed requests": Faults.malformed_requests,
    "slow heads": Faults.slow_heads,
    "slow bodies": Faults.slow_bodies,
    "bodies that stop": Faults.silent_bodies,
    "bodies without end": Faults.endless_bodies,
    "readers that do not read": Faults.slow_readers,
    "clients that leave": Faults.leaving_clients,
    "surprising texts": Faults.surprising_texts,
    "a million characters without a space": Faults.long_words,
    "kill -9 of a worker under load": Faults.killed_workers,
}

LOCKED_FAULTS = {"uploads without a key": Faults.keyless_uploads}
"""What is done to a service that needs keys."""

LARGE_FAULTS = {"the same, where limits allow it": Faults.long_words}


ALL_FAULTS = FAULTS | LARGE_FAULTS | LOCKED_FAULTS

DOCUMENTS = {
    "paragraphs": (".docx", "{}", "<w:p/>"),
    "runs": (".docx", "<w:p>{}</w:p>", "<w:r/>"),
    "text in runs": (".docx", "<w:p>{}</w:p>", "<w:r><w:t>a </w:t></w:r>"),
    "attributes": (".docx", "<w:p {}/>", 'a{n}="" '),
    "links": (".docx", "<w:p>{}</w:p>", "<w:hyperlink><w:r><w:t>a </w:t></w:r></w:hyperlink>"),
    "bookmarks": (".docx", "<w:p>{}<w:r><w:t>a</w:t></w:r></w:p>", "<w:bookmarkStart/>"),
    "attributes of paragraphs": (".docx", "{}", '<w:p a="" b="" c=""/>'),
    "units": (".tmx", "{}", "<tu/>"),
    "languages of a unit": (".tmx", "<tu>{}</tu>", "<tuv/>"),
    "segments": (".tmx", "{}", '<tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>'),
    "codes": (".tmx", '<tu><tuv xml:lang="en"><seg>a {}</seg></tuv></tu>', "<ph/>"),
    "tags": (".html", "{}", "<b>"),
    "pairs of tags": (".html", "a{}", "<b></b>"),
    "lines in pairs of tags": (".html", f"<pre>{'<b>' * 50}{{}}", "a\n"),
    "texts": (".html", "{}", "<p>a"),
    "attributes of a tag": (".html", "<p {}>", "a "),
    "cues": (".srt", "{}", "1\n00:00:01,000 --> 00:00:02,000\na\n\n"),
    "lines of cues": (".srt", "{}", "1\n00:00:01,000 --> 00:00:02,000\n" + "a\n" * 100 + "\n"),
    "lines": (".txt", "{}", "a\n"),
    "empty lines": (".txt", "{}", "\n"),
    "sentences": (".txt", "{}", "A. "),
    "one word": (".txt", "{}", "a"),
}
"""By name: the format, what stands around all, and what is repeated, where {n} is its number."""

UNPACKED = {".docx": 60 * MIB}
"""Bytes of a document before it is packed; of other formats what a service takes by default."""


def swelling(name: str, scale: float) -> tuple[str, bytes]:
    """Return the name of a file, and its content: much of one thing."""
    ending, around, unit = DOCUMENTS[name]
    n = max(1, round(UNPACKED.get(ending, 10 * MIB - 1000) * scale) // len(unit.format(n=10**6)))
    units = "".join(unit.format(n=i) for i in range(n)) if "{n}" in unit else unit * n
    body = around.format(units)
    if ending == ".docx":
        return "a.docx", docx(random.Random(1), [], body)
    if ending == ".tmx":
        body = f'<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>'
    return f"a{ending}", body.encode()


async def swell(faults: Faults, name: str, *, pause: float = 1.2) -> str:
    """Send a document, and say in a row of the table what came of it.

    Before that, it waits for `pause` seconds, in which a service gives freed memory back.
    """
    service, slowest, most = faults.service, 0.0, 0
    filename, content = swelling(name, faults.scale)
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'.encode()
    body = head + content + b"\r\n--x--\r\n"
    request = post("/v1/documents", body, "multipart/form-data; boundary=x")
    await asyncio.sleep(pause)
    before, begun = service.memory, time.perf_counter()
    sending = asyncio.ensure_future(faults.exchange(request, seconds=600))
    while not sending.done():
        asked = time.perf_counter()
        await faults.exchange(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        slowest = max(slowest, time.perf_counter() - asked)
        most = max(most, service.memory - before)
        await asyncio.wait({sending}, timeout=0.05)
    seconds = time.perf_counter() - begun
    return (
        f"| {filename[1:]}, {name} | {len(content) / 1024:,.0f} KiB | {sending.result()} | {seconds:.1f} s "
        f"| {most / MIB:.0f} MiB | {most / len(content):.0f} KiB | {slowest:.2f} s |"
    )


async def answered(reader: asyncio.StreamReader) -> str:
    """Return the status of an answer that has come whole; "none": the connection ended before."""
    try:
        line = await reader.readline()
        while line.startswith(b"HTTP/1.1 1"):  # go on
            while (await reader.readline()).strip():
                pass
            line = await reader.readline()
        if not line.startswith(b"HTTP/1.1 "):
            return "none"
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        return "none"
    return line[9:12].decode()


async def at_once(tasks: Iterable[Awaitable[str]], n_clients: int = AT_ONCE) -> Counter[str]:
    """Run the tasks, some of them at a time, and return their results."""
    left = iter(tasks)
    found: Counter[str] = Counter()

    async def work() -> None:
        for task in left:
            found[await task] += 1

    await asyncio.gather(*(work() for _ in range(n_clients)))
    return found


async def together(tasks: Iterable[Awaitable[str]]) -> Counter[str]:
    """Run the tasks, all of them at a time, and return their results."""
    return Counter(await asyncio.gather(*tasks))


@dataclass
class Other:
    """A client that wants nothing but translations, five times a second."""

    faults: Faults
    slowest: float = 0.0
    n_asked: int = 0
    n_failed: int = 0
    over: bool = False

    async def run(self) -> None:
        while not self.over:
            begun = time.perf_counter()
            status = await self.faults.exchange(GOOD)
            self.slowest = max(self.slowest, time.perf_counter() - begun)
            self.n_asked += 1
            self.n_failed += status != "200"
            await asyncio.sleep(0.2)


async def suffer(faults: Faults, name: str) -> str:
    """Run the fault and print its row of the table."""
    service = faults.service
    before, (errors, deaths) = service.memory, counted(service)
    killed = faults.n_killed
    other = Other(faults)
    asking = asyncio.ensure_future(other.run())
    begun = time.perf_counter()
    found = await ALL_FAULTS[name](faults)
    seconds = time.perf_counter() - begun
    other.over = True
    await asking
    await asyncio.sleep(max(faults.patience, 1.2))  # what still lingers
    errors_now, deaths_now = counted(service)
    bad = found["500"] + errors_now - errors
    crashes = deaths_now - deaths - (faults.n_killed - killed)
    statuses = ", ".join(f"{n:,} × {status}" for status, n in sorted(found.items()))
    return (
        f"| {name} | {sum(found.values()):,} | {statuses} | {bad} | {crashes} "
        f"| {other.slowest:.2f} s, {other.n_failed} of {other.n_asked} "
        f"| {before / MIB:.0f} → {service.memory / MIB:.0f} MiB | {seconds:.0f} s |"
    )


def counted(service: ServiceProcess) -> tuple[int, int]:
    """Errors in the log that should not be, and deaths of workers."""
    return len(service.logged(*UNEXPECTED)), len(service.logged("a worker has died"))


async def warm_up(faults: Faults) -> None:
    """Let all workers make what they make when they are first asked."""
    requests = list(itertools.islice(malformed(seed=3), faults.n(2000))) + [("", GOOD)] * faults.n(500)
    await at_once(faults.exchange(content) for _, content in requests)


def options(patience: float, seconds: float, *more: str) -> list[str]:
    """Return the settings of a service with this `patience` for slow clients and this time limit."""
    given = (f"limits.body_seconds={patience}", f"limits.seconds={seconds}", "log_format=json", *more)
    return ["--workers", "2", *(part for setting in given for part in ("--set", setting))]


async def measure(service: ServiceProcess, scale: float, names: Iterable[str]) -> Faults:
    """Print rows of the table."""
    faults = Faults(service, scale)
    await warm_up(faults)
    for name in names:
        print(await suffer(faults, name), flush=True)
    return faults


async def measure_documents(service: ServiceProcess, scale: float) -> None:
    """Print the table of documents."""
    faults = Faults(service, scale)
    await warm_up(faults)
    print("| document | sent | answer | time | memory | for each KiB sent | /health, slowest |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for name in DOCUMENTS:
        print(await swell(faults, name), flush=True)


@contextmanager
def key_file() -> Iterator[Path]:
    """Write a key file that knows KEY."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "keys.toml"
        file.write_text(f'[keys.known]\nsha256 = "{sha256(KEY.encode()).hexdigest()}"\n')
        yield file


def show_errors(service: ServiceProcess) -> None:
    """Print unexpected lines of the log on stderr."""
    lines = service.log.read_text(encoding="utf-8").splitlines()
    wrong = [i for i, line in enumerate(lines) if any(what in line for what in UNEXPECTED)]
    for i in wrong[:3]:
        print("\n".join(lines[i : i + 40]), file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a service does when others misbehave.")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=[*ALL_FAULTS, "documents"], action="append")
    given = parser.parse_args()
    kinds: dict[str, Counter[str]] = {}
    if given.only != ["documents"]:
        columns = (
            "fault",
            "requests",
            "answers",
            "500s, errors",
            "crashes",
            "others: slowest, failed",
            "memory",
        )
        print(f"| {' | '.join(columns)} | time |\n|---|--:|---|--:|--:|--:|--:|--:|")
    with key_file() as keys:
        groups: list[tuple[Iterable[str], list[str]]] = [
            (FAULTS, options(PATIENCE, SECONDS)),
            (LARGE_FAULTS, options(PATIENCE, SECONDS, *LARGE)),
            (LOCKED_FAULTS, [*options(PATIENCE, SECONDS), "--keys", str(keys)]),
        ]
        for faults, arguments in groups:
            names = [name for name in faults if name in (given.only or faults)] * given.rounds
            if names:
                with running(*given.runs, *arguments) as service:
                    kinds |= asyncio.run(measure(service, given.scale, names)).kinds
                    show_errors(service)
    if kinds:
        print("\n| malformed | answers |\n|---|---|")
    for kind, found in kinds.items():
        print(f"| {kind} | {', '.join(f'{n:,} × {status}' for status, n in sorted(found.items()))} |")
    if "documents" in (given.only or ["documents"]):
        with running(*given.runs, "--set", "log_format=json") as service:
            print()
            asyncio.run(measure_documents(service, given.scale))
            show_errors(service)


if __name__ == "__main__":
    main()
