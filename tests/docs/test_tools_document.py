"""What docs/tools.md shows of curl and of Python's clients works, with a service on another port."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"<!-- not run: tests/docs/test_tools_document\.py runs it against a service -->\n```(\w+)\n(.*?)```",
    re.DOTALL,
)
BLOCKS = BLOCK.findall(PAGE)


def test_every_block_left_out_elsewhere_is_run_here() -> None:
    assert [language for language, _ in BLOCKS] == ["sh", "python", "python"]
    assert PAGE.count("test_tools_document.py") == len(BLOCKS)


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl(here: Callable[[str], str]) -> None:
    ((_, code), *_) = BLOCKS
    translated, languages = (
        json.loads(subprocess.check_output(["sh", "-ec", f"{line} --silent --fail-with-body"], timeout=600))
        for line in here(code).splitlines()
    )
    assert isinstance(translated["translatedText"], str)
    assert [each["code"] for each in languages] == ["en", "de"]


@pytest.mark.parametrize("code", [code for language, code in BLOCKS if language == "python"])
def test_a_python_client(code: str, here: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    (package,) = re.findall(r"^from (\w+) import", code)
    pytest.importorskip(package, reason=f"needs pip install {package}")
    exec(compile(here(code), "<document>", "exec"), {"__name__": "__main__"})
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("package", ["libretranslatepy", "deep-translator"])
def test_the_versions_are_those_that_were_run(package: str) -> None:
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip(f"needs pip install {package}")
    assert re.search(rf"^\| \[{package}\]\(#python\) \| {re.escape(installed)} \|", PAGE, re.MULTILINE)
