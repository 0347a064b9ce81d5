"""What a service lets in, what it says of itself, and what it writes down."""

import hashlib
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

pytest.importorskip("fastapi")

from commands import error_of
from dragoman.documents.budget import Budget
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.serving import running, translating
from dragoman.serving import service as service_module
from dragoman.serving.access import KeyConfig, Keys, Rates, make_key
from dragoman.serving.batching import Client
from dragoman.serving.gate import POLICY
from dragoman.serving.monitoring import LOGGER, JsonFormatter, LineFormatter, Metrics
from dragoman.serving.running import Server, is_local, listen
from dragoman.serving.settings import load_settings
from services import Wire, ask, request, service_in_thread
from tiny import damaged_run
from waiting import LONGEST, until

TEXT = {"text": "red cat"}


@pytest.fixture(scope="module")
def service(tiny_run: Path) -> Iterator[tuple[int, Server]]:
    names = ("sentences=5", "waiting_sentences=6", "requests=3", "body_bytes=4096")
    with service_in_thread([tiny_run], *(f"limits.{name}" for name in names)) as served:
        yield served


@pytest.fixture
def port(service: tuple[int, Server]) -> int:
    return service[0]


@contextmanager
def busy(server: Server) -> Iterator[Callable[[], None]]:
    """Within it, the one thread that computes does something else, until what it yields is called."""
    begun, over = threading.Event(), threading.Event()

    def work(_: object) -> list[None]:
        begun.set()
        over.wait(LONGEST)
        return [None]

    batcher = server.service.batcher
    (result,) = batcher.submit(work, [None], [1], Client(batcher))
    assert begun.wait(LONGEST)
    try:
        yield over.set
    finally:
        over.set()
        result.result(LONGEST)


