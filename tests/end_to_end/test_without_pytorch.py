"""Commands that only read a run, on a processor: they need no PyTorch, which cannot be imported here."""

import json
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


@pytest.mark.parametrize("options", [[], ["--precision", "int8"], ["--json", "--align"]])
def test_translating(tiny_run: Path, options: list[str]) -> None:
    assert len(without_pytorch("translate", tiny_run, *options, stdin="red cat\nold dog\n").splitlines()) == 2


def test_classifying(tiny_classifier_run: Path) -> None:
    assert (
        len(without_pytorch("classify", tiny_classifier_run, stdin="good film\nbad film\n").splitlines()) == 2
    )


def test_scores_and_facts(tiny_run: Path, tmp_path: Path) -> None:
    """Of translations by a run and of given ones, and what a run says of itself."""
    text = tmp_path / "text"
    text.write_text("red cat\nold dog\n", encoding="utf-8")
    assert without_pytorch("score-model", tiny_run, text, text)
    assert "BLEU" in without_pytorch("evaluate", tiny_run, "--src", text, "--ref", text)
    assert without_pytorch("card", tiny_run)
    assert "tiny" in without_pytorch("show", tiny_run)


SERVICE = """
from fastapi.testclient import TestClient
from dragoman.serving.app import create_app
from services import service_of

with TestClient(create_app(service_of([sys.argv[1]], n_threads=1))) as client:
    asked = {"text": "red cat", "align": True, "confidence": True, "n_best": 2}
    print(client.post("/v1/translate", json=asked).text)
"""


def test_a_service(tiny_run: Path) -> None:
    refused = WITHOUT.partition("from dragoman")[0]
    path = f"sys.path.append({str(Path(__file__).parents[1])!r})\n"
    command = [sys.executable, "-c", refused + path + SERVICE, str(tiny_run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (translation,) = json.loads(done.stdout)["translations"]
    assert translation["sentences"][0]["alternatives"]
