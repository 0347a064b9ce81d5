"""Commands that only read a run, on a processor: they need no PyTorch, which cannot be imported here."""

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.native import native

WITHOUT = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("PyTorch was asked for")

sys.meta_path.insert(0, Refused())
from dragoman.__main__ import main
main()
"""

pytestmark = pytest.mark.skipif(bool(native().reason), reason=native().reason)


def without_pytorch(*arguments: object, stdin: str = "") -> str:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("options", [[], ["--precision", "int8"], ["--json", "--align", "--confidence"]])
def test_translating(tiny_run: Path, options: list[str]) -> None:
    assert len(without_pytorch("translate", tiny_run, *options, stdin="red cat\nold dog\n").splitlines()) == 2
