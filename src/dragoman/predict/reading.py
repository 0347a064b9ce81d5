"""Read and check the weights of a run, for whatever computes with them."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.config import EncoderConfig, TranslationConfig
from dragoman.errors import RunError
from dragoman.model.architecture import parameters
from dragoman.model.weights import Weights, check_numbers, compare_shapes
from dragoman.predict.engine import ModelEngine
from dragoman.predict.probe import Probe
from dragoman.runs import Run
from dragoman.tensors import load_probe
from dragoman.text.tokenizer import TokenizerPair


class TranslatorFiles(NamedTuple):
    """A run that translates, and what its weights are read with."""

    run: Run
    config: TranslationConfig
    tokenizers: TokenizerPair

    def check(self) -> None:
        """RunError: names or shapes of the weights are not those of the configuration and the tokenizers.

        Found before anything takes memory: a configuration can ask for terabytes in a line, a file cannot.
        """
        check_depth(self.run, self.config.model)
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        expected = {each.name: each.shape for each in parameters(self.config.model, *sizes)}
        compare_shapes(expected, self.run.weight_shapes(), where=str(self.run.weights_path))

    def weights(self) -> Weights:
        """Read the weights. RunError: they are not there, are damaged, or do not pass `check`."""
        self.check()
        weights = self.run.load_arrays()
        check_numbers(weights, where=str(self.run.weights_path))
        return weights

    def agrees(self, engine: ModelEngine) -> bool:
        """Whether `engine` computes what was computed when the weights were written, if that was noted."""
        probe = Probe.parse(load_probe(self.run.weights_path))
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        return probe is None or probe.agrees(engine, *sizes)


def check_depth(run: Run, config: EncoderConfig) -> None:
    """RunError: the weights of a run are fewer than the layers of its configuration."""
    n_weights = len(run.weight_shapes())
    n_layers = config.n_encoder_layers + getattr(config, "n_decoder_layers", 0)
    if n_layers > n_weights:
        raise RunError(
            f"{run.weights_path}: has {n_weights} weights for {n_layers} layers; "
            "config.toml and weights must come from the same run"
        )
