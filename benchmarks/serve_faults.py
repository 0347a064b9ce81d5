"""What a service does when its clients, and its own processes, misbehave.

    python benchmarks/serve_faults.py RUN [RUN …] [--scale 1.0] [--rounds 1]

Starts `dragoman serve RUN --workers 2` and does one bad thing after another to it; while it does, another
client asks for a translation five times a second, on connections of its own. A row for each: how many
requests (connections, deaths) there were; the statuses of their answers, where "none" means that the
connection ended without one; 500s and errors in the log that should not be; workers that died although
nobody killed them; the slowest answer to the other client, and how many of its requests failed; the memory
of all processes (PSS, which counts what they share once) before and after; and the time. `--scale` makes
everything that much shorter; `--rounds` repeats all of it on one service, whose memory should then
be what it was after the first. Then documents that are much of one thing: what they cost for what was sent.
"""

from __future__ import annotations

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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attacks.documents import word
from attacks.requests import SURPRISES, form, malformed, post
from measuring import Result, parser_of
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
        asking = [asyncio.ensure_future(Other(self, pause=0.0).run()) for _ in range(8)]
        for _ in range(self.n(10)):
            await asyncio.sleep(max(0.5, 2 * self.scale))
            if workers := self.service.workers:
                os.kill(workers[0], signal.SIGKILL)
                self.n_killed += 1
        await asyncio.sleep(1.0)
        return await stopped(asking)

    async def malformed_requests(self) -> Counter[str]:
        """Send malformed requests."""

        async def send(kind: str, content: bytes) -> str:
            status = await self.exchange(content)
            self.kinds.setdefault(kind, Counter())[status] += 1
            return status

        return await at_once(itertools.starmap(send, itertools.islice(malformed(), self.n(10_000))))

    async def slow_heads(self) -> Counter[str]:
        """Heads of which a byte comes now and then."""
        return await self.all_pour([(b"GET / HTTP/1.1\r\nX: ", b"y")] * self.n(200), every=0.1)

    async def slow_bodies(self) -> Counter[str]:
        """Bodies of which a byte comes now and then, until the whole request has taken too long."""
        start = GOOD.replace(b"Content-Length: ", b"Content-Length: 9")[:-20]
        return await self.all_pour([(start, b" ")] * self.n(100), every=0.1)

    async def silent_bodies(self) -> Counter[str]:
        """Bodies that end in the middle."""
        return await at_once((self.exchange(GOOD[:-10]) for _ in range(self.n(200))), self.n(200))

    async def endless_bodies(self) -> Counter[str]:
        """Bodies without an end, as fast as they are taken."""
        chunked = b"POST /v1/translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        large = b"POST /v1/translate HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        pours = [(chunked, chunk), (large, b" " * 65_536)] * self.n(50)
        return await self.all_pour(pours, n_clients=AT_ONCE)

    async def keyless_uploads(self) -> Counter[str]:
        """Large files without a key, of which as much is sent as is taken."""
        heads = [
            f"POST {path} HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            "Content-Length: 10000000\r\n\r\n"
            "--x\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\n"
            for path in ("/v1/documents", "/translate_file")
        ]
        return await self.all_pour([(head.encode(), b" " * 65_536) for head in heads * self.n(40)])

    async def slow_readers(self) -> Counter[str]:
        """Readers of a stream, and of large answers, that take a byte now and then, or nothing."""
        text = [f"{SENTENCE} {i}" for i in range(100)]
        stream = post("/v1/translate", json.dumps({"text": text, "stream": True}).encode())
        large = post("/v1/translate", json.dumps({"text": text, "n_best": 4, "align": True}).encode())
        requests = [stream, large] * max(1, self.n(40) // 2)
        return await at_once(map(self.read_slowly, requests), len(requests))

    async def leaving_clients(self) -> Counter[str]:
        """Clients that leave in the middle of a request or an answer, politely or not."""
        rng, bodies = random.Random(2), ({"text": [SENTENCE] * 20, "stream": s} for s in (True, False))
        requests = [post("/v1/translate", json.dumps(body).encode()) for body in bodies]
        found = await at_once(self.leave(rng.choice(requests), rng) for _ in range(self.n(1000)))
        await asyncio.sleep(1.0)
        return found

    async def long_words(self) -> Counter[str]:
        """Return a million characters without a space."""
        words = ["x" * 1_000_000, "Donaudampfschiff" * 62_500, "語" * 330_000]
        bodies = [json.dumps({"text": word}, ensure_ascii=False).encode() for word in words]
        requests = [post("/v1/translate", body) for body in bodies * self.n(3)]
        return await at_once(map(self.exchange, requests), 2)

    async def surprising_texts(self) -> Counter[str]:
        """Right to left, emoji, combining and invisible characters: all are to be answered."""
        asked = {"align": True, "confidence": True, "n_best": 2}
        bodies = [asked | {"text": t, "stream": s} for t in SURPRISES.values() for s in (False, True)]
        requests = [post("/v1/translate", json.dumps(body).encode()) for body in bodies] * 5
        return await at_once(map(self.exchange, requests[: self.n(len(requests))]), 2)

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

    async def all_pour(
        self, pours: list[tuple[bytes, bytes]], *, every: float = 0.0, n_clients: int = 0
    ) -> Counter[str]:
        """Send what begins so and goes on so without end, all of it at once or by `n_clients`."""
        return await at_once((self.pour(*each, every=every) for each in pours), n_clients or len(pours))

    async def pour(self, start: bytes, piece: bytes, *, every: float) -> str:
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
        client, loop = socket.socket(), asyncio.get_running_loop()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.setblocking(False)
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
    "the same, where limits allow it": Faults.long_words,
    "uploads without a key": Faults.keyless_uploads,
}
ON_LARGE, ON_LOCKED = "the same, where limits allow it", "uploads without a key"
"""What is done to a service of large limits, and to one that needs keys."""

CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
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
    "cues": (".srt", "{}", f"{CUE}a\n\n"),
    "lines of cues": (".srt", "{}", CUE + "a\n" * 100 + "\n"),
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
        return "a.docx", word(body)
    if ending == ".tmx":
        body = f'<tmx version="1.4"><header srclang="en"/><body>{body}</body></tmx>'
    return f"a{ending}", body.encode()


async def swell(faults: Faults, name: str, *, pause: float = 1.2) -> list[Any]:
    """Send a document, and return a row of the table: what came of it.

    Before that, it waits for `pause` seconds, in which a service gives freed memory back.
    """
    service, slowest, most = faults.service, 0.0, 0
    filename, content = swelling(name, faults.scale)
    body = form([("file", f'; filename="{filename}"', content)])
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
    seconds, sent = time.perf_counter() - begun, len(content)
    return [
        f"{filename[1:]}, {name}",
        sent / 1024,
        sending.result(),
        seconds,
        most / MIB,
        most / sent,
        slowest,
    ]


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


@dataclass
class Other:
    """A client that wants nothing but translations, five times a second or without a `pause`."""

    faults: Faults
    pause: float = 0.2
    slowest: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)

    async def run(self) -> Counter[str]:
        """Ask until cancelled; return the statuses of the answers."""
        with suppress(asyncio.CancelledError):
            while True:
                begun = time.perf_counter()
                self.statuses[await self.faults.exchange(GOOD)] += 1
                self.slowest = max(self.slowest, time.perf_counter() - begun)
                await asyncio.sleep(self.pause)
        return self.statuses


async def stopped(asking: Sequence[asyncio.Future[Counter[str]]]) -> Counter[str]:
    """Cancel clients, and return the statuses of their answers."""
    for client in asking:
        client.cancel()
    return sum(await asyncio.gather(*asking), Counter[str]())


