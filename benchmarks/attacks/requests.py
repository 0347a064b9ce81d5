"""Requests that no client should send: broken HTTP, broken JSON, wrong types, and texts full of surprises."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from attacks import documents
from attacks.calls import Fault, Show, Stage, readable
from attacks.commands import has_letter
from service import running

ROUTES = (
    "/v1/translate", "/v1/classify", "/v1/detect", "/v1/documents",
    "/translate", "/detect", "/translate_file", "/suggest",
)  # fmt: skip

GOOD: dict[str, dict[str, Any]] = {
    "/v1/translate": {
        "text": "A man sleeps.", "model": None, "source": "en", "target": "de", "split": True, "n_best": 1,
        "beam_size": 2, "length_penalty": 1.0, "no_repeat_ngram": 0, "method": "beam", "temperature": 1.0,
        "top_k": 0, "top_p": 1.0, "seed": 1, "prefix": None, "required": [], "protect": [], "align": False,
        "confidence": False, "stream": False,
    },
    "/v1/classify": {"text": "A lovely film.", "model": None},
    "/v1/detect": {"text": "Wo ist der Bahnhof?"},
    "/translate": {"q": "A man.", "source": "en", "target": "de", "format": "text", "alternatives": 0},
    "/detect": {"q": "Wo ist der Bahnhof?"},
}  # fmt: skip

SURPRISES = {
    "right to left": "שלום עולם \u202eabc\u202c مرحبا بالعالم \u2067x\u2069",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 " * 5,
    "combining": "Z" + "\u0341\u0323\u0308" * 50 + "a\u0300" * 20,
    "zero width": "\u200b\u200c\u200d\ufeff\u2060" * 20,
    "invisible": "\u00ad\u061c\u180e\u3164\ufff9\U000e0041",
    "private": "\ue000\U0010ffff\uffff\ufdd0",
    "control": "".join(map(chr, range(32))) + "\x7f\x85\x9b2J",
    "lines": "\r\n\n\r\u2028\u2029\x0b\x0c" * 10,
    "markup": "<script>alert(1)</script> {{7*7}} ${7*7} %s %n ' OR 1=1 --",
    "space": " \t\u3000\u00a0" * 40,
    "nothing": "",
    "full stops": "." * 400,
    "one letter": "a " * 300,
    "symbols": "∀∂∈ℝ∧∪≡∞ ↑↗↨↻⇣ ┐┼╔╘░►☺♀ ﬁ�⑀₂ἠḂӥẄɐː⍎אԱა",
}
"""Texts that are no mistake, and must be answered like any other."""

WRONG: tuple[Any, ...] = (
    None, True, 3, -1, 0, 2**63, 2**64, 10**400, -(10**30), 1.5, 1e308, "", "x", "auto", "\ud800", "\x00",
    [], [None], [[]], ["a", 3], {}, {"a": "b"}, ["a"] * 3000, "x" * 70_000,
)  # fmt: skip

Make = Callable[[random.Random], bytes]


def malformed(seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Kinds of requests in turn, and what is sent of each, without end and the same for the same seed."""
    rng = random.Random(seed)
    for kind, make in itertools.cycle(KINDS.items()):
        yield kind, make(rng)


