"""A web server on this machine whose misbehaviour can be prescribed, request by request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from waiting import LONGEST


@dataclass
class Reply:
    """How one request is answered; the defaults are those of a good server."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drop_after: int | None = None
    """Bytes of the body after which the connection is cut."""
    hang_after: int | None = None
    """Bytes of the body after which nothing comes any more."""
    ranges: bool = True
    """Whether the server honours range requests."""
    shift: int = 0
    """How far the range that is sent is from the one asked for."""
    length: bool = True
    """Whether the size is said."""


@dataclass
class Page:
    """What is to be had at one path."""

    content: bytes
    etag: str = '"first"'


class Web:
    """`pages` by path; `replies` are used up one by one, then every request is answered well."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.replies: list[Reply] = []
        self.requests: list[dict[str, str]] = []
        self.over = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.requests.append({"path": self.path, **dict(self.headers.items())})
                web.answer(self, web.replies.pop(0) if web.replies else Reply())
                self.close_connection = True

            def log_message(self, *arguments: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that goes away is not this server's trouble."""

        self.server = Server(("127.0.0.1", 0), Handler)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{path}"

    def put(self, path: str, content: bytes, etag: str = '"first"') -> str:
        """The address at which `content` is from now on."""
        self.pages[f"/{path}"] = Page(content, etag)
        return self.url(path)

    def answer(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        page = self.pages.get(handler.path)
        status = reply.status if page else 404
        if status not in (200, 206) or page is None:
            self._refuse(handler, status, reply.headers)
            return
        start, total = 0, len(page.content)
        asked = handler.headers.get("Range", "")
        if asked and reply.ranges and handler.headers.get("If-Range", page.etag) == page.etag:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= total:
                self._refuse(handler, 416, {"Content-Range": f"bytes */{total}"})
                return
            start += reply.shift
            status = 206
        headers = {"Content-Type": "application/octet-stream"}
        headers |= {"ETag": page.etag} if page.etag else {}
        headers |= {"Content-Length": str(total - start)} if reply.length else {}
        headers |= {"Content-Range": f"bytes {start}-{total - 1}/{total}"} if status == 206 else {}
        self._head(handler, status, headers | reply.headers)
        self._send(handler, page.content[start:], reply)

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes, reply: Reply) -> None:
        if reply.drop_after is not None:
            body = body[: reply.drop_after]
        elif reply.hang_after is not None:
            body = body[: reply.hang_after]
        handler.wfile.write(body)
        handler.wfile.flush()
        if reply.hang_after is not None:
            self.over.wait(LONGEST)

    def _refuse(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
        self._head(handler, status, {"Content-Length": "0"} | headers)

    def _head(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()


PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server that no proxy stands before."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    with serving() as server:
        yield server


@contextmanager
def serving() -> Iterator[Web]:
    """A server that runs until this is left."""
    web = Web()
    with answering(web.server):
        try:
            yield web
        finally:
            web.over.set()


@contextmanager
def answering(server: ThreadingHTTPServer) -> Iterator[None]:
    """Within it, a thread of this process answers."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
