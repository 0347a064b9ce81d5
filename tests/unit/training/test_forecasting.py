"""`dragoman forecast`: parts of a text, short trainings on them, and what they say of more text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import error_of, succeed
from dragoman.config import TranslationConfig, parse_config, to_toml
from dragoman.data.named import open_direction
from dragoman.errors import ConfigError, DataError
from dragoman.runs import Run
from dragoman.tasks import config_for
from dragoman.training import forecasting
from dragoman.training.forecasting import PARTS, Plan, count_pairs, part_of, shortened
from tiny import TINY, write_corpus, write_labelled, write_many

PLAN = Plan(minutes=1.0, max_steps=40, n_pairs=500, passes=5.0, batch_tokens=100, seconds_per_step=0.1)


def tiny_config(folder: Path) -> TranslationConfig:
    write_corpus(folder, "train", 1200, seed=1)
    config = config_for(src=str(folder / "train.en"), tgt=str(folder / "train.de"), overrides=TINY)
    assert isinstance(config, TranslationConfig)
    return config


def test_parts_are_nested_and_share_nothing_with_the_validation_text(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    whole, held_out = (list(corpus.pairs()) for corpus in open_direction(config))
    parts: dict[str, Any] = {}
    for number, (name, share) in enumerate(PARTS.items()):
        train, valid = open_direction(part_of(config, share, seed=number))
        parts[name] = list(train.pairs())
        assert list(valid.pairs()) == held_out, "the same text whatever part and seed"
        assert not {pair.src for pair in parts[name]} & {pair.src for pair in held_out}
        expected = (share[1] - share[0]) * len(whole)
        assert len(parts[name]) == pytest.approx(expected, rel=0.3)
    assert sorted(parts["an eighth"] + parts["another eighth"]) == sorted(parts["a quarter"])
    assert set(parts["a quarter"]) < set(parts["a half"]) < set(whole)


def test_a_part_of_a_part_lies_within_it(tmp_path: Path) -> None:
    half = part_of(tiny_config(tmp_path), (0.0, 0.5))
    assert part_of(half, (0.25, 0.5)).data.part == (0.125, 0.25)
    assert count_pairs(part_of(half, (0.0, 1.0))) == count_pairs(half)


def test_a_part_without_pairs_is_refused(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    with pytest.raises(DataError, match=r"holds no pair; take a larger part \(data.part\)"):
        count_pairs(part_of(config, (0.0, 1e-9)))
    for part, complaint in (("[0.5, 0.5]", "holds nothing"), ("[0.5, 1.5]", "data.part")):
        assert complaint in error_of("train", "--src", tmp_path / "train.en", "--tgt", tmp_path / "train.de",
                                     "--set", f"data.part={part}")  # fmt: skip
    many = write_many(tmp_path / "many")
    many["data"]["part"] = [0.0, 0.5]
    with pytest.raises(ConfigError, match="part is for one corpus"):
        parse_config(many, where="many")


def test_updates_grow_with_the_text_and_the_schedule_ends_with_them(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    few, many = (shortened(config, PLAN, n).training for n in (250, 1000))
    assert (few.max_steps, many.max_steps) == (20, 80)
    assert few.batch_tokens == many.batch_tokens == PLAN.batch_tokens
    assert few.warmup_steps <= few.max_steps // 5 or few.warmup_steps == 1
    assert few.valid_every * forecasting.N_VALIDATIONS >= few.max_steps


def test_a_forecast_measures_parts_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasting, "TRIAL_SECONDS", 0.05)
    tiny_config(tmp_path)
    own = [option for override in TINY for option in ("--set", override)]
    command = ["forecast", "--src", tmp_path / "train.en", "--tgt", tmp_path / "train.de",
               "--minutes", "0.01", "--out", tmp_path / "out", *own]  # fmt: skip
    lines = succeed(*command).stdout.splitlines()
    rows = json.loads((tmp_path / "out" / "forecast.json").read_text())["rows"]
    assert [row["text"] for row in rows] == [*PARTS, "the whole", "twice", "four times"]
    assert [row["measured"] for row in rows] == [True] * 4 + [False] * 3
    assert [line.split("  ")[-1] for line in lines[1:8]] == ["measured"] * 4 + ["forecast"] * 3
    for row in rows[4:]:
        assert row["bleu_interval"][0] <= row["bleu"] <= row["bleu_interval"][1]
        assert row["loss_interval"][0] <= row["loss"] <= row["loss_interval"][1]
    assert rows[6]["minutes"] == pytest.approx(4 * rows[4]["minutes"])
    runs = {name: Run.open(tmp_path / "out" / name.replace(" ", "-")) for name in PARTS}
    assert len({run.config.seed for run in runs.values()}) == len(PARTS)
    assert not (tmp_path / "out" / forecasting.TRIAL).exists()

    trained = {name: run.history_path.read_bytes() for name, run in runs.items()}
    assert succeed(*command).stdout.splitlines() == lines
    assert {name: run.history_path.read_bytes() for name, run in runs.items()} == trained
    for side in ("en", "de"):
        with (tmp_path / f"train.{side}").open("a") as file:
            file.write("one more\n")
    assert "changed since the forecast" in error_of(*command)
    command[command.index("--minutes") + 1] = "0.02"
    assert "holds a forecast with --minutes 0.01" in error_of(*command)


def test_what_cannot_be_forecast_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", 300, seed=1)
    write_labelled(tmp_path, "texts", 40, seed=1)
    files = ["--src", tmp_path / "train.en", "--tgt", tmp_path / "train.de"]
    out = ["--out", tmp_path / "out"]
    assert "270 training pairs are too few for a forecast, which needs 800" in error_of(
        "forecast", *files, *out
    )
    mixed = tmp_path / "mixed.toml"
    mixed.write_text(to_toml(parse_config(write_many(tmp_path / "many"), where="mixed")))
    assert "one direction and no mix" in error_of("forecast", mixed, *out)
    classes = tmp_path / "classes.toml"
    classes.write_text(
        f'task = "classification"\nname = "classes"\n[data]\ntrain = ["{tmp_path / "texts.tsv"}"]\n'
    )
    assert "forecasts are for translators" in error_of("forecast", classes, *out)
    assert not (tmp_path / "out").exists()
