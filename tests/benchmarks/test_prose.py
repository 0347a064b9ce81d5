"""tools/prose.py finds words that readers stumble over, with their place, and only in what we wrote."""

import subprocess
from pathlib import Path

import pytest

from prose import stumbles


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def add(repository: Path, name: str, text: str) -> None:
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "add", name], cwd=repository, check=True)


def test_a_word_is_found_with_its_place_and_what_to_write(repository: Path) -> None:
    add(repository, "page.md", "# Caches\n\nA damaged cache is built Anew.\n")  # prose: ok
    assert list(stumbles(repository)) == ["page.md:3: 'Anew' (better: again, or from the start)"]  # prose: ok


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("part_of_a_word.py", "anewtype = 1\n"),
        ("quotation.py", "TITLE = 'Anew'  # prose: ok, the title of a book\n"),
        ("table.tsv", "anew\n"),  # prose: ok
        ("CHANGELOG.md", "- the message was `loaded anew`\n"),  # prose: ok
    ],
)
def test_other_text_is_not(repository: Path, name: str, text: str) -> None:
    add(repository, name, text)
    (repository / "untracked.md").write_text("anew\n")  # prose: ok
    assert list(stumbles(repository)) == []
