"""Run directories: what is written is read back, and damage is told in one line."""

import math
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from dragoman.config import TranslationConfig, load_recipe, parse_config
from dragoman.errors import RunError
from dragoman.runs import Run, only_writer
from dragoman.tensors import load_tensors, save_tensors


def recipe(*overrides: str) -> TranslationConfig:
    data = {"src_lang": "en", "tgt_lang": "de", "train": ["phrasebook:train"]}
    return parse_config({"name": "small", "data": data}, overrides=overrides)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "runs" / "small", recipe())


def test_creating_a_run_again_with_the_same_settings_continues_it(run: Run) -> None:
    (run.path / "log.txt").touch()
    assert run.history() == []
    records = [{"step": 1, "train_loss": 3.5}, {"step": 2, "note": "ä\n"}]
    for record in records:
        run.append_history(record)
    for again in (Run.create(run.path, recipe()), Run.open(run.path)):
        assert again == run
        assert again.config == load_recipe(run.path / "config.toml") == recipe()
        assert again.history() == records
    run.append_history({"step": 3, "loss": math.nan, "nested": {"scores": (math.inf, 1.0)}})
    assert run.history()[2] == {"step": 3, "loss": None, "nested": {"scores": [None, 1.0]}}


def test_creating_a_run_with_other_settings_names_them_all(run: Run) -> None:
    other = recipe("model.d_model=128", "seed=2", 'data.test.news=["a.tsv"]')
    run.append_history({"step": 1})
    with pytest.raises(RunError, match="holds a run with other settings") as error:
        Run.create(run.path, other)
    message = str(error.value)
    assert "data.test" not in message  # a test set may be added
    assert "model.d_model is 256 there, 128 here" in message
    assert "seed is 1 there, 2 here" in message
    assert message.count(" there, ") == 2
    assert Run.open(run.path).config == recipe()


def test_a_run_that_has_learnt_nothing_takes_other_settings(run: Run) -> None:
    for name in ("tokenizer/tokenizer.json", "labels.json", "corpora.json", "lessons/train.src.gz"):
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).touch()
    other = recipe("model.d_model=128")
    assert Run.create(run.path, other) == Run.open(run.path) == Run(run.path, other)
    left = {path.name for path in run.path.iterdir()}
    assert left == {"config.toml", "lessons"}, "what others left would be taken for its own"


BELOW_A_FILE = r"cannot be written \(a file is where a folder is needed\); choose another"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda at: Run.create(at / "other", recipe()), "holds model.safetensors but no config.toml; choose"),
        (lambda at: Run.create(at / "file" / "run", recipe()), BELOW_A_FILE),
        (lambda at: Run.create(at / "file", recipe()), BELOW_A_FILE),
        (lambda at: Run.open(at / "nowhere"), "nowhere: there is no such folder; give the path of a run"),
        (Run.open, r"is not a run, for it holds no config\.toml"),
        (lambda at: Run.create(at / "new", recipe()).load_weights(), "no model.safetensors yet; train it"),
        (lambda at: load_tensors(at / "none"), r"none: cannot be read \(.*\); is it there\?"),
        (lambda at: Run(at / "no-history", recipe()).append_history({}), "history.jsonl: cannot be written"),
    ],
)
def test_what_a_folder_cannot_give_or_take_is_a_run_error(
    tmp_path: Path, ask: Callable[[Path], object], message: str
) -> None:
    (tmp_path / "file").touch()
    for folder in ("other/model.safetensors", "no-history/history.jsonl"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(RunError, match=message):
        ask(tmp_path)


def test_a_configuration_that_cannot_be_understood_is_a_run_error(run: Run) -> None:
    for content in ("name = ", 'name = "small"\ncolour = "red"\n', "\x00"):
        run.config_path.write_text(content)
        with pytest.raises(RunError, match=r"config\.toml: .*edited, or written by another version"):
            Run.open(run.path)


def test_weights_come_back_as_they_were_saved_in_a_usual_file(run: Run) -> None:
    weight = torch.randn(3, 4)
    weights = {"weight": weight, "tied": weight, "transposed": weight.T, "half": weight.bfloat16()}
    run.save_weights(weights)
    loaded = run.load_weights()
    assert loaded.keys() == weights.keys()
    for name, tensor in weights.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
    with safe_open(run.weights_path, framework="pt") as file:
        assert file.metadata()["format"] == "pt"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (run.weights_path, run.config_path)}
    assert len(modes) == 1, "the permissions of the settings"
    run.save_weights({"weight": torch.ones(3, 4)})
    assert torch.equal(loaded["weight"], weight), "what was loaded is left alone"
    assert run.load_weights()["weight"].sum() == 12


