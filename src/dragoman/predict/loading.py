"""Load the weights of a run, and what searches with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dragoman.config import ClassificationConfig, EncoderConfig, TranslationConfig
from dragoman.data.readers.files import hash_file, hash_strings
from dragoman.errors import ConfigError, RunError, optional
from dragoman.hardware import choose_precision, on_processor
from dragoman.hub import folder_of
from dragoman.model.architecture import classifier_parameters, parameters
from dragoman.model.compiled import CompiledModel, why_not_compiled
from dragoman.model.ngrams import of_older_run
from dragoman.model.weights import Weights, check_numbers, compare_shapes
from dragoman.predict.engine import CompiledEngine, ModelEngine
from dragoman.predict.probe import Probe
from dragoman.predict.shortlist import SHORTLIST, Shortlist
from dragoman.runs import Run
from dragoman.tensors import load_probe
from dragoman.text.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from typing_extensions import Self

    from dragoman.model.transformer import Seq2SeqTransformer


class Pretrained:
    """What is loaded from the folder of a run, by `load`, or from the Hugging Face hub."""

    load: ClassVar[Callable[..., Any]]

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, revision: str | None = None, token: str | None = None, **options: Any
    ) -> Self:
        """Return what is on the Hugging Face hub as "user/model", or in a folder of that path.

        `revision` is a branch, a tag or a commit; errors and `token` as `hub.fetch`; `options` are those of
        `load`.
        """
        loaded: Self = cls.load(folder_of(name, revision=revision, token=token), **options)
        return loaded


def model_hash(*runs: Run) -> str:
    """Return a hash of the files that translations by `runs` depend on: weights, tokenizers and shortlists.

    RunError: one has no weights yet.
    """
    files: list[Path] = []
    for run in runs:
        run.weight_shapes()  # there are some
        tokenizers = sorted(path for path in run.tokenizer_folder.rglob("*") if path.is_file())
        files += [run.weights_path, *tokenizers, *filter(Path.exists, [run.path / SHORTLIST])]
    return hash_strings(*map(hash_file, files))


class TranslatorFiles(NamedTuple):
    """A run that translates, and what its weights are read with."""

    run: Run
    config: TranslationConfig
    tokenizers: TokenizerPair

    def check(self) -> None:
        """RunError: names or shapes of the weights are not those of the configuration and the tokenizers.

        Found before anything takes memory: a configuration can ask for terabytes in a line, a file cannot.
        """
        where, shapes = str(self.run.weights_path), self.run.weight_shapes()
        check_depth(self.config.model, len(shapes), where=where)
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        expected = {each.name: each.shape for each in parameters(self.config.model, *sizes)}
        compare_shapes(expected, shapes, where=where)

    def weights(self) -> Weights:
        """Read the weights. RunError: they are not there, are damaged, or do not pass `check`."""
        self.check()
        weights = self.run.load_arrays()
        check_numbers(weights, where=str(self.run.weights_path))
        return weights

    def network(self, device: str, precision: str) -> Seq2SeqTransformer:
        """Return the model in PyTorch, ready for decoding. RunError: as `weights`."""
        from dragoman.predict.networks import load_network

        self.check()
        return load_network(self.run, self.config, self.tokenizers, device=device, precision=precision)

    def agrees(self, engine: ModelEngine) -> bool:
        """Whether `engine` computes what was computed when the weights were written, if that was noted."""
        probe = Probe.parse(load_probe(self.run.weights_path))
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        return probe is None or probe.agrees(engine, *sizes)


def classifier_weights(run: Run, config: ClassificationConfig, n_tokens: int, n_classes: int) -> Weights:
    """Read the weights of a classifier. RunError: as `TranslatorFiles.weights`."""
    where = str(run.weights_path)
    check_depth(config.model, len(run.weight_shapes()), where=where)
    weights = of_older_run(run.load_arrays(), config.model)
    expected = {each.name: each.shape for each in classifier_parameters(config.model, n_tokens, n_classes)}
    compare_shapes(expected, {name: array.shape for name, array in weights.items()}, where=where)
    check_numbers(weights, where=where)
    return weights


def check_depth(config: EncoderConfig, n_weights: int, *, where: str) -> None:
    """RunError: the weights of a run are fewer than the layers of its configuration."""
    n_layers = config.n_encoder_layers + getattr(config, "n_decoder_layers", 0)
    if n_layers > n_weights:
        raise RunError(
            f"{where}: has {n_weights} weights for {n_layers} layers; "
            "config.toml and weights must come from the same run"
        )


def load_engine(
    files: Sequence[TranslatorFiles], *, device: str, precision: str, shortlist: Shortlist | None
) -> ModelEngine:
    """Return the fastest engine that computes what the weights of these runs were trained to compute.

    Errors and arguments: `Translator.load`. DragomanWarning: it is not the fastest of all.
    """
    if on_processor(device):
        kind: Any = "int8" if precision == "int8" else choose_precision(precision)
        reason = next(filter(None, (why_not_searched(each.config, kind) for each in files)), "")
        if not reason:
            packed = []
            for each in files:
                weights, config = each.weights(), each.config.model
                packed.append(CompiledModel(weights, config, kind=kind))
                # 8 bits are too rough to tell one network from another.
                fine = packed[-1] if kind != "int8" else CompiledModel(weights, config, kind="float32")
                if not each.agrees(CompiledEngine(fine)):
                    break
            else:
                return CompiledEngine(*packed, shortlist=shortlist)
            reason = "the model is not the network that compiled searches compute"
    else:
        reason = "is for processors"
    if precision == "int8":
        raise ConfigError(f'precision int8: {reason}; use precision "auto"')
    optional("torch", extra="train", purpose=f"translating ({reason})")
    from dragoman.predict.torch_engine import agreeing_engine

    models = [each.network(device, precision) for each in files]
    where = ", ".join(str(each.run.path) for each in files)
    return agreeing_engine(models, [each.agrees for each in files], where=where)


def why_not_searched(config: TranslationConfig, kind: str) -> str:
    """Return why compiled code does not search with such a model in `kind` here; "": it does."""
    if config.training.kernels == "plain":
        return 'training.kernels = "plain" of its run is for PyTorch'
    return why_not_compiled(config.model, kind)
