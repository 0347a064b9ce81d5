"""Requests that no client should send: broken HTTP, broken JSON, wrong types, and texts full of surprises."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

ROUTES = (
    "/v1/translate", "/v1/classify", "/v1/detect", "/v1/documents",
    "/translate", "/detect", "/translate_file",
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

ENTITIES = b'<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><tmx>&b;</tmx>'
UPGRADE = ("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Upgrade, HTTP2-Settings")


def malformed(seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Kinds of requests in turn, and what is sent of each, without end and the same for the same seed."""
    rng = random.Random(seed)
    for kind, make in itertools.cycle(KINDS.items()):
        yield kind, make(rng)


def post(path: str, body: bytes, content_type: str = "application/json", *more: str) -> bytes:
    """Return a request in good HTTP, whatever its body is."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [*more, *([f"Content-Type: {content_type}"] if content_type else []), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def form(fields: Iterable[tuple[str, str, bytes]], boundary: str = "x") -> bytes:
    """Return a form of these fields: a name, what else is said of it, and the content."""
    parts = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content
        for name, more, content in fields
    )
    return b"".join(part + b"\r\n" for part in parts) + f"--{boundary}--\r\n".encode()


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
        form([("file", '; filename="../../x.docx"', b"PK\x03\x04bad")]),
        form([("file", '; filename="a.txt"', b"\xff\xfe\xfa")]),
        form([("file", '; filename="\x01.srt"', b"1\n00:99 --> x\nHi")]),
        form([("file", "", b"no file")]),
        form([("file", '; filename="a.tmx"', ENTITIES)]),
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
    head = (
        b"POST /v1/detect HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    return head + b"X: yyyyyyyyyyyyyy\r\n" * rng.choice([1, 99, 9999, 500_000]) + b"\r\n"


def _costly(rng: random.Random) -> bytes:
    """Phrases that take many tokens, and texts without a letter."""
    phrase = rng.choice(["xyzzy ", "H" + "\u0301" * 40, "a", "Ein Mann "]) * rng.choice([1, 30, 300])
    text = rng.choice(["12345", ".", "—", "😀", "€ 12.50", "\u200b", "A man sleeps."])
    required = [phrase] * rng.choice([0, 0, 1, 40])
    return post("/v1/translate", json.dumps({"text": text, "split": False, "required": required}).encode())


KINDS: dict[str, Callable[[random.Random], bytes]] = {
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