class Reading:
    """In place of `DocumentFile.read`: waits until it is let go, and looks at nothing else."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = threading.Event()

    def __call__(self, name: str, *_: object, **__: object) -> None:
        self.begun.append(name)
        assert self.go.wait(LONGEST)
        raise DataError(f"{name}: was read")


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    found = Reading()
    monkeypatch.setattr(translating.DocumentFile, "read", found)
    yield found
    found.go.set()


def sent(name: str, content: str = "red") -> bytes:
    """A request for the translation of a document."""
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"'
    body = f"{head}\r\n\r\n{content}\r\n--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return request("POST", "/v1/documents", body.encode(), kind)


def test_reading_that_cannot_be_stopped_is_answered_when_the_time_is_up(
    tiny_run: Path, reading: Reading
) -> None:
    with service_in_thread([tiny_run], "limits.file_seconds=0.2") as (port, server), Wire(port) as wire:
        wire.send(sent("a.txt"))
        assert "limits.file_seconds" in wire.answer().refusal(504)
        assert server.service.is_working, "its place is not free yet"
        reading.go.set()
        until(lambda: not server.service.is_working)


def test_documents_take_turns_and_none_is_begun_for_a_client_that_has_left(
    tiny_run: Path, reading: Reading
) -> None:
    with service_in_thread([tiny_run], "limits.documents=1") as (port, server):
        with Wire(port) as first, Wire(port) as third:
            first.send(sent("1.txt"))
            until(lambda: reading.begun == ["1.txt"])
            with Wire(port) as second:
                second.send(sent("2.txt"))
                until(lambda: server.service._n_active == 2)
            until(lambda: server.service._n_active == 1)
            third.send(sent("3.txt"))
            until(lambda: server.service._n_active == 2)
            assert ask(port, "POST", "/v1/translate", TEXT).status == 200
            reading.go.set()
            for number, wire in ((1, first), (3, third)):
                assert wire.answer().json == {"error": f"{number}.txt: was read"}
        assert reading.begun == ["1.txt", "3.txt"]


@pytest.mark.parametrize("seconds", [600, 0.2], ids=["the client leaves", "the time is up"])
def test_a_document_is_not_read_on_when_the_client_leaves_or_the_time_is_up(
    tiny_run: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, left, checks = threading.Event(), threading.Event(), list[Budget]()
    check, leave = Budget.check, Client.leave

    def first_wait(budget: Budget) -> None:
        checks.append(budget)
        begun.set()
        assert left.wait(LONGEST)
        check(budget)

    def tell(client: Client) -> None:
        leave(client)
        left.set()

    monkeypatch.setattr(Budget, "check", first_wait)
    monkeypatch.setattr(Client, "leave", tell)
    with service_in_thread([tiny_run], f"limits.file_seconds={seconds}") as (port, server):
        with Wire(port) as wire:
            wire.send(sent("a.tmx", "<tmx/>"))
            assert begun.wait(LONGEST)
            assert server.service.is_working
            if seconds < 1:
                assert wire.answer().status == 504
        until(lambda: not server.service.is_working)
    assert len(checks) == 1


def test_a_computation_that_hangs_is_told_by_health(service: tuple[int, Server]) -> None:
    port, server = service
    assert ask(port, "GET", "/health").json == {"status": "ok"}
    limits = server.service.config.limits.model_copy(update={"hung_seconds": 0.0})
    with busy(server), pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.service, "config", server.service.config.model_copy(update={"limits": limits}))
        assert "makes no progress" in ask(port, "GET", "/health").refusal(503)
    assert ask(port, "GET", "/health").status == 200


def test_who_comes_when_too_much_waits_is_told_when_to_come_again(service: tuple[int, Server]) -> None:
    port, server = service
    with busy(server) as over, Wire(port) as first, Wire(port) as second:
        first.send(request("POST", "/v1/translate", {"text": ["a b"] * 5, "split": False}))
        until(lambda: server.service.batcher.n_waiting == 5)
        answer = ask(port, "POST", "/v1/translate", {"text": ["a b"] * 2, "split": False})
        assert "are queued already" in answer.refusal(429)
        assert int(answer.headers["retry-after"]) >= 1
        second.send(request("POST", "/v1/translate", TEXT))  # one more may wait
        until(lambda: server.service.batcher.n_waiting == 6)
        over()
        assert second.answer().status == first.answer().status == 200


def test_more_requests_than_allowed_at_once_are_answered_with_429(service: tuple[int, Server]) -> None:
    port, server = service
    wires = [Wire(port) for _ in range(3)]
    with busy(server) as over:
        for n, wire in enumerate(wires):
            wire.send(request("POST", "/v1/translate", TEXT))
            until(lambda n=n: server.service.batcher.n_waiting == n + 1)
        answer = ask(port, "POST", "/v1/translate", TEXT)
        assert "3 requests" in answer.refusal(429)
        over()
        for wire in wires:
            assert wire.answer().status == 200
            wire.__exit__()


SAFE = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/page/page.js", 200), ("GET", "/page/nothing", 404), ("GET", "/v1/models", 200),
        ("GET", "/v1/translate", 405), ("BREW", "/", 400),
    ],
)  # fmt: skip
def test_every_answer_has_safe_headers_and_a_name(port: int, method: str, path: str, status: int) -> None:
    answer = ask(port, method, path)
    assert answer.status == status
    assert SAFE.items() <= answer.headers.items()
    assert "default-src 'none'" in POLICY
    assert not re.search("unsafe|http|[*]", POLICY), "nothing from elsewhere, nothing inline"
    assert "server" not in answer.headers
    assert len(answer.headers["x-request-id"]) == 16
    assert answer.headers["cache-control"] == "no-cache"  # a browser asks whether it is still the same
    if status >= 400:
        assert list(answer.json) == ["error"]


@pytest.mark.parametrize("path", ["/", "/metrics", "//languages", "/no"])
def test_head_is_answered_as_get_without_the_body(port: int, path: str) -> None:
    expected = ask(port, "GET", path)
    with Wire(port) as wire:
        wire.send(request("HEAD", path))
        head = wire.head()
        assert head.status == expected.status
        assert wire.ask("GET", "/ready").json == {"status": "ready"}, "no body came before"
    for name in ("content-type", "content-length"):
        assert head.headers.get(name) == expected.headers.get(name) or path == "/metrics"


def test_a_name_that_a_client_gives_is_kept_if_it_is_one(port: int) -> None:
    for name, is_kept in {"job-7:a.b_c": True, "x" * 65: False, "a b": False, "ä": False}.items():
        answer = ask(port, "GET", "/health", headers={"X-Request-ID": name})
        assert (answer.headers["x-request-id"] == name) is is_kept


def test_other_origins_are_let_in_only_where_the_settings_say_so(port: int, tiny_run: Path) -> None:
    page = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in ask(port, "GET", "/health", headers=page).headers
    assert ask(port, "OPTIONS", "/v1/translate", headers=page).status == 405
    with service_in_thread([tiny_run], 'cors_origins=["https://example.org"]', "page=false") as (other, _):
        answer = ask(other, "OPTIONS", "/v1/translate", headers=page)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        stranger = ask(other, "GET", "/health", headers={"Origin": "https://example.com"})
        assert "access-control-allow-origin" not in stranger.headers
        assert ask(other, "GET", "/").status == 404  # and there is no page


def test_a_service_with_names_is_called_by_no_other(tiny_run: Path) -> None:
    with service_in_thread([tiny_run], 'hosts=["localhost", "[::1]", "Example.ORG:8000"]') as (port, _):
        for name in ("localhost", "LocalHost:8000", "[::1]:80", "[::1]", "example.org"):
            assert ask(port, "GET", "/health", headers={"Host": name}).status == 200
        for name in ("evil.example:8000", "localhost.evil.example", "", "127.0.0.1"):
            assert "hosts" in ask(port, "GET", "/v1/models", headers={"Host": name}).refusal(421)
        answer = ask(port, "GET", "/v1/models/", headers={"Host": "[::1]:1"})
        assert answer.status == 404
        assert "location" not in answer.headers, "no answer leads to where the header says"


UPLOAD = "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("kind", "origin", "site", "status"),
    [
        ("", "https://evil.example", "", 403),
        ("text/plain", "null", "", 403),
        ("application/x-www-form-urlencoded", "http://localhost:1", "", 403),
        (UPLOAD, "http://[", "", 403),
        (UPLOAD, "http://localhost", "same-site", 403),
        (UPLOAD, "https://LOCALHOST", "", 400),
        (UPLOAD, "https://public.example", "same-origin", 400),
        (UPLOAD, "https://friend.example", "", 400),
        (UPLOAD, "", "", 400),
        ("application/json", "moz-extension://some-extension", "", 400),
    ],
)
def test_a_page_of_another_origin_cannot_send_what_browsers_send_unasked(
    service: tuple[int, Server], monkeypatch: pytest.MonkeyPatch, kind: str, origin: str, site: str,
    status: int,
) -> None:  # fmt: skip
    port, server = service
    config = server.service.config.model_copy(update={"cors_origins": ["https://friend.example"]})
    monkeypatch.setattr(server.service, "config", config)
    headers = {name: value for name, value in {"Origin": origin, "Sec-Fetch-Site": site}.items() if value}
    answer = ask(port, "POST", "/v1/documents", b"--x--", {"Content-Type": kind, **headers})
    assert answer.status == status
    assert ("another origin" in answer.json["error"]) == (status == 403)


def test_keys_are_asked_for_and_have_their_own_rates(tiny_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    ann, bob = make_key(file, "ann", per_minute=2), make_key(file, "bob")
    with service_in_thread([tiny_run], keys=Keys.load(file)) as (port, _):
        nobody = ask(port, "POST", "/v1/translate", TEXT)
        assert nobody.status == 401
        assert nobody.headers["www-authenticate"] == "Bearer"
        assert ask(port, "POST", "/v1/translate", TEXT, {"X-API-Key": "wrong"}).status == 403
        as_ann = {"Authorization": f"Bearer {ann}"}
        statuses = [ask(port, "POST", "/v1/translate", TEXT, as_ann).status for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert ask(port, "POST", "/v1/translate", TEXT, {"X-API-Key": bob}).status == 200
        assert ask(port, "GET", "/metrics").status == 401
        figures = ask(port, "GET", "/metrics", headers={"X-API-Key": bob})
        for status in (401, 403, 429):
            line = f'dragoman_requests_total{{route="/v1/translate",status="{status}"}} 1.0'
            assert line in figures.body.decode().splitlines()
        assert ask(port, "GET", "/health").status == ask(port, "GET", "/ready").status == 200


@pytest.fixture(scope="module")
def locked(tiny_run: Path) -> Iterator[tuple[int, Server]]:
    """A service whose one key is KEY, and which holds 1 MiB of bodies, an eighth of it of unknown senders."""
    keys = Keys(keys={"ann": KeyConfig(sha256=hashlib.sha256(KEY.encode()).hexdigest())})
    settings = ("limits.buffered_bytes=1048576", "limits.body_bytes=900000")
    with service_in_thread([tiny_run], *settings, keys=keys) as served:
        yield served


KEY = "a-key"
AS_ANN = {"X-API-Key": KEY}


def head_of(path: str, n_bytes: int, headers: dict[str, str] | None = None) -> bytes:
    """The head of a request with a JSON body of this number of bytes."""
    return request("POST", path, b"", {"Content-Length": str(n_bytes), **(headers or {})})


def test_who_has_no_key_is_refused_before_a_body_is_sent(locked: tuple[int, Server]) -> None:
    for path, headers, status in (
        ("/v1/translate", {}, 401), ("/v1/documents", {"X-API-Key": "wrong"}, 403), ("/v1/nothing", {}, 401)
    ):  # fmt: skip
        with Wire(locked[0]) as wire:
            wire.send(head_of(path, 800_000, headers))
            answer = wire.answer()
            assert answer.status == status
            assert answer.headers["connection"] == "close"


def test_nothing_is_answered_after_a_refusal_that_ends_the_connection(
    locked: tuple[int, Server], caplog: pytest.LogCaptureFixture
) -> None:
    with Wire(locked[0]) as wire:
        wire.send(request("POST", "/v1/translate", TEXT) + b"nonsense\r\n\r\n")
        assert wire.answer().status == 401
        assert wire.is_closed()
    assert ask(locked[0], "GET", "/health").status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def held(server: Server) -> tuple[int, int]:
    """Bytes of bodies that a service holds: of known senders, and of unknown ones."""
    return server.service.held[True], server.service.held[False]


def test_bodies_are_held_up_to_a_limit_of_all_together(locked: tuple[int, Server]) -> None:
    port, server = locked
    with Wire(port) as first:
        first.send(head_of("/v1/translate", 800_000, AS_ANN) + b" " * 700_000)
        until(lambda: held(server) == (700_000, 0))
        with Wire(port) as second:
            second.send(head_of("/v1/translate", 800_000, AS_ANN) + b" " * 400_000)
            answer = second.answer()
            assert answer.status == 429
            assert answer.json["error"] == "too much is being received; retry in 1 s"
            assert int(answer.headers["retry-after"]) == 1
        assert ask(port, "POST", "/v1/translate", TEXT, AS_ANN).status == 200  # what is small has room
        first.send(b" " * 100_000)
        assert first.answer().status == 400
    until(lambda: held(server) == (0, 0))
    with ExitStack() as stack:  # bodies that nobody reads are not held
        wires = [stack.enter_context(Wire(port)) for _ in range(3)]
        for wire in wires:
            wire.send(head_of("/nothing", 700_000) + b" " * 700_000)
        assert [wire.answer().status for wire in wires] == [404, 404, 404]


def test_who_may_have_a_key_in_the_body_gets_less_room(locked: tuple[int, Server]) -> None:
    port, server = locked
    asked = {"q": "red cat", "source": "en", "target": "de"}
    with Wire(port) as wire:
        wire.send(head_of("/translate", 800_000) + b" " * 120_000)
        until(lambda: held(server) == (0, 120_000))
        more = {**asked, "api_key": KEY, "unused": "x" * 20_000}
        line = ask(port, "POST", "/translate", more).refusal(429)
        assert "send the key as Authorization: Bearer KEY" in line
        assert ask(port, "POST", "/translate", more, AS_ANN).status == 200
        assert ask(port, "POST", "/translate", {**asked, "api_key": KEY}).status == 200
        assert ask(port, "POST", "/translate", asked).status == 403
    until(lambda: held(server) == (0, 0))


def test_wrong_keys_of_an_address_are_limited_and_right_ones_are_not(
    locked: tuple[int, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, server = locked
    monkeypatch.setattr(server.service, "rates", Rates())
    monkeypatch.setattr(service_module, "WRONG_KEYS", 3)
    body = {"q": "red cat", "source": "en", "target": "de"}
    statuses = [ask(port, "POST", "/v1/translate", TEXT, {"X-API-Key": f"{i}"}).status for i in range(2)]
    statuses += [ask(port, "POST", "/translate", {**body, "api_key": f"{i}"}).status for i in range(2)]
    assert statuses == [403, 403, 403, 429]
    answer = ask(port, "GET", "/metrics", headers={"X-API-Key": "wrong"})
    assert "more than 3 wrong keys a minute" in answer.refusal(429)
    assert int(answer.headers["retry-after"]) > 0
    assert ask(port, "POST", "/v1/translate", TEXT, AS_ANN).status == 200


@contextmanager
def log_of(formatter: logging.Formatter) -> Iterator[list[str]]:
    """What is written down within it."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(formatter.format(record))  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


