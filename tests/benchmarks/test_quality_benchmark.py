"""benchmarks/quality.py gives every variant the same cost, trains each once, and shows them all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

import quality as benchmark
from dragoman.config import load_recipe, parse_config, to_toml
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.training.updates.optimizer import hidden_matrices
from tiny import TINY, write_corpus

TINY_RECIPE = {"name": "x", "data": {"src_lang": "en", "tgt_lang": "de", "train": ["a"]}}
TINY_BASE = (*TINY, "training.max_steps=12", "training.ema_decay=0.9", "training.average=none")


@pytest.fixture
def tiny_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The study on a corpus and a model that take no time."""
    for name, n_pairs in {"train": 60, "valid": 10}.items():
        write_corpus(tmp_path, name, n_pairs, seed=n_pairs)
    data = {
        "src_lang": "en",
        "tgt_lang": "de",
        "train": [str(tmp_path / f"train.{lang}") for lang in ("en", "de")],
        "valid": [str(tmp_path / "valid.tsv")],
    }
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(to_toml(parse_config({"name": "tiny", "data": data})), encoding="utf-8")
    monkeypatch.setattr(benchmark, "RECIPE", recipe)
    monkeypatch.setattr(benchmark, "BASE", TINY_BASE)
    return benchmark


def record(variant: str, seed: int, bleu: float, steps: int = 900, cpu: str = "old") -> dict[str, object]:
    scores = {"ema": bleu, "last": bleu - 1, "mean": bleu - 0.5}
    return {"variant": variant, "seed": seed, "steps": steps, "bleu": scores, "cpu_minutes": 10.0 * seed,
            "cpu": cpu}  # fmt: skip


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["quality.py", *map(str, arguments)])
    benchmark.main()


def test_every_variant_costs_what_the_base_costs() -> None:
    base = load_recipe(benchmark.RECIPE, benchmark.BASE)
    budget = base.training.max_steps * benchmark.operations(base)
    for variant in benchmark.VARIANTS:
        config = benchmark.configuration(variant, 1)
        cost = config.training.max_steps * benchmark.operations(config)
        assert cost == pytest.approx(budget, rel=0.01), variant
        assert config.training.max_steps == 6 * config.training.valid_every
        share = config.training.warmup_steps / config.training.max_steps
        assert share == pytest.approx(base.training.warmup_steps / base.training.max_steps, rel=0.01)


def test_the_operations_of_muon_are_those_of_the_matrices_it_moves() -> None:
    config = parse_config(TINY_RECIPE, overrides=["model.n_decoder_layers=2", "model.d_ff=24"])
    model = Seq2SeqTransformer(config.model, src_vocab_size=20, tgt_vocab_size=20)
    shapes = [sorted(part.shape) for matrix, n in hidden_matrices(model).items() for part in matrix.chunk(n)]
    # X X^T is (m, n) (n, m), its square (m, m) (m, m), and then (m, m) (m, n): two operations an element.
    expected = sum(5 * 2 * (m * n * m + m * m * m + m * m * n) for m, n in shapes)
    assert benchmark.muon_operations(config) == expected


def test_reading_every_batch_twice_halves_the_steps() -> None:
    assert benchmark.configuration("r-drop", 1).training.max_steps == 450
    assert benchmark.configuration("batch-2048", 1).training.max_steps == 1800


def test_an_update_costs_six_operations_a_weight_and_token() -> None:
    settings = ("model.d_model=2", "model.n_heads=1", "model.d_ff=3", "tokenizer.vocab_size=300")
    layers = ("model.n_encoder_layers=1", "model.n_decoder_layers=1", "training.batch_tokens=10")
    config = load_recipe(benchmark.RECIPE, [*settings, *layers])
    encoder, decoder, output = 4 * 4 + 2 * 2 * 3, 8 * 4 + 2 * 2 * 3, 2 * 300
    assert benchmark.operations(config) == 6 * (encoder + decoder + output) * 10


