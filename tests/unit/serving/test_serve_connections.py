"""Slow, hostile or many clients keep a service from no other, and get an answer if possible."""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from dragoman.serving import connections
from dragoman.serving.access import KeyConfig, Keys
from dragoman.serving.connections import MAX_HEAD, MAX_PIPELINED, PIECE, Connection
from dragoman.serving.running import Server
from services import Wire, ask, request, service_in_thread
from waiting import LONGEST, until

PATIENCE = 1.0
"""Seconds that clients of the service are given."""

TEXT = {"text": "red cat"}


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> Iterator[tuple[int, Server]]:
    settings = (f"limits.body_seconds={PATIENCE}", "limits.connections=8", "limits.body_bytes=100000")
    with service_in_thread([tiny_run], *settings) as service:
        yield service


@pytest.fixture
def port(served: tuple[int, Server]) -> int:
    wait_until_empty(served[1])
    return served[0]


def wait_until_empty(server: Server) -> None:
    until(lambda: not server.server_state.connections)


@pytest.mark.parametrize(
    ("first", "drop"), [(b"GET / HTTP/1.1\r\nX: ", b"y"), (request("GET", "/health"), b"\r\n")]
)
def test_a_byte_now_and_then_does_not_prolong_a_head_nor_keep_a_connection(
    port: int, first: bytes, drop: bytes
) -> None:
    with Wire(port) as wire:
        begun = time.monotonic()
        wire.send(first)
        if drop == b"\r\n":
            assert wire.answer().status == 200
        with suppress(ConnectionError):
            while time.monotonic() - begun < LONGEST and not wire.has_more(0.1):
                wire.send(drop)
        answer = wire.answer()
        assert "head of the request" in answer.refusal(408)
        assert answer.headers["connection"] == "close"
        assert PATIENCE * 0.9 <= time.monotonic() - begun < LONGEST
        assert wire.is_closed()


def test_who_asks_for_nothing_is_left_without_a_word(port: int) -> None:
    with Wire(port) as wire:
        assert wire.is_closed()


@pytest.mark.slow
def test_a_connection_is_kept_between_requests(port: int) -> None:
    with Wire(port) as wire:
        assert wire.ask("POST", "/v1/translate", TEXT).status == 200
        time.sleep(2 * PATIENCE)  # the patience for a head begins with its first byte
        assert wire.ask("GET", "/health", headers={"Connection": "close"}).status == 200
        assert wire.is_closed()


