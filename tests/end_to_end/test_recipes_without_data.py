"""Recipes for corpora that are too large to be at hand, run whole on a few lines in their corpus' format."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.config import load_recipe
from dragoman.data.named import open_direction
from dragoman.data.phrasebook import PhrasebookEntry, phrases
from dragoman.predict.translator import Translator
from dragoman.tasks.training import train
from tiny import TINY

ROOT = Path(__file__).parents[2]
N_LINES = 240


def write_json_lines(folder: Path, lines: list[PhrasebookEntry]) -> None:
    """translation2019zh: an object a line, Chinese unescaped."""
    for name, part in (("train", lines), ("valid", lines[:20])):
        records = [{"english": phrase.en, "chinese": phrase.zh} for phrase in part]
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"translation2019zh_{name}.json").write_text(text, encoding="utf-8")


def write_moses(folder: Path, lines: list[PhrasebookEntry]) -> None:
    """OPUS: one file a language, line by line; blank lines, dialogue dashes and stray spaces are common."""
    english = [phrase.en for phrase in lines]
    polish = [phrase.pl for phrase in lines]
    english[3], polish[3] = "", ""
    english[5], polish[5] = f"- {english[5]} ", f"- {polish[5]}"
    (folder / "OpenSubtitles.en-pl.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    (folder / "OpenSubtitles.en-pl.pl").write_text("\n".join(polish) + "\n", encoding="utf-8")


def write_iwslt(folder: Path, lines: list[PhrasebookEntry]) -> None:
    """The official pairs, as `dragoman data fetch` leaves them."""
    names = ["train", "dev2010", "tst2010", "tst2011", "tst2012", "tst2013"]
    for name in names:
        part = lines if name == "train" else lines[:20]
        for language, texts in (("en", [p.en for p in part]), ("de", [p.de for p in part])):
            with gzip.open(folder / f"{name}.{language}.gz", "wt", encoding="utf-8") as file:
                file.write("".join(f"{text}\n" for text in texts))


@pytest.mark.parametrize(
    ("recipe", "corpus", "write"),
    [
        ("translation2019zh-en-zh/recipe.toml", "translation2019zh", write_json_lines),
        ("opensubtitles-en-pl/recipe.toml", "opensubtitles-en-pl", write_moses),
        ("iwslt17-en-de/official.toml", "iwslt17", write_iwslt),
    ],
)
def test_a_recipe_runs_on_a_small_file_in_the_format_of_its_corpus(
    recipe: str, corpus: str, write: Callable[[Path, list[PhrasebookEntry]], None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / corpus
    folder.mkdir()
    write(folder, phrases("train")[:N_LINES])
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    fewer = [] if load_recipe(ROOT / "recipes" / recipe).data.valid else ["data.n_held_out=20"]
    config = load_recipe(ROOT / "recipes" / recipe, overrides=[*TINY, *fewer])
    assert config.task == "translation"
    corpora = open_direction(config)
    n_pairs = [sum(1 for _ in each.pairs()) for each in corpora]
    assert n_pairs[0] + 20 * len(fewer) == N_LINES
    translator = Translator.load(train(config, tmp_path / "run"))
    sources = [pair.src for pair in list(corpora[1].pairs())[:5]]
    assert len(translator.translate(sources)) == 5