def test_the_table_has_all_variants_the_best_first() -> None:
    records = [record("worse", 1, 30.0), record("better", 1, 39.0), record("better", 2, 41.0)]
    _, first, second, *_ = benchmark.table(records).splitlines()
    assert first.split() == ["better", "900", "2", "40.00", "(1.41)", "39.00", "(1.41)", "39.50", "(1.41)",
                             "15.0"]  # fmt: skip
    assert second.split() == ["worse", "900", "1", "30.00", "(–)", "29.00", "(–)", "29.50", "(–)", "10.0"]


def test_minutes_of_two_processors_are_not_mixed() -> None:
    records = [record("a", 1, 40.0), record("a", 2, 40.0, cpu="new"), record("b", 3, 30.0, cpu="new")]
    title, first, second, *_, old, new = benchmark.table(records).splitlines()
    assert title.endswith("minutes (1)     minutes (2)")
    assert [first.split()[-2:], second.split()[-2:]] == [["10.0", "20.0"], ["–", "30.0"]]
    assert (old, new) == ("(1) CPU minutes on old", "(2) CPU minutes on new")


def test_trainings_of_other_lengths_are_not_mixed() -> None:
    lines = benchmark.table([record("base", 1, 39.0), record("base", 2, 39.0, steps=90)]).splitlines()
    assert [line.split()[1:3] for line in lines[1:3]] == [["900", "1"], ["90", "1"]]


def test_a_variant_is_trained_once(
    tiny_benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, out = tmp_path / "results" / "quality.jsonl", tmp_path / "out"
    arguments = ("--results", results, "run", "base", "--out", out)
    command(monkeypatch, *arguments)
    (line,) = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    assert (line["variant"], line["seed"], line["steps"]) == ("base", 1, 12)
    assert line["bleu"].keys() == {"ema", "last", "mean"}
    assert line["cpu_minutes"] > 0
    assert not (out / "base-1" / "checkpoints").exists()
    monkeypatch.setattr(tiny_benchmark, "measure", lambda *_: pytest.fail("measured again"))
    command(monkeypatch, *arguments)


def test_an_interrupted_study_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "measure", interrupted)
    with pytest.raises(SystemExit, match="the same command continues"):
        command(monkeypatch, "--results", tmp_path / "quality.jsonl", "run", "base")
    assert not (tmp_path / "quality.jsonl").exists()


def test_the_minutes_of_an_interrupted_training_count(
    tiny_benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out" / "base-1"
    with pytest.raises(KeyboardInterrupt), tiny_benchmark.timed(folder / "costs.jsonl"):
        raise KeyboardInterrupt
    before = json.loads((folder / "costs.jsonl").read_text(encoding="utf-8"))
    found = tiny_benchmark.measure("base", 1, folder)
    sittings = [json.loads(line) for line in (folder / "costs.jsonl").read_text("utf-8").splitlines()]
    assert sittings[0] == before
    assert found["cpu_minutes"] == pytest.approx(sum(s["cpu_seconds"] for s in sittings) / 60)


def test_the_three_models_are_those_of_the_checkpoints(tiny_benchmark: ModuleType, tmp_path: Path) -> None:
    tiny_benchmark.measure("base", 1, tmp_path / "run")
    run = tiny_benchmark.Run.open(tmp_path / "run")
    models = dict(tiny_benchmark.models(run))
    folders = sorted(run.checkpoints.iterdir())
    assert [folder.name for folder in folders] == [f"step-{step:06d}" for step in (4, 6, 8, 10, 12)]
    each = [tiny_benchmark.load_tensors(folder / "model.safetensors") for folder in folders]
    for name, mean in models["mean"].items():
        assert mean.allclose(sum(weights[name] for weights in each) / 5, atol=1e-6)
        assert models["last"][name].equal(each[-1][name])
    ema = tiny_benchmark.load_tensors(folders[-1] / "ema.safetensors")
    assert all(models["ema"][name].equal(tensor) for name, tensor in ema.items())
