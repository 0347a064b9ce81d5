"""A name of an earlier version is answered with what to do instead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import error_of
from dragoman.config import parse_section
from dragoman.errors import ConfigError
from dragoman.removed import REMOVED
from dragoman.serving.settings import ServeConfig


def answer_to(name: str) -> str:
    return f"error: {name} was removed in 0.3; {REMOVED[name]}"


@pytest.mark.parametrize("name", [name for name in REMOVED if name.startswith(("dragoman ", "--"))])
def test_a_removed_command_or_option_says_what_to_do_instead(name: str) -> None:
    if name.startswith("--"):
        assert error_of("score", "a", "b", f"{name}=c") == answer_to(name)
    else:
        assert error_of(name.split()[1], "RUN", "--out", "x") == answer_to(name)


def test_a_removed_setting_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"batching\.joining was removed in 0\.3; remove it; requests are"):
        parse_section(ServeConfig, {}, overrides=["batching.joining=true"], where="test")


def test_a_removed_variable_is_named_and_nothing_else_changes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "--version"],
        env=os.environ | {"DRAGOMAN_MODELS": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.endswith(f" was removed in 0.3 and has no effect; {REMOVED['DRAGOMAN_MODELS']}\n")
    assert done.stdout.startswith("dragoman ")


def test_a_removed_prefix_says_what_to_do_instead() -> None:
    assert error_of("data", "fetch", "mtdata:en-de") == answer_to("mtdata:")
