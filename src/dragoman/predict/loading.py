"""Load the model of a run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor

from dragoman.config import ClassificationConfig, EncoderConfig, TranslationConfig
from dragoman.data.readers.files import hash_file, hash_strings
from dragoman.errors import RunError
from dragoman.hub import folder_of
from dragoman.model.classifier import TransformerClassifier
from dragoman.model.kernels import choose_kernels
from dragoman.model.transformer import Seq2SeqTransformer, Transformer
from dragoman.predict.shortlist import SHORTLIST
from dragoman.runs import Run
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

if TYPE_CHECKING:
    from typing_extensions import Self

Model = TypeVar("Model", bound=Transformer)
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Types that weights may have in a file."""


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


def build_model(
    config: TranslationConfig, tokenizers: TokenizerPair, *, device: torch.device, placed: bool = True
) -> Seq2SeqTransformer:
    """Return a model with fresh weights for these tokenizers, on `device`.

    Without `placed` its weights stay where they were made; only its kernels are those for `device`.
    """
    model = Seq2SeqTransformer(
        config.model,
        src_vocab_size=tokenizers.src.vocab_size,
        tgt_vocab_size=tokenizers.tgt.vocab_size,
        kernels=choose_kernels(config.training.kernels, device),
    )
    return model.to(device) if placed else model


def build_classifier(
    config: ClassificationConfig, tokenizer: Tokenizer, *, n_classes: int, device: torch.device
) -> TransformerClassifier:
    """Build a classifier with random weights and `n_classes` classes for this tokenizer, on `device`."""
    return TransformerClassifier(
        config.model,
        vocab_size=tokenizer.vocab_size,
        n_classes=n_classes,
        kernels=choose_kernels(config.training.kernels, device),
    ).to(device)


def model_hash(*runs: Run) -> str:
    """Return a hash of the files that translations by `runs` depend on: weights, tokenizers and shortlists.

    RunError: one has no weights yet.
    """
    files: list[Path] = []
    for run in runs:
        if not run.weights_path.exists():
            run.load_weights()  # complains
        tokenizers = sorted(path for path in run.tokenizer_folder.rglob("*") if path.is_file())
        files += [run.weights_path, *tokenizers, *filter(Path.exists, [run.path / SHORTLIST])]
    return hash_strings(*map(hash_file, files))


def check_translator_sizes(run: Run, config: TranslationConfig, tokenizers: TokenizerPair) -> None:
    """`check_sizes` for a translator."""
    tables = {(side.vocab_size, config.model.d_model) for side in (tokenizers.src, tokenizers.tgt)}
    check_sizes(run, config.model, lambda meta: build_model(config, tokenizers, device=meta), tables=tables)


def check_sizes(
    run: Run,
    config: EncoderConfig,
    build: Callable[[torch.device], Transformer],
    *,
    tables: Collection[tuple[int, int]],
) -> None:
    """RunError: names or shapes of the weights in the run's file are not those of what `build` makes.

    Found without taking memory for either: a configuration can ask for terabytes in a line, a file cannot.
    `tables` are the shapes that tokenizers and labels ask for. Where the file has these and all layers,
    nothing is compared here: `load_weights` does, and the model is no larger than the file.
    """
    where, shapes = str(run.weights_path), run.weight_shapes()
    layers = [f"encoder.{i}" for i in range(config.n_encoder_layers)]
    layers += [f"decoder.{i}" for i in range(getattr(config, "n_decoder_layers", 0))]
    if len(layers) > len(shapes):
        raise RunError(
            f"{where}: has {len(shapes)} weights for {len(layers)} layers; "
            "config.toml and weights must come from the same run"
        )
    in_file = (shapes.get(f"{layer}.feed_forward.linear1.weight") for layer in layers)
    if set(tables) <= set(shapes.values()) and set(in_file) == {(config.d_ff, config.d_model)}:
        return
    nowhere = torch.device("meta")  # slow to begin with: it imports PyTorch's compiler
    with nowhere:
        parameters = dict(build(nowhere).named_parameters())
    _compare_shapes({name: tuple(p.shape) for name, p in parameters.items()}, shapes, where=where)


def load_weights(
    model: Transformer,
    weights: dict[str, Tensor],
    *,
    where: str,
    local: Callable[[Tensor], Tensor] = lambda tensor: tensor,
) -> None:
    """Put `weights` into `model`. `local` returns what this process has of one that may be spread.

    RunError: names or shapes are not its own, a number is not finite, or each matrix holds one number alone.
    """
    parameters = dict(model.named_parameters())  # tied weights once
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    _compare_shapes({name: tuple(p.shape) for name, p in parameters.items()}, shapes, where=where)
    varies: list[bool] = []
    for name, tensor in weights.items():
        if tensor.dtype not in FLOATS:
            raise RunError(
                f"{where}: {name} holds {tensor.dtype}, which weights are not; the file is damaged"
            )
        if (own_part := local(tensor)).numel() == 0:
            continue
        lowest, highest = torch.aminmax(own_part)
        if not (lowest.isfinite() and highest.isfinite()):
            raise RunError(f"{where}: {name} holds numbers that are not finite; the file is damaged")
        if own_part.dim() > 1 and own_part.numel() > 1:
            varies.append(bool(lowest < highest))
    if varies and not any(varies):  # single ones may: a layer that is to be learnt begins as the identity
        raise RunError(f"{where}: each matrix holds one number alone; the file is damaged, copy it again")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def _compare_shapes(expected: Shapes, shapes: Shapes, *, where: str) -> None:
    """RunError: `shapes` of weights, by name, are not the `expected` ones of the model."""
    missing, unknown = (
        [name[:80] for name in sorted(names)[:3]]
        for names in (expected.keys() - shapes.keys(), shapes.keys() - expected.keys())
    )
    if missing or unknown:
        raise RunError(
            f"{where}: is not for this configuration; missing {missing}, unknown {unknown}; "
            "config.toml and weights must come from the same run"
        )
    for name, shape in shapes.items():
        if shape != expected[name]:
            raise RunError(
                f"{where}: {name} has shape {shape}, the configuration says {expected[name]}; "
                "config.toml and weights must come from the same run"
            )


def inference_copy(
    model: Model,
    dtype: torch.dtype,
    *,
    weights: dict[str, Tensor] | None = None,
    device: torch.device | None = None,
) -> Model:
    """Return a copy of `model` for decoding, with `weights` in place of its own if given, all in `dtype`."""
    frozen = for_inference(copy.deepcopy(model), dtype).to(device)
    if weights is not None:
        load_weights(frozen, weights, where="weights")
    return frozen


def for_inference(model: Model, dtype: torch.dtype) -> Model:
    """Return `model` itself, made ready for decoding in `dtype`."""
    model.requires_grad_(False).eval().to(dtype)
    model.dtype = dtype
    return model
