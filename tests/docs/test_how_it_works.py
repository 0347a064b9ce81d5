"""What docs/how-it-works.md shows in a Python prompt is what Python answers."""

import doctest
import math
import re
from pathlib import Path

import pytest

from dragoman.config import load_recipe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-it-works.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_session_in_the_page_answers_as_printed() -> None:
    session = "\n".join(blocks("pycon"))
    assert session
    test = doctest.DocTestParser().get_doctest(session, {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    failed, attempted = doctest.DocTestRunner().run(test, out=report.append)
    assert attempted > 20
    assert not failed, "".join(report)


def test_the_settings_of_the_paper_are_a_recipe(tmp_path: Path) -> None:
    settings = "\n".join(blocks("toml"))
    corpus = '[data]\nsrc_lang = "en"\ntgt_lang = "de"\ntrain = ["train.tsv"]\n'
    (tmp_path / "recipe.toml").write_text(f'name = "paper"\n{corpus}{settings}', encoding="utf-8")
    config = load_recipe(tmp_path / "recipe.toml")
    peak = 1 / math.sqrt(config.model.d_model * config.training.warmup_steps)
    assert config.training.learning_rate == pytest.approx(peak, rel=0.01)