SECRET = "a red secret"
FORGED = "/no%0A12:00:00%20POST%20%1B[2J%E2%80%A8"


@pytest.mark.parametrize("formatter", [JsonFormatter(), LineFormatter()], ids=["programs", "people"])
def test_a_log_holds_no_text_and_nobody_can_write_a_line_into_it(
    port: int, formatter: logging.Formatter
) -> None:
    with log_of(formatter) as lines:
        ask(port, "GET", "/health", headers={"X-Request-ID": "begin"})
        until(lambda: any("begin" in line for line in lines))  # lines of earlier requests have come by now
        lines.clear()
        ask(port, "POST", "/v1/translate?api_key=hidden", {"text": SECRET}, {"X-Request-ID": "first"})
        ask(port, "POST", "/v1/translate", {"text": SECRET, "stream": True})
        ask(port, "POST", "/v1/translate", {"text": SECRET, "model": SECRET})
        ask(port, "GET", FORGED)
        ask(port, f"GET {SECRET} HTTP/1.1\r\nnonsense", "/")
        until(lambda: len(lines) == 5)
    assert not any(SECRET in line or "hidden" in line for line in lines)
    assert all(len(line.splitlines()) == 1 and line.isprintable() for line in lines)
    if isinstance(formatter, JsonFormatter):
        log = [json.loads(line) for line in lines]
        assert [line["status"] for line in log] == [200, 200, 400, 404, 400]
        first = {"id": "first", "event": "POST", "route": "/v1/translate", "user": "127.0.0.1"}
        assert log[0].items() >= {**first, "characters": len(SECRET), "sentences": 1}.items()
        return
    with log_of(formatter) as lines:
        try:
            raise ValueError("bad\n12:00:00 POST \x1b[2J\u2028x")
        except ValueError:
            LOGGER.error("it failed", exc_info=True)
    (first, *others) = lines[0].split("\n")
    assert first.endswith("it failed")
    assert others
    assert all(line.startswith("    ") and line.isprintable() for line in others)