def post(path: str, body: bytes, content_type: str = "application/json", *more: str) -> bytes:
    """Return a request in good HTTP, whatever its body is."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *more,
    ]
    lines += [f"Content-Type: {content_type}"] if content_type else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _broken_http(rng: random.Random) -> bytes:
    request = rng.choice([
        rng.randbytes(rng.randint(1, 200)) + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(100),
        b"GET / HTTP/%d.%d\r\n\r\n" % (rng.randint(0, 9), rng.randint(2, 9)),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET  /  HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
        b"GET / HTTP/1.1\r\n: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: \x00\r\n\r\n",
        b"GET / HTTP/1.1\nConnection: close\n\n",
        b"POST /v1/detect HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/detect HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/detect HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/detect HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/detect HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/detect HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"POST /v1/detect HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /" + b"a" * rng.randint(1, 100_000) + b" HTTP/1.1\r\nConnection: close\r\n\r\n",
    ])  # fmt: skip
    return request.replace(b" HTTP/1.1\r\n", b" HTTP/1.1\r\nConnection: close\r\n", 1)


def _odd_target(rng: random.Random) -> bytes:
    path = rng.choice([
        "/../../../../etc/passwd", "/page/../../app.py", "/page/..%2f..%2fapp.py", "/page/%2e%2e/%2e%2e/x",
        "/%00", "/page/%00.js", "//", "/page//etc/passwd", "/page/" + "a/" * 2000, "/%ff%fe", "/%",
        "/?" + "&" * 9000,
        "*", "http://[::1", "http://example.org/", "/page/CON", "/page/x" + "y" * 300,
        "/download_file/..%2f..%2fx",
        "/v1/models?api_key=" + "k" * 5000, "/metrics?api_key=%00", "/frontend/settings", "/languages?x=%zz",
    ])  # fmt: skip
    method = rng.choice(["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "get"])
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def _odd_headers(rng: random.Random) -> bytes:
    header = rng.choice([
        "Range: bytes=9999999-", "Range: bytes=0-0,1-1,2-2" + ",3-3" * 500, "If-Modified-Since: \xff",
        "Accept: " + "*" * 5000,
        "X-Request-ID: a\tb", "X-Request-ID: " + "x" * 10_000, "Authorization: Bearer",
        "Authorization: \xff \xfe",
        "Authorization: Basic Og==", "Cookie: " + "a=b; " * 2000, "X-Forwarded-For: " + "1, " * 3000,
        "Expect: 100-continue", "Expect: nonsense", "Upgrade: websocket\r\nConnection: Upgrade", "Host: \xff",
        "Content-Encoding: gzip", "Transfer-Encoding: identity", "Origin: null", "Origin: " + "x" * 9000,
    ])  # fmt: skip
    path = rng.choice(["/", "/page/page.js", "/health", "/v1/models", "/metrics", "/openapi.json"])
    return f"GET {path} HTTP/1.1\r\nConnection: close\r\n{header}\r\n\r\n".encode("latin-1")


def _broken_json(rng: random.Random) -> bytes:
    whole = json.dumps(GOOD[rng.choice(list(GOOD))]).encode()
    body = rng.choice([
        whole[: rng.randint(0, len(whole) - 1)],
        whole + whole,
        whole.replace(b'"', b"'"),
        b"\xef\xbb\xbf" + whole,
        whole.decode().encode("utf-16"),
        whole.replace(b"1", b"NaN").replace(b"2", b"-Infinity"),
        b"{" + b'"text": "a", ' * 1000 + b'"text": "b"}',
        b"null", b"true", b"7", b'"text"', b"[]", b"", b"\x00" * 50, b"{}" + b" " * 1000, b"// a\n{}",
        rng.randbytes(200),
    ])  # fmt: skip
    return post(rng.choice(ROUTES), body)


def _wrong_types(rng: random.Random) -> bytes:
    path = rng.choice(list(GOOD))
    body = dict(GOOD[path])
    for name in rng.sample(list(body), k=rng.randint(1, min(2, len(body)))):
        body[name] = rng.choice(WRONG)
    if rng.random() < 0.1:
        body[rng.choice(["", "__proto__", "texts", "a" * 1000, "\ud800"])] = rng.choice(WRONG)
    return post(path, json.dumps(body).encode())


def _wrong_content(rng: random.Random) -> bytes:
    content_type = rng.choice([
        "", "text/plain", "application/xml", "application/x-www-form-urlencoded", "application/octet-stream",
        "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=x",
        "multipart/form-data; boundary=" + "x" * 500, "application/json; charset=utf-16",
        "a/b/c", "\xff/\xfe",
    ])  # fmt: skip
    body = rng.choice([
        json.dumps(GOOD["/v1/translate"]).encode(), b"q=A+man&source=en&target=de",
        b"q=%ff%00&q=2&=&&&=x", b"--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="../../x.docx"\r\n\r\n'
        b'PK\x03\x04bad\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        b'\xff\xfe\xfa\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="\x01.srt"\r\n\r\n'
        b'1\n00:99 --> x\nHi\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nno file\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.tmx"\r\n\r\n'
        b'<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><tmx>&b;</tmx>\r\n--x--\r\n',
        b"--x\r\n" * 2000, rng.randbytes(500),
    ])  # fmt: skip
    return post(rng.choice(ROUTES), body, content_type)


def _deep(rng: random.Random) -> bytes:
    n = rng.choice([100, 1000, 50_000, 200_000])
    return post(rng.choice(ROUTES), rng.choice([
        b"[" * n, b"[" * n + b"]" * n, b'{"text":' * n + b"1" + b"}" * n,
        b'{"text":' + b"[" * n + b"]" * n + b"}",
    ]))  # fmt: skip


def _numbers(rng: random.Random) -> bytes:
    digits = rng.choice(
        [b"1" * 5000, b"-" + b"9" * 400, b"1e400", b"-1e400", b"1e-400", b"0.1e+99999999", b"1" * 100_000]
    )
    name = rng.choice([name.encode() for name in GOOD["/v1/translate"]])
    return post("/v1/translate", b'{"text": "a", "' + name + b'": ' + digits + b"}")


def _bad_text(rng: random.Random) -> bytes:
    text = rng.choice([
        b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1", b"\\ud800",
        b"\\udfff\\ud800 a",
        b"\\u0000", b"\x00", b"\x1b[2J", b"a\nb", b"\\x", b"\\u12", b"\\ud83d \\ude00",
    ])  # fmt: skip
    path = rng.choice(list(GOOD))
    field = rng.choice(["text", "q", "model", "source", "target", "prefix", "method"]).encode()
    return post(path, b'{"%b": "%b"}' % (field, text))


def _trailers(rng: random.Random) -> bytes:
    """Trailers of any number after a chunked body, and an upgrade that a body comes with."""
    if rng.random() < 0.5:
        return post("/v1/translate", json.dumps(GOOD["/v1/translate"]).encode(), "application/json", *UPGRADE)
    head = b"POST /v1/detect HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    return (
        head + b"2\r\n{}\r\n0\r\n" + b"X: yyyyyyyyyyyyyy\r\n" * rng.choice([1, 99, 9999, 500_000]) + b"\r\n"
    )


def _costly(rng: random.Random) -> bytes:
    """Phrases that take many tokens, and texts without a letter."""
    phrase = rng.choice(["xyzzy ", "H" + "\u0301" * 40, "a", "Ein Mann "]) * rng.choice([1, 30, 300])
    text = rng.choice(["12345", ".", "—", "😀", "€ 12.50", "\u200b", "A man sleeps."])
    required = [phrase] * rng.choice([0, 0, 1, 40])
    return post("/v1/translate", json.dumps({"text": text, "split": False, "required": required}).encode())


UPGRADE = ("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Upgrade, HTTP2-Settings")

KINDS: dict[str, Make] = {
    "broken HTTP": _broken_http,
    "odd targets and methods": _odd_target,
    "odd headers": _odd_headers,
    "broken JSON": _broken_json,
    "wrong types": _wrong_types,
    "wrong content types": _wrong_content,
    "deep nesting": _deep,
    "huge numbers": _numbers,
    "broken text": _bad_text,
    "trailers and upgrades": _trailers,
    "costly phrases": _costly,
}


# --- requests to every route that a service describes


SECONDS = 30.0
"""An answer takes no longer than this."""
UNEXPECTED = (
    "an error that should not be",
    "Exception in ASGI",
    "Traceback",
    "a worker cannot go on",
    "a worker has died",
)
"""What is not in the log of a service that is well."""
OPTIONS = ("limits.body_seconds=1", "limits.seconds=20", "limits.body_bytes=2000000", "log_format=json")
EVERY = 10
"""After this many requests the good one is sent again."""


class Answer(NamedTuple):
    """Return the answer of a service; status 0 = connection closed without an answer."""

    status: int
    kind: str
    body: bytes


def described(rng: random.Random, api: dict[str, Any], sentences: list[str]) -> bytes:
    """Return a request to any route of an OpenAPI description, with parameters good and bad."""
    path, operations = rng.choice(list(api["paths"].items()))
    method, operation = rng.choice([(m, o) for m, o in operations.items() if isinstance(o, dict)])
    query = []
    for each in operation.get("parameters", []):
        value = str(_value(rng, api, each.get("schema", {}), sentences))
        if each["in"] == "path":
            path = path.replace("{" + each["name"] + "}", quote(value, safe="", errors="replace")[:3000])
        elif rng.random() < 0.7:
            query.append(f"{each['name']}={quote(value, errors='replace')[:3000]}")
    kinds = operation.get("requestBody", {}).get("content", {})
    body, kind = b"", ""
    if kinds:
        kind = rng.choice(list(kinds))
        fields = _value(rng, api, kinds[kind].get("schema", {}), sentences)
        if kind.startswith("multipart/"):
            body, kind = _form(rng, fields if isinstance(fields, dict) else {}, sentences)
        elif kind.startswith("application/x-www-form"):
            parts = fields.items() if isinstance(fields, dict) else []
            body = "&".join(f"{quote(k)}={quote(str(v), errors='replace')}" for k, v in parts).encode()
        else:
            body = json.dumps(fields).encode()
    target = path + ("?" + "&".join(query) if query else "")
    if rng.random() < 0.05:
        method = rng.choice(["get", "put", "delete", "head", "options", "trace"])
    head = f"{method.upper()} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Length: {len(body)}\r\n" + (f"Content-Type: {kind}\r\n" if kind else "")
    return head.encode("latin-1", "replace") + b"\r\n" + body


def _value(rng: random.Random, api: dict[str, Any], schema: dict[str, Any], sentences: list[str]) -> Any:
    """Return a value that the schema describes, or now and then one that it does not."""
    if rng.random() < 0.06:
        return rng.choice(WRONG)
    if "$ref" in schema:
        return _value(rng, api, api["components"]["schemas"][schema["$ref"].split("/")[-1]], sentences)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _value(rng, api, rng.choice(schema[several]), sentences)
    if "enum" in schema or "const" in schema:
        return rng.choice(schema.get("enum") or [schema["const"]])
    kind = schema.get("type")
    if kind == "object":
        wanted, fields = schema.get("required", []), schema.get("properties", {})
        chosen = [name for name in fields if name in wanted or rng.random() < 0.4]
        return {name: _value(rng, api, fields[name], sentences) for name in chosen}
    if kind == "array":
        return [
            _value(rng, api, schema.get("items", {}), sentences) for _ in range(rng.choice([0, 1, 1, 2, 5]))
        ]
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        bounds = [schema[name] for name in ("minimum", "maximum", "default") if name in schema]
        return rng.choice([*bounds, 0, 1, 2, 0.5 if kind == "number" else 3])
    words = [
        "en",
        "de",
        "auto",
        "run",
        "text",
        rng.choice(list(SURPRISES.values())),
        *schema.get("examples", []),
    ]
    return rng.choice([*words, *rng.sample(sentences, k=5)])


def _form(rng: random.Random, fields: dict[str, Any], sentences: list[str]) -> tuple[bytes, str]:
    """Return a form with a document in it, and its content type."""
    document = documents.make(rng, sentences)
    ending = document.ending if rng.random() < 0.9 else rng.choice([".pdf", "", ".docx", "." * 300])
    boundary = uuid.UUID(int=rng.getrandbits(128)).hex
    body = b""
    for name, value in {**fields, "file": None}.items():
        is_file = name == "file"
        extra = f'; filename="{rng.choice(["a", "../x", "a b"])}{ending}"' if is_file else ""
        content = document.content if is_file else str(value).encode("utf-8", "replace")
        body += (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'.encode()
            + content
            + b"\r\n"
        )
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


class Requests:
    """Requests to a service of two workers."""

    def __init__(self, stage: Stage) -> None:
        self.sentences = [en for en, _ in stage.pairs]
        self._running = ExitStack()
        runs = (str(stage.made("run")), str(stage.made("classifier")))
        options = [part for setting in OPTIONS for part in ("--set", setting)]
        self.service = self._running.enter_context(running(*runs, "--workers", "2", *options))
        self.api = json.loads(self.exchange(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n").body)
        self.good = post("/v1/translate", json.dumps({"text": self.sentences[:2]}).encode())
        self.translated = self._translation()
        self.n_logged = 0

    def close(self) -> None:
        self._running.close()

    def faults(self, seed: int, show: Show) -> list[Fault]:
        rng = random.Random(f"requests:{seed}")
        if rng.random() < 0.4:
            content = rng.choice(list(KINDS.values()))(rng)
        else:
            content = described(rng, self.api, self.sentences)
        show(f"{len(content):,} bytes: {content[:2000]!r}")
        try:
            answer = self.exchange(content)
        except TimeoutError:
            return [("hang", f"no answer within {SECONDS} s to {content[:200]!r}")]
        show(f"status {answer.status}, {answer.kind}, {answer.body[:2000]!r}")
        found = [(sort, f"{what}; request {content[:150]!r}") for sort, what in self._faults(answer, content)]
        if seed % EVERY == 0 or found:
            found += self._health()
        return found

    def _faults(self, answer: Answer, content: bytes) -> Iterator[Fault]:
        if answer.status >= 500 and answer.status not in (501, 503, 504, 505, 507):
            yield "traceback", f"status {answer.status}: {answer.body[:200]!r}"
        if answer.status >= 400 and answer.body:
            try:
                error = json.loads(answer.body)["error"]
                if not isinstance(error, str) or not readable(error) or len(error) > 2000 + len(content):
                    yield "wrong", f"status {answer.status} with the error {error!r:.300}"
            except (ValueError, KeyError, TypeError):
                yield "wrong", f"status {answer.status} with {answer.body[:200]!r}, which is no error"
        if b"Upgrade: h2c" in content and answer.status != 200:
            yield "wrong", f"status {answer.status} because of an upgrade"
        if answer.status == 200 and b'"split": false, "required": []' in content:
            asked, said = content.partition(b"\r\n\r\n")[2], json.loads(answer.body)["translations"]
            if has_letter(said[0]["text"]) and not has_letter(json.loads(asked)["text"]):
                yield "wrong", f"a text without a letter became {said}"
        if answer.status == 200 and content[:4] != b"HEAD" and answer.kind.startswith("application/json"):
            try:
                json.loads(answer.body, parse_constant=lambda name: 1 / 0)
            except (ValueError, ZeroDivisionError):
                yield "wrong", f"status 200 with {answer.body[:200]!r}, which is not JSON"

    def _health(self) -> Iterator[Fault]:
        """Whether the service is alive, and translates as before."""
        try:
            if self._translation() != self.translated:
                yield "wrong", "another translation than before"
        except (OSError, TimeoutError, http.client.HTTPException) as error:
            yield "hang", f"the service does not translate any more: {error!r}"
        bad = self.service.logged(*UNEXPECTED)
        if len(bad) > self.n_logged:
            yield "traceback", f"the log says {bad[-1][:600]}"
        self.n_logged = len(bad)

    def _translation(self) -> object:
        answer = self.exchange(self.good)
        return [each.get("translation") for each in json.loads(answer.body)["translations"]]

    def exchange(self, content: bytes) -> Answer:
        """Return the answer to `content`, which may be no request at all. TimeoutError: none comes."""
        with socket.create_connection(("127.0.0.1", self.service.port), timeout=SECONDS) as wire:
            with suppress(ConnectionError):  # it may answer before the end
                wire.sendall(content)
            answer = http.client.HTTPResponse(wire, method="HEAD" if content.startswith(b"HEAD") else "GET")
            try:
                answer.begin()
                return Answer(answer.status, answer.headers.get("content-type", ""), answer.read())
            except (ConnectionError, http.client.HTTPException):
                return Answer(0, "", b"")
            finally:
                answer.close()