def test_a_large_head_is_answered_with_431(port: int) -> None:
    many = "X: y\r\n" * (MAX_HEAD // 6 + PIECE)
    for rest in (f" HTTP/1.1\r\n{many}\r\n\r\n", "x" * (MAX_HEAD + PIECE)):  # the last one has no end
        with Wire(port) as wire:
            wire.send(f"GET /health{rest}")
            assert f"{MAX_HEAD:,} bytes" in wire.answer().refusal(431)
            assert wire.is_closed()
    assert ask(port, "GET", "/health", headers={"X-Long": "x" * (MAX_HEAD - PIECE)}).status == 200


@pytest.mark.parametrize(
    "broken",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_json(port: int, broken: bytes) -> None:
    with Wire(port) as wire:
        wire.send(broken)
        answer = wire.answer()
        assert answer.refusal(400)
        assert answer.headers["x-request-id"]
        assert wire.is_closed()


def test_requests_sent_at_once_are_answered_in_their_order_before_what_is_broken(port: int) -> None:
    sent = [request("GET", "/nowhere"), request("POST", "/v1/translate", TEXT), request("GET", "/nowhere")]
    with Wire(port) as wire:
        wire.send(b"".join([*sent, b"nonsense\r\n\r\n"]))
        assert [wire.answer().status for _ in range(4)] == [404, 200, 404, 400]
        assert wire.is_closed()


def test_the_refusal_of_a_large_body_reaches_who_is_still_sending_it(port: int) -> None:
    with Wire(port) as wire:
        wire.send(b"POST /v1/translate HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n" + b" " * 3_000_000)
        assert "limits.body_bytes" in wire.answer().refusal(413)
        assert wire.is_closed()


def test_a_body_that_does_not_come_is_answered_with_408(port: int) -> None:
    with Wire(port) as wire:
        wire.send('POST /v1/translate HTTP/1.1\r\nContent-Length: 30\r\n\r\n{"text"')
        answer = wire.answer()
        assert answer.status == 408
        why = f"nothing more came in the {PATIENCE:g} s that limits.body_seconds allows"
        assert why in answer.json["error"]
        assert wire.is_closed()


def test_a_body_that_takes_as_long_as_its_request_may_is_told_that_limit(tiny_run: Path) -> None:
    limits = ("limits.seconds=0.2", "limits.file_seconds=0.3", "limits.body_seconds=1e6")
    with service_in_thread([tiny_run], *limits) as (port, _):
        for path, limit in (
            ("translate", "0.2 s that limits.seconds"),
            ("documents", "0.3 s that limits.file_"),
        ):
            with Wire(port) as wire:
                wire.send(f"POST /v1/{path} HTTP/1.1\r\nContent-Length: 30\r\n\r\n{{")
                assert f"the body was not whole after the {limit}" in wire.answer().refusal(408)


@pytest.mark.slow
def test_who_does_not_take_an_answer_is_cut_off(served: tuple[int, Server], port: int) -> None:
    asked = request("GET", "/openapi.json")
    with Wire(port) as wire:
        assert wire.ask("GET", "/health").status == 200
        assert served[1].server_state.connections
        wire.socket.settimeout(0.2)
        with suppress(TimeoutError, ConnectionError):  # it asks for much, and never reads
            for _ in range(5000):
                wire.send(asked)
        wait_until_empty(served[1])


def test_more_connections_than_allowed_are_answered_with_503(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            assert stack.enter_context(Wire(port)).ask("GET", "/health").status == 200
        answer = ask(port, "GET", "/health")
        assert "no room for more connections" in answer.refusal(503)
        assert answer.headers["retry-after"]
        more = [stack.enter_context(Wire(port)) for _ in range(9)]
        assert more[-1].is_closed()  # far too many: without a word


@pytest.mark.parametrize("size", [1, PIECE])
def test_an_upgrade_is_answered_as_if_it_were_not_asked_for(port: int, size: int) -> None:
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQ"}
    chunked = chunks({**upgrade, "Connection": "close, Upgrade"}, json.dumps(TEXT).encode())
    whole = request("POST", "/v1/translate", TEXT, upgrade) + chunked
    with Wire(port) as wire:
        for start in range(0, len(whole), size):
            wire.send(whole[start : start + size])
        answers = [wire.answer().json for _ in range(2)]
        assert answers == [ask(port, "POST", "/v1/translate", TEXT).json] * 2


def chunks(headers: dict[str, str], *content: bytes, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    """A request for a translation whose body is sent in these chunks."""
    head = request("POST", "/v1/translate", b"", {"Transfer-Encoding": "chunked", **headers})
    head = head.replace(b"Content-Length: 0\r\n", b"")
    lines = [b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in content]
    return head + b"".join(lines) + b"0\r\n" + trailers + b"\r\n"


@pytest.mark.parametrize("extension", [b"", b";x=" + b"y" * (MAX_HEAD - 2 * PIECE)], ids=["short", "long"])
def test_what_is_beside_a_body_is_bounded_as_a_head_is_and_kept_nowhere(port: int, extension: bytes) -> None:
    content = [bytes([byte]) for byte in json.dumps(TEXT).encode()]
    few, many = (b"X-API-Key: a\r\n" * (n // 14) for n in (MAX_HEAD - 2 * PIECE, MAX_HEAD + 2 * PIECE))
    with Wire(port) as wire:
        wire.send(chunks({}, *content, extension=extension, trailers=few))
        assert wire.answer().status == 200
        wire.send(chunks({}, *content, extension=extension, trailers=many))
        assert f"what is no body has more than {MAX_HEAD:,} bytes" in wire.answer().refusal(431)
        assert wire.is_closed()


def test_no_key_is_read_from_a_trailer(tiny_run: Path) -> None:
    keys = Keys(keys={"ann": KeyConfig(sha256=hashlib.sha256(b"key").hexdigest())})
    form = b"q=red&source=en&target=de"
    sent = chunks({"Content-Type": "application/x-www-form-urlencoded"}, form, trailers=b"X-API-Key: key\r\n")
    with service_in_thread([tiny_run], keys=keys) as (port, _), Wire(port) as wire:
        wire.send(sent.replace(b"/v1/translate", b"/translate"))
        assert wire.answer().status == 403


def test_requests_that_wait_for_an_earlier_one_are_few(port: int) -> None:
    with Wire(port) as wire:
        wire.send(request("GET", "/health") * (MAX_PIPELINED + 9))
        statuses = [wire.answer().status for _ in range(MAX_PIPELINED + 2)]
        assert statuses == [*[200] * (MAX_PIPELINED + 1), 429]
        assert wire.is_closed()


def test_a_connection_is_closed_with_an_answer_after_some_requests_or_time(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that clients come to the worker that has taken the place of another."""
    monkeypatch.setattr(connections, "KEPT_REQUESTS", 3)
    for longest, expected in ((60.0, range(3, 6)), (0.0, range(1, 2))):
        monkeypatch.setattr(connections, "KEPT_LONGEST", longest)
        with Wire(port) as wire:
            answers = iter(lambda: wire.ask("GET", "/health").headers.get("connection"), "close")
            assert 1 + len(list(answers)) in expected
            assert wire.is_closed()


def test_an_ending_service_answers_on_connections_that_it_has_and_says_it_is_not_ready(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LAST_SECONDS", LONGEST)
    body = json.dumps(TEXT).encode()
    with service_in_thread([tiny_run]) as (port, server), Wire(port) as kept, Wire(port) as working:
        assert kept.ask("GET", "/ready").json == {"status": "ready"}
        whole = request("POST", "/v1/translate", TEXT)
        working.send(whole[: -len(body)])
        until(lambda: any(isinstance(c, Connection) and c._running for c in server.server_state.connections))
        server.should_exit = True
        until(lambda: server.service.closing)
        with pytest.raises(ConnectionRefusedError):
            Wire(port)
        answer = kept.ask("GET", "/ready")
        assert answer.status == 503
        assert answer.headers["connection"] == "close"
        assert kept.is_closed()
        working.send(body)
        assert working.answer().status == 200
        assert working.is_closed()


@pytest.mark.slow
def test_an_ending_service_leaves_connections_on_which_nobody_asks(tiny_run: Path) -> None:
    with service_in_thread([tiny_run]) as (port, server), Wire(port) as kept:
        assert kept.ask("GET", "/ready").status == 200
        server.should_exit = True
        assert kept.is_closed()


def test_uvicorn_has_what_its_subclasses_build_on() -> None:
    """These classes are private or undocumented; a version of uvicorn that changes them fails here."""
    for kind, own in ((Connection, {"close"}), (Server, set())):
        names = {name for name in vars(kind) if not name.startswith("_")} - own
        assert names <= set(dir(kind.__base__))
    with closing(asyncio.new_event_loop()) as loop:
        protocol = HttpToolsProtocol(uvicorn.Config(lambda *_: None, ws="none"), ServerState(), {}, loop)
    for name in ("connections", "cycle", "flow", "headers", "loop", "parser", "pipeline", "transport"):
        assert hasattr(protocol, name)
    assert callable(protocol._unset_keepalive_if_required)
    in_cycle = {"disconnected", "keep_alive", "message_event", "response_started"}
    assert in_cycle <= set(RequestResponseCycle.__init__.__code__.co_names)