def test_figures_tell_what_was_asked_and_how_it_ended(tiny_run: Path) -> None:
    with service_in_thread([tiny_run], "limits.body_seconds=0.3") as (port, _):
        ask(port, "POST", "/v1/translate", TEXT)
        ask(port, "POST", "/v1/translate", {})
        ask(port, "GET", "/one/path"), ask(port, "GET", "/another")
        for sent, status in (
            (head_of("//v1//translate", 1 << 30), 413), (head_of("/v1/translate", 9), 408),
            (b"nonsense\r\n\r\n", 400),
        ):  # fmt: skip
            with Wire(port) as wire:
                wire.send(sent)
                assert wire.answer().status == status
        figures = ask(port, "GET", "/metrics").body.decode()
    for line in (
        'dragoman_requests_total{route="/v1/translate",status="408"} 1.0',
        'dragoman_requests_total{route="/v1/translate",status="413"} 1.0',
        'dragoman_requests_total{route="other",status="404"} 2.0',
        'dragoman_requests_total{route="head",status="400"} 1.0',
        'dragoman_characters_total{model="run"} 7.0',
        'dragoman_sentences_total{model="run"} 1.0',
        "dragoman_waiting 0.0",
        'dragoman_request_seconds_count{route="/v1/translate"} 4.0',
    ):
        assert line in figures.splitlines()


