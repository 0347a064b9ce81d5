"""A hub on this machine: the few addresses that huggingface_hub needs to make, fill and fetch a model."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from web import answering

TOKEN = "hf_a-secret-that-nobody-may-see"


@dataclass
class Model:
    """A model: its versions, oldest first, each with its files."""

    private: bool
    versions: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)

    def version(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and files of "main", or of a commit."""
        if revision == "main":
            return self.versions[-1]
        return next((version for version in self.versions if version[0] == revision), None)


class Hub:
    """`models` by name; `requests` are the methods and paths that were asked for."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}
        self.requests: list[str] = []
        self.uploads: dict[str, bytes] = {}
        self.status = 200
        """What every request is answered with, unless it is 200."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                body = self._body()
                hub.requests.append(f"{self.command} {self.path}")
                path = unquote(urlsplit(self.path).path).strip("/")
                status, headers, content = hub.answer(self.command, path, body, self.headers)
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(content))} | headers).items():
                    self.send_header(name, value)
                self.send_header("Connection", "close")  # so that a hub that is stopped answers nobody
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def put(self, name: str, files: dict[str, bytes], *, private: bool = False) -> str:
        """A new version of a model; gives back its commit."""
        model = self.models.setdefault(name, Model(private))
        digest = hashlib.sha1(repr((len(model.versions), sorted(files.items()))).encode())
        model.versions.append((digest.hexdigest(), files))
        return digest.hexdigest()

    def answer(self, method: str, path: str, body: bytes, headers: Any) -> tuple[int, dict[str, str], bytes]:
        if self.status != 200:
            return self.status, {}, b"a page of HTML"
        if path == "api/validate-yaml":
            return _json({"errors": [], "warnings": []})
        if path == "api/repos/create":
            return self._create(json.loads(body))
        if method == "PUT" and path.startswith("lfs/"):
            self.uploads[path.removeprefix("lfs/")] = body
            return 200, {}, b""
        path = path.removeprefix("api/models/").replace(".git/info/lfs", "/lfs")
        name, rest = "/".join(path.split("/")[:2]), path.split("/")[2:]
        model = self.models.get(name)
        if model is None or (model.private and headers.get("Authorization") != f"Bearer {TOKEN}"):
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if rest[:1] == ["preupload"]:
            files = [{"path": f["path"], **_mode(f["path"])} for f in json.loads(body)["files"]]
            return _json({"files": files})
        if rest[:1] == ["lfs"]:
            return _json(
                {"transfer": "basic", "objects": [self._place(o) for o in json.loads(body)["objects"]]}
            )
        if rest[:1] == ["commit"]:
            return self._commit(name, model, body)
        return self._read(name, model, rest)

    def _create(self, wanted: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        name = f"{wanted['organization']}/{wanted['name']}"
        if name in self.models:
            return 409, {}, json.dumps({"url": f"{self.address}/{name}"}).encode()
        private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        self.put(name, {".gitattributes": b""}, private=private)
        return _json({"url": f"{self.address}/{name}"})

    def _place(self, wanted: dict[str, Any]) -> dict[str, Any]:
        upload = {"href": f"{self.address}/lfs/{wanted['oid']}"}
        return {"oid": wanted["oid"], "size": wanted["size"], "actions": {"upload": upload}}

    def _commit(self, name: str, model: Model, body: bytes) -> tuple[int, dict[str, str], bytes]:
        files = dict(model.versions[-1][1])
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.uploads[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        commit = self.put(name, files)
        return _json({"commitUrl": f"{self.address}/{name}/commit/{commit}", "commitOid": commit})

    def _read(self, name: str, model: Model, rest: list[str]) -> tuple[int, dict[str, str], bytes]:
        """What the model is, the list of its files, or one of them."""
        kind, revision = (rest[0], rest[1]) if rest else ("revision", "main")
        version = model.version(revision)
        if version is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        commit, files = version
        if kind == "revision":
            siblings = [{"rfilename": file} for file in files]
            return _json({"id": name, "sha": commit, "siblings": siblings, "private": model.private})
        if kind == "tree":
            return _json(
                [{"type": "file", "path": f, "size": len(c), "oid": _sha(c)} for f, c in files.items()]
            )
        content = files.get("/".join(rest[2:]))
        if content is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"
        return 200, {"X-Repo-Commit": commit, "ETag": f'"{_sha(content)}"'}, content


def _json(content: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


def _mode(path: str) -> dict[str, Any]:
    """Large files go another way than small ones."""
    return {"uploadMode": "lfs" if path.endswith(".safetensors") else "regular", "shouldIgnore": False}


def _sha(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def hub_on_this_machine() -> Iterator[Hub]:
    """A hub that runs until this is left."""
    hub = Hub()
    with answering(hub.server):
        yield hub
