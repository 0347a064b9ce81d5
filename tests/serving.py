"""A service on this machine, for tests that speak HTTP."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from dragoman.serving.access import Keys
from dragoman.serving.app import create_app
from dragoman.serving.models import How, Models
from dragoman.serving.running import listen, url_of
from dragoman.serving.service import Service
from dragoman.serving.settings import ServeConfig, load_settings

HOW = How(device="cpu", precision="fp32")


def service_of(runs: Sequence[Path], *overrides: str, keys: Path | None = None, **more: Any) -> Service:
    """A service of these runs; `overrides` are settings such as "limits.characters=100"."""
    config: ServeConfig = load_settings(None, ["page=false", *overrides])
    return Service(Models(runs, HOW), config, keys=None if keys is None else Keys.load(keys), **more)


@contextmanager
def running(service: Service) -> Iterator[str]:
    """The URL at which `service` answers until the block ends; it is closed then."""
    with listen("127.0.0.1", 0) as listening:
        config = uvicorn.Config(create_app(service), log_config=None, access_log=False, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield url_of(listening)
        finally:
            server.should_exit = True
            thread.join()


def named(run: Path, folder: Path, name: str, *, source: str = "en", target: str = "de") -> Path:
    """A copy of a run in `folder`, of this name, that says it translates from `source` to `target`."""
    copy = Path(shutil.copytree(run, folder / name))
    config = copy / "config.toml"
    settings = config.read_text(encoding="utf-8")
    for side, language in {"src_lang": source, "tgt_lang": target}.items():
        settings = re.sub(rf'^{side} = ".*"$', f'{side} = "{language}"', settings, flags=re.MULTILINE)
    config.write_text(settings, encoding="utf-8")
    return copy