def test_batches_are_as_many_as_processors_and_one_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "usable_cores", lambda: 8)
    monkeypatch.setattr(running, "prepare_for_translating", lambda: None)
    monkeypatch.setattr(running, "on_processor", lambda device: device == "cpu")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setattr(running, "limit_threads", lambda n: None)

    def n_batches(*settings: str, n_workers: int, device: str = "cpu") -> int:
        return running.prepare(load_settings(None, settings), n_workers=n_workers, device=device)

    assert [n_batches(n_workers=n) for n in (1, 2, 3, 16)] == [8, 4, 2, 1]
    assert n_batches("batching.threads=5", n_workers=2) == 5
    assert n_batches("batching.threads=5", n_workers=1, device="cuda") == 1


def test_new_keys_are_used_even_if_models_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    models = Mock(served=(), reload=Mock(side_effect=RunError("model.safetensors: is damaged")))
    old, new = (
        Keys(keys={name: KeyConfig(sha256="0" * 64) for name in names})
        for names in (("ann", "bob"), ("ann",))
    )  # fmt: skip
    missing = ConfigError("keys.toml: cannot be read")
    for loaded, used, is_new in (([new], new, True), ([old], old, False), (missing, old, False)):
        monkeypatch.setattr(Keys, "reloaded", Mock(side_effect=loaded))
        metrics = Metrics()
        with log_of(LineFormatter()) as lines:
            assert running.reload_models(models, old, metrics) == (used, is_new)
        assert "the old models stay in use" in lines.pop(0)
        assert ["reloaded · keys all" in line for line in lines] == [True] * is_new
        assert b'dragoman_reloads_total{outcome="failed"} 1.0' in metrics.text()


