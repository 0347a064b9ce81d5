"""An S3 store on this machine (moto) whose misbehaviour can be prescribed, request by request."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "corpora"


class Store:
    """A bucket; `cuts` are used up one by one, each by the next request of its method for an object."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self.cuts: list[tuple[str, int]] = []
        """Method, and the bytes of the answer after which the connection is cut; what is put then is lost."""
        self.before: Callable[[], None] | None = None
        """Is called once, before the next GET of an object is answered."""
        self.requests: list[str] = []
        """Method and range of each request for an object."""
        self.app = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=Silent)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path.count("/") < 2 or path.endswith("/"):
            return self.app(environ, start_response)
        self.requests.append(f"{method} {environ.get('HTTP_RANGE', '')}".strip())
        if method == "GET" and self.before:
            change, self.before = self.before, None
            change()
        if not self.cuts or self.cuts[0][0] != method:
            return self.app(environ, start_response)
        n_bytes = self.cuts.pop(0)[1]
        if method != "GET":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("as prescribed")
        return self._cut(b"".join(self.app(environ, start_response)), n_bytes)

    def _cut(self, content: bytes, n_bytes: int) -> Iterator[bytes]:
        yield content[:n_bytes]
        raise ConnectionAbortedError("as prescribed")

    def client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint)

    def put(self, key: str, content: bytes) -> str:
        """Make an object and return its address."""
        self.client().put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def get(self, key: str) -> bytes:
        return self.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def names(self) -> list[str]:
        found = self.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [item["Key"] for item in found]

    def uploads(self) -> list[Any]:
        """Return the multipart uploads that were begun and neither completed nor aborted."""
        return self.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])


class Silent(WSGIRequestHandler):
    """Logs nothing; an error in the middle of an answer cuts the connection."""

    def log(self, *arguments: object, **options: object) -> None:
        pass

    def log_request(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with one empty bucket, which in this environment is the one of s3://."""
    from moto.backends import get_backend
    from s3fs import S3FileSystem

    found = Store()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": found.endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    S3FileSystem.clear_instance_cache()
    get_backend("s3").reset()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    try:
        found.client().create_bucket(Bucket=BUCKET)
        yield found
    finally:
        S3FileSystem.clear_instance_cache()
        found.server.shutdown()
        found.server.server_close()
        thread.join()
