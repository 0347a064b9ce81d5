"""Searches compute what the layers compute, or are left to the layers, with a line that says so."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

from commands import error_of, succeed
from dragoman.errors import ConfigError, DragomanWarning
from dragoman.model import layers
from dragoman.predict.engine import SearchInput
from dragoman.predict.probe import Probe
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tensors import load_probe
from sharing import made_once


def squared_relu(block: layers.FeedForward, x: Tensor) -> Tensor:
    return block.linear2(torch.relu(block.linear1(x)).square())


def parallel_layer(
    layer: layers.DecoderLayer, x: Tensor, memory: Tensor, src_bias: Tensor | None, causal_bias: Tensor
) -> Tensor:
    own = layer.self_attention(x, None, causal_bias)
    return x + own + layer.cross_attention(x, memory, src_bias) + layer.feed_forward(x)


CHANGES = {"incremental": (layers.FeedForward, squared_relu), "whole": (layers.DecoderLayer, parallel_layer)}
"""A researcher's edits, by the way of searching that is left for each."""


@pytest.fixture(params=CHANGES)
def stepping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    block, forward = CHANGES[request.param]
    monkeypatch.setattr(block, "forward", forward)
    return str(request.param)


@pytest.fixture
def edited(stepping: str, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained with the edit."""

    def make(folder: Path) -> None:
        with pytest.warns(DragomanWarning, match="this model: is not the network"):
            train(Run.open(tiny_run).config, folder / "run")

    return made_once(tmp_path_factory, f"edited-{stepping}", make) / "run"


@pytest.mark.slow
def test_an_edited_block_is_searched_as_it_was_trained(stepping: str, edited: Path) -> None:
    with pytest.warns(DragomanWarning, match=re.escape(f"{edited}: is not the network")):
        translator = Translator.load(edited, precision="fp32")
    assert translator.model.stepping == stepping
    for settings in ({}, {"beam_size": 1}, {"method": "sampling", "seed": 3}):
        search = translator.config.search.changed({"n_best": 1, **settings}, where="test")
        sentences = [
            SearchInput([*ids, 2])
            for ids in translator.tokenizers.src.encode_batch(["red cat", "old dog tree"])
        ]
        best = [one[0] for one in translator.engine.search(sentences, search)]
        scores = TorchEngine(translator.model).score([s.source for s in sentences], [h.ids for h in best])
        assert [h.log_prob for h in best] == pytest.approx([sum(row) for row in scores], abs=1e-4)


def test_the_command_line_says_so_in_one_line(edited: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = succeed("translate", edited, stdin="red cat\n")
    assert [line for line in result.stderr.splitlines() if line.startswith(f"{edited}: is not the network")]
    assert len(result.stdout.splitlines()) == 1


def test_weights_of_another_network_are_refused(edited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert "src/dragoman/model is not what they were trained with" in error_of(
        "translate", edited, stdin="a\n"
    )


def test_every_precision_agrees_with_a_run_as_it_is(tiny_run: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert Probe.parse(load_probe(Run.open(tiny_run).weights_path)) is not None
    for precision in ("fp32", "bf16", "int8"):
        assert Translator.load(tiny_run, precision=precision).model.stepping == "fast"
    assert not recwarn


def test_a_coverage_penalty_needs_the_attention_that_the_layers_had(edited: Path, stepping: str) -> None:
    with pytest.warns(DragomanWarning):
        translator = Translator.load(edited)
    if stepping == "whole":
        with pytest.raises(ConfigError, match="a coverage penalty needs the attention"):
            translator.translate(["red cat"], coverage_penalty=0.2)
    else:
        assert translator.translate(["red cat"], coverage_penalty=0.2)[0].text


@pytest.mark.parametrize(
    "text", ["", "{", "3", "[]", '{"log_probs": [[1]], "dtype": "float32"}', '{"dtype": []}']
)
def test_what_is_no_probe_is_none(text: str) -> None:
    assert Probe.parse(text) is None