@pytest.mark.slow
def test_what_cannot_be_served_is_said_in_a_line(tiny_run: Path, tmp_path: Path) -> None:
    hosts = ("localhost", "127.9.9.9", "::1", "0.0.0.0", "::", "192.168.1.1", "127.0.0.1.example.org")
    assert [host for host in hosts if is_local(host)] == list(hosts[:3])
    with pytest.raises(ConfigError, match=r"^--host a\.\.b --port 0: cannot listen there \(.+\); give"):
        listen("a..b", 0)
    nope, settings = (tmp_path / name for name in ("nope.toml", "serve.toml"))
    damaged = damaged_run(tiny_run, tmp_path / "damaged")
    settings.write_text("[limits]\ncharacters = 0\n")
    unreadable = "nope.toml: cannot be read (No such file or directory); give the path of a TOML file"
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        for arguments, said in (
            ([tiny_run, "--host", "0.0.0.0"], "--keys"),
            ([damaged, "--port", 0], str(damaged)),
            ([tiny_run, f"{tiny_run}/../{tiny_run.name}", "--port", 0], "another model of the name"),
            ([tiny_run, "--port", taken], f"--port {taken}: cannot listen there"),
            ([tiny_run, "--set", "limits.character=3"], "limits.character"),
            ([tiny_run, "--keys", nope], unreadable),
            ([tiny_run, "--settings", settings], str(settings)),
        ):
            assert said in error_of("serve", *arguments)