def test_damaged_weights_are_a_run_error(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_tensors(path, {"b": torch.arange(4.0), "a": torch.ones(2, 2, dtype=torch.bfloat16)})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"weights\.safetensors: is damaged or cut short") as error:
            load_tensors(path)
        assert "\n" not in str(error.value)
    for place in range(len(whole) - 24, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RunError, match=r"is damaged: its numbers are not those that were written; copy"):
            load_tensors(path)


def test_a_half_written_last_line_is_ignored_and_overwritten(run: Run) -> None:
    run.append_history({"step": 1})
    run.append_history({"step": 2})
    whole = run.history_path.read_bytes()
    for length in range(len(whole)):
        run.history_path.write_bytes(whole[:length])
        expected = [{"step": i + 1} for i in range(whole[:length].count(b"\n"))]
        assert run.history() == expected
        run.append_history({"step": 9})
        assert run.history() == [*expected, {"step": 9}]


def test_truncating_history_removes_the_steps_that_will_come_again(run: Run) -> None:
    run.truncate_history(0)
    assert run.history() == []
    for kind, step in (("train", 1), ("back", 3), ("train", 6), ("valid", 6), ("back", 6), ("train", 7)):
        run.append_history({"kind": kind, "step": step})
    run.append_history({"kind": "of no step"})
    with run.history_path.open("ab") as file:
        file.write(b'{"step": 8')
    run.truncate_history(6)
    kinds = ["train", "back", "train", "valid", "back", "of no step"]
    assert [record["kind"] for record in run.history()] == kinds
    run.truncate_history(6, also=("back",))  # what came after the checkpoint of the same step
    assert [record["kind"] for record in run.history()] == ["train", "back", "train", "valid", "of no step"]


def test_a_damaged_line_of_history_is_named(run: Run) -> None:
    not_an_object = dict.fromkeys(("{", "[1]", '"text"', "\x00"), "is not a JSON object")
    for line, problem in {**not_an_object, '{"step": "3"}': "its step is no number"}.items():
        run.history_path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 2}}\n')
        with pytest.raises(RunError, match=rf"history\.jsonl, line 2: {problem}; remove the line"):
            run.history()


def test_json_files_come_back_and_damage_is_told(run: Run) -> None:
    run.write_json("report.json", {"bleu": 35.5, "name": "ä", "loss": -math.inf})
    assert run.read_json("report.json") == {"bleu": 35.5, "name": "ä", "loss": None}
    (run.path / "report.json").write_text('{"bleu": 3')
    with pytest.raises(RunError, match=r"report\.json: is damaged, for it holds no JSON object"):
        run.read_json("report.json")
    with pytest.raises(RunError, match=r"none\.json: cannot be read \(.*\); is the training finished\?"):
        run.read_json("none.json")


def test_one_process_at_a_time_writes_a_run(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "new"
    with only_writer(path):
        with pytest.raises(RunError) as error, only_writer(path):
            pass
        assert str(error.value).startswith(f"{path}: process {os.getpid()} is writing it; wait until that")
    assert list(path.iterdir()) == []


def test_only_temporary_files_that_were_abandoned_are_deleted(tmp_path: Path) -> None:
    young, old, users = (tmp_path / name for name in (".a.1.tmp", ".b.2.tmp", "c.tmp"))
    for path in (young, old, users):
        path.touch()
    for path in (old, users):
        os.utime(path, (0, 0))
    with only_writer(tmp_path):
        pass
    assert sorted(tmp_path.iterdir()) == [young, users]


def test_a_runs_files_are_those_that_dragoman_writes(run: Run) -> None:
    run.tokenizer_folder.mkdir()
    for name in ("tokenizer/shared.json", "notes.txt", "model.safetensors"):
        (run.path / name).touch()
    names = {str(path.relative_to(run.path)) for path in run.files()}
    assert names == {"config.toml", "model.safetensors", str(Path("tokenizer", "shared.json"))}
