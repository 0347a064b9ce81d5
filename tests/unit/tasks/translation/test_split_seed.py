"""The text that a run holds out does not depend on its seed, unless its settings say so."""

from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.config import load_recipe, parse_config
from dragoman.tasks.translation.evaluation import read_pairs, split_of
from tiny import TINY, write_corpus

SETTINGS = [argument for override in TINY for argument in ("--set", override)]


def test_the_split_seed_chooses_what_is_held_out_and_without_one_the_seed(tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", 60, seed=1)
    files = [str(tmp_path / f"train.{lang}") for lang in ("en", "de")]
    data = {"src_lang": "en", "tgt_lang": "de", "train": files}

    def held_out(*settings: str) -> list[str]:
        config = parse_config({"name": "x", "data": data}, overrides=settings)
        assert config.task == "translation"
        ((_, corpus),) = split_of(config, "valid")
        return [pair.src for pair in read_pairs(corpus)]

    one, two = (held_out(f"seed={seed}", "data.split_seed=5") for seed in (1, 2))
    assert one == two == held_out("seed=5") != held_out("seed=1")


@pytest.mark.slow
def test_a_finished_run_takes_another_test_set_and_goes_on_as_it_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it knew no split_seed, too."""
    monkeypatch.chdir(tmp_path)
    for name, n_pairs in {"train": 60, "test": 8, "other": 8}.items():
        write_corpus(Path(), name, n_pairs, seed=n_pairs)
    plain = ("train", "--src", "train.en", "--tgt", "train.de", "--out", "r", "--set", "seed=7", *SETTINGS)
    tested = (*plain, "--test-src", "test.en", "--test-tgt", "test.de")
    succeed(*plain)
    for command in (tested, plain):
        assert "r is finished" in succeed(*command).stderr
        assert load_recipe("r/config.toml").data.test == {"test": ("test.en", "test.de")}
    changed = error_of(*plain, "--test-src", "other.en", "--test-tgt", "other.de")
    assert "holds a run with other settings (data.test.test is" in changed
    path = Path("r/config.toml")
    assert load_recipe(path).data.split_seed == 1
    before = path.read_text(encoding="utf-8").replace("split_seed = 1\n", "")
    path.write_text(before, encoding="utf-8")
    assert "r is finished" in succeed(*plain).stderr
    assert path.read_text(encoding="utf-8") == before
