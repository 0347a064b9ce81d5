"""docs/configuration.md says what config.py says."""

import re
import runpy
from pathlib import Path

import pytest

from dragoman.config import parse_config
from dragoman.errors import ConfigError

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "generate_configuration.py"))
PAGE = (DOCS / "configuration.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert SCRIPT["page"]() == PAGE, "run python docs/generate_configuration.py"


def test_the_settings_called_required_are_those_that_are() -> None:
    once = re.sub(r"^## `\[\[.*?(?=^##? )", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    required = re.findall(r"^\| `(\w+)` \|[^|]*\| required \|", once, re.MULTILINE)
    translation, classification = ["name", "src_lang", "tgt_lang", "train"], ["task", "name", "train"]
    assert sorted(required) == sorted(translation + classification)
    for task, names in (({}, translation), ({"task": "classification"}, ["name", "train"])):
        with pytest.raises(ConfigError) as error:
            parse_config({**task, "data": {}})
        assert all(f"{name} is missing" in str(error.value) for name in names)


def test_the_message_about_a_misspelt_setting_is_as_printed() -> None:
    settings = {"name": "x", "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"]}}
    with pytest.raises(ConfigError) as error:
        parse_config(settings, overrides=["training.learing_rate=1e-3"])
    assert str(error.value).removeprefix("--set: ") in PAGE
