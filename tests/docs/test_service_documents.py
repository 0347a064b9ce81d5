"""What docs/serving.md and docs/tools.md show of programs that ask a service works, on another port."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from dragoman.serving.access import KeyConfig, Keys
from services import ask, service_in_thread

DOCS = Path(__file__).parents[2] / "docs"
SERVING, TOOLS = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("serving", "tools"))
RUN_HERE = "<!-- not run: tests/docs/test_service_documents.py runs it against a service -->"
ADDRESS = "127.0.0.1:8000"
SENTENCES = ["A man is riding a bike.", "Two dogs play."]

needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")


@pytest.fixture(scope="module")
def here(tiny_run: Path) -> Iterator[Callable[[str], str]]:
    """What gives code of a document the address of a service."""

    def with_address(code: str) -> str:
        assert ADDRESS in code
        return code.replace(ADDRESS, f"127.0.0.1:{port}")

    with service_in_thread([tiny_run]) as (port, _):
        yield with_address


def blocks(page: str, language: str) -> list[str]:
    """The blocks that this file runs."""
    return re.findall(rf"{re.escape(RUN_HERE)}\n```{language}\n(.*?)```", page, re.DOTALL)


def run_python(code: str) -> None:
    exec(compile(code, "<document>", "exec"), {"__name__": "__main__"})


def outputs(commands: list[str], folder: Path) -> list[str]:
    """What each of these calls of curl prints."""
    lines = [["sh", "-ec", f"{command} --silent --fail-with-body"] for command in commands]
    return [subprocess.check_output(line, cwd=folder, text=True, timeout=600) for line in lines]


def test_every_block_left_out_elsewhere_is_run_here() -> None:
    for page, n_blocks in ((SERVING, 4), (TOOLS, 3)):
        n_here = sum(len(blocks(page, language)) for language in ("sh", "python", "js"))
        assert n_here == page.count(RUN_HERE) == n_blocks


def test_routes_without_a_key_are_those_of_the_table(tiny_run: Path) -> None:
    (table,) = re.findall(r"\| needs no key .*?\n((?:\|.*\n)+)", SERVING)
    listed = [name for row in table.splitlines() for name in re.findall("`([^`]*)`", row.split("|")[1])]
    keys = Keys(keys={"ann": KeyConfig(sha256="0" * 64)})
    with service_in_thread([tiny_run], keys=keys) as (port, _):
        described = ask(port, "GET", "/openapi.json").json["paths"]
        open_to_all = ["/", "/page/…", "/openapi.json"]
        assert ask(port, "GET", "/").status == ask(port, "GET", "/page/page.js").status == 200
        for path, methods in described.items():
            address = path.replace("{filename}", "x")
            body = None if "get" in methods else {}
            answer = ask(port, "POST" if "post" in methods else "GET", address, body)
            needs_key = answer.status in (401, 403) and "key" in answer.json["error"].lower()
            assert needs_key <= all("security" in operation for operation in methods.values()), path
            if not needs_key:
                open_to_all.append(path.replace("{filename}", "…"))
    assert sorted(listed) == sorted(open_to_all)


@needs_curl
def test_curl_of_serving(here: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("red cat\n\nblue dog\n", encoding="utf-8")
    (block,) = blocks(SERVING, "sh")
    whole, streamed, _, terms = outputs(re.split(r"\n(?=curl)", here(block).strip()), tmp_path)
    sentences = json.loads(whole)["translations"][0]["sentences"]
    assert [each["source"] for each in sentences] == SENTENCES
    assert all(each["alternatives"] and each["words"] is not None for each in sentences)
    events = re.findall(r"^event: (\w+)$", streamed, re.MULTILINE)
    assert (events[0], events[-1]) == ("begin", "done")
    assert events.count("sentence") == len(SENTENCES)
    assert (tmp_path / "output.txt").read_text(encoding="utf-8").count("\n") == 3
    text = json.loads(terms)["translations"][0]["text"]
    assert "12.50" in text
    assert re.search(r"\bHund\w{0,3}\b", text)


@needs_curl
def test_curl_of_tools(here: Callable[[str], str], tmp_path: Path) -> None:
    (block,) = blocks(TOOLS, "sh")
    translated, languages = map(json.loads, outputs(here(block).splitlines(), tmp_path))
    assert isinstance(translated["translatedText"], str)
    assert [each["code"] for each in languages] == ["en", "de"]


def test_python_of_serving(here: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = blocks(SERVING, "python")
    run_python(here(ours))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" [")[0] for line in lines] == SENTENCES
    run_python(here(theirs))
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("code", blocks(TOOLS, "python"))
def test_a_python_client_of_tools(
    code: str, here: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    (package,) = re.findall(r"^from (\w+) import", code)
    pytest.importorskip(package, reason=f"needs pip install {package}")
    run_python(here(code))
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")
def test_javascript(here: Callable[[str], str]) -> None:
    (block,) = blocks(SERVING, "js")
    command = ["node", "--input-type=module", "--eval", here(block)]
    assert len(subprocess.check_output(command, text=True, timeout=600).splitlines()) == len(SENTENCES)


@pytest.mark.parametrize("package", ["libretranslatepy", "deep-translator"])
def test_the_versions_are_those_that_were_run(package: str) -> None:
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip(f"needs pip install {package}")
    assert re.search(rf"^\| \[{package}\]\(#python\) \| {re.escape(installed)} \|", TOOLS, re.MULTILINE)