async def suffer(faults: Faults, name: str) -> list[Any]:
    """Run the fault and return its row of the table."""
    service, other = faults.service, Other(faults)
    before, killed, (errors, deaths) = service.memory, faults.n_killed, counted(service)
    asking, begun = asyncio.ensure_future(other.run()), time.perf_counter()
    found = await FAULTS[name](faults)
    seconds = time.perf_counter() - begun
    statuses = await stopped([asking])
    await asyncio.sleep(max(faults.patience, 1.2))  # what still lingers
    errors_now, deaths_now = counted(service)
    crashes, n_asked = deaths_now - deaths - (faults.n_killed - killed), statuses.total()
    return [
        name, found.total(), listed(found), found["500"] + errors_now - errors, crashes, other.slowest,
        f"{n_asked - statuses['200']} of {n_asked}", before / MIB, service.memory / MIB, seconds,
    ]  # fmt: skip


def listed(statuses: Counter[str]) -> str:
    return ", ".join(f"{n:,} × {status}" for status, n in sorted(statuses.items()))


def counted(service: ServiceProcess) -> tuple[int, int]:
    """Errors in the log that should not be, and deaths of workers."""
    return len(service.logged(*UNEXPECTED)), len(service.logged("a worker has died"))


async def warm_up(faults: Faults) -> None:
    """Let all workers make what they make when they are first asked."""
    requests = list(itertools.islice(malformed(seed=3), faults.n(2000))) + [("", GOOD)] * faults.n(500)
    await at_once(faults.exchange(content) for _, content in requests)


def settings(patience: float, seconds: float, *more: str) -> list[str]:
    """Return the options of a service with this `patience` for slow clients and this time limit."""
    given = (f"limits.body_seconds={patience}", f"limits.seconds={seconds}", "log_format=json", *more)
    return ["--workers", "2", *(part for setting in given for part in ("--set", setting))]


async def each(
    measure: Callable[..., Awaitable[list[Any]]], faults: Faults, names: list[str], add: Any
) -> None:
    """Add a row to a table for each name."""
    await warm_up(faults)
    for name in names:
        add(*await measure(faults, name))
    lines = faults.service.log.read_text(encoding="utf-8").splitlines()
    wrong = [i for i, line in enumerate(lines) if any(what in line for what in UNEXPECTED)]
    for i in wrong[:3]:
        print("\n".join(lines[i : i + 40]), file=sys.stderr)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=[*FAULTS, "documents"], action="append")
    options = parser.parse_args()
    wanted = options.only or [*FAULTS, "documents"]
    with TemporaryDirectory() as folder, Result("serve_faults", options) as result:
        keys = Path(folder) / "keys.toml"
        keys.write_text(f'[keys.known]\nsha256 = "{sha256(KEY.encode()).hexdigest()}"\n')
        plain = settings(PATIENCE, SECONDS)
        others = {ON_LARGE: settings(PATIENCE, SECONDS, *LARGE), ON_LOCKED: [*plain, "--keys", str(keys)]}
        kinds: dict[str, Counter[str]] = {}
        if wanted != ["documents"]:
            columns = {"fault": "", "requests": ",", "answers": "", "500s, errors": "d", "crashes": "d"}
            columns |= {"others: slowest, s": ".2f", "failed": "", "MiB before": ".0f", "after": ".0f"}
            table = result.table(columns | {"s": ".0f"}, "faults")
            first = [name for name in FAULTS if name not in others]
            for names, arguments in ((first, plain), *(([name], more) for name, more in others.items())):
                if chosen := [name for name in names if name in wanted] * options.rounds:
                    with running(*options.runs, *arguments) as service:
                        faults = Faults(service, options.scale)
                        asyncio.run(each(suffer, faults, chosen, table.add))
                        kinds |= faults.kinds
        if kinds:
            table = result.table({"malformed": "", "answers": ""}, "malformed")
            for kind, statuses in kinds.items():
                table.add(kind, listed(statuses))
        if "documents" in wanted:
            columns = {"document": "", "KiB sent": ",.0f", "answer": "", "s": ".1f", "MiB of memory": ".0f"}
            columns |= {"KiB for each KiB sent": ".0f", "/health, slowest, s": ".2f"}
            table = result.table(columns, "documents")
            with running(*options.runs, "--set", "log_format=json") as service:
                asyncio.run(each(swell, Faults(service, options.scale), list(DOCUMENTS), table.add))


if __name__ == "__main__":
    main()
