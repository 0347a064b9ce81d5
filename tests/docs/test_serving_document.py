"""What docs/serving.md shows of programs that ask a service works, with a service on another port."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.serving.access import KeyConfig, Keys
from services import ask, service_in_thread

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
RUN_HERE = "<!-- not run: tests/docs/test_serving_document.py runs it against a service -->"
SENTENCES = ["A man is riding a bike.", "Two dogs play."]


def blocks(language: str) -> list[str]:
    """The blocks that this file runs."""
    return re.findall(rf"{re.escape(RUN_HERE)}\n```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_left_out_elsewhere_is_run_here() -> None:
    n_here = sum(map(len, map(blocks, ("sh", "python", "js"))))
    assert n_here == PAGE.count(RUN_HERE) == 4


def test_routes_without_a_key_are_those_of_the_table(tiny_run: Path) -> None:
    (table,) = re.findall(r"\| needs no key .*?\n((?:\|.*\n)+)", PAGE)
    listed = [name for row in table.splitlines() for name in re.findall("`([^`]*)`", row.split("|")[1])]
    keys = Keys(keys={"ann": KeyConfig(sha256="0" * 64)})
    with service_in_thread([tiny_run], keys=keys) as (port, _):
        described = ask(port, "GET", "/openapi.json").json["paths"]
        found = ["/", "/page/…", "/openapi.json"]
        assert ask(port, "GET", "/").status == ask(port, "GET", "/page/page.js").status == 200
        for path, methods in described.items():
            address = path.replace("{filename}", "x")
            body = None if "get" in methods else {}
            answer = ask(port, "POST" if "post" in methods else "GET", address, body)
            if not (answer.status in (401, 403) and "key" in answer.json["error"].lower()):
                found.append(path.replace("{filename}", "…"))
    assert sorted(listed) == sorted(found)


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl(here: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("red cat\n\nblue dog\n", encoding="utf-8")
    (block,) = blocks("sh")
    whole, streamed, file, terms = re.split(r"\n(?=curl)", here(block).strip())

    def output(command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", f"{command} --silent --fail-with-body"],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
        return done.stdout

    answer = json.loads(output(whole))
    sentences = answer["translations"][0]["sentences"]
    assert [each["source"] for each in sentences] == SENTENCES
    assert all(each["alternatives"] and each["words"] is not None for each in sentences)
    events = re.findall(r"^event: (\w+)$", output(streamed), re.MULTILINE)
    assert (events[0], events[-1]) == ("begin", "done")
    assert events.count("sentence") == len(SENTENCES)
    output(file)
    assert (tmp_path / "output.txt").read_text(encoding="utf-8").count("\n") == 3
    text = json.loads(output(terms))["translations"][0]["text"]
    assert "12.50" in text
    assert re.search(r"\bHund\w{0,3}\b", text)


def test_python(here: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = blocks("python")
    exec(compile(here(ours), "<document>", "exec"), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" [")[0] for line in lines] == SENTENCES
    exec(compile(here(theirs), "<document>", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")
def test_javascript(here: Callable[[str], str]) -> None:
    (block,) = blocks("js")
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", here(block)],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == len(SENTENCES)
