"""The page of a service in a browser: the service runs in this process, the browser has no window."""

import json
import shutil
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from browser_page import FLAGS
from waiting import LONGEST

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def ask(url: str, request: dict[str, Any] | None = None) -> Any:
    """What a program gets from the service: GET, or POST with a request."""
    data = None if request is None else json.dumps(request).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=LONGEST) as answer:
        return json.load(answer)


@contextmanager
def served(runs: Sequence[Path], *, keys: Path | None = None, **limits: float) -> Iterator[str]:
    """The address of a service of these runs, which ends when this is left."""
    from services import running, service_of

    settings = [f"limits.{name}={value}" for name, value in limits.items()]
    with running(service_of(runs, *settings, keys=keys)) as url:
        yield url


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser. Skips the tests where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def new_context(browser: Any, **settings: Any) -> Any:
    """A context of the browser, whose pages wait as long as a loaded machine may take."""
    from playwright.sync_api import expect

    expect.set_options(timeout=1000 * LONGEST)
    context = browser.new_context(**settings)
    context.set_default_timeout(1000 * LONGEST)
    return context


def violations(page: Any, part: str = "html") -> list[str]:
    """What axe-core finds in a part of the page against WCAG 2.2 AA and its own best practices."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.Axe().axe_script)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate(
        "([part, tags]) => axe.run(part, { runOnly: tags, resultTypes: ['violations'] })", [part, tags]
    )
    assert found["passes"]
    return [
        f"{each['id']}: {node['html'][:120]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


@dataclass
class Watched:
    """What a page asked for, and what it complained about."""

    addresses: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    bodies: list[tuple[str, Any]] = field(default_factory=list)
    """(route, request) of all that was sent as JSON."""

    def watch(self, page: Any) -> None:
        page.on("request", self._request)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text)
        )

    def _request(self, request: Any) -> None:
        self.addresses.append(request.url)
        if request.method == "POST" and "json" in request.headers.get("content-type", ""):
            self.bodies.append((request.url.rsplit("/", 1)[-1], json.loads(request.post_data)))

    def sent(self, route: str) -> list[Any]:
        """The requests to a route."""
        return [body for there, body in self.bodies if there == route]
