"""The search by PyTorch: on GPUs, for what compiled code does not compute, and as the reference of tests.

Arrays go in, and log-probabilities stay on the device that computed them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, get_args
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.data.batching import pad, source_mask
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.log_probs import ArrayLogProbs, Floats, Floats32, Index, Ints, LogProbs, check_no_nan
from dragoman.decoding.wrappers import Coverage
from dragoman.errors import ConfigError, DragomanWarning, RunError
from dragoman.hardware import PRECISIONS, choose_device, choose_dtype, resident_bytes
from dragoman.model.compiled import CompiledModel, Kind, why_not_compiled
from dragoman.model.incremental import IncrementalDecoder, WholeDecoder
from dragoman.model.kernels import FAST
from dragoman.model.static import StaticDecoder, can_record
from dragoman.model.transformer import Seq2SeqTransformer, Stepping, decoder_layers, encoder_layers
from dragoman.predict.engine import FORBIDDEN, CompiledEngine, ModelEngine, SearchInput, Started
from dragoman.predict.networks import build_model, fill, for_inference, watched
from dragoman.predict.reading import TranslatorFiles
from dragoman.predict.shortlist import Shortlist
from dragoman.tensors import of_tensors
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SPARE = 8
"""Candidates beyond the k best, so that ties at the edge seldom need a second pass over the vocabulary."""
SLOWER = {
    "incremental": "the layers themselves search in its place, a token at a time",
    "whole": "the whole model searches in its place, all tokens at every step",
}
"""By way of searching, what a user is told."""


class TensorDecoder(Protocol):
    """Computes the next tokens, in tensors; a call is that of `NextToken`."""

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, C) in fp32."""


class AttendingTensorDecoder(TensorDecoder, Protocol):
    """One that keeps its attention to the source."""

    attention: Tensor
    """(N, S) of the last call."""


class TensorStep:
    """The next-token function of one decoder, or of several, whose probabilities it averages."""

    def __init__(self, decoders: Sequence[TensorDecoder]) -> None:
        self._decoders = decoders

    @torch.inference_mode()
    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        tokens, rows = torch.from_numpy(last), torch.from_numpy(parents)
        log_probs = [decoder(tokens, rows) for decoder in self._decoders]
        mean = log_probs[0]
        if len(log_probs) > 1:  # of probabilities: a single model cannot veto a token
            mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
        return ArrayLogProbs(mean.numpy()) if mean.device.type == "cpu" else TensorLogProbs(mean)


class AttendingTensorStep(TensorStep):
    """The same with the attention to the source: the mean of the decoders'."""

    def __init__(self, decoders: Sequence[AttendingTensorDecoder]) -> None:
        super().__init__(decoders)
        self._attending = decoders

    @property
    def attention(self) -> Floats32:
        """(N, S) of the last call."""
        mean: Floats32 = torch.stack([each.attention for each in self._attending]).mean(dim=0).cpu().numpy()
        return mean


class TensorLogProbs:
    """Log-probabilities on a device, of which only what is asked for travels."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @torch.inference_mode()
    def best(self, k: int) -> tuple[Floats, Ints]:
        x, k = self.values, min(k, self.values.shape[1])
        values, columns = (best.cpu() for best in x.topk(min(k + SPARE, x.shape[1])))
        check_no_nan(values[:, :1].numpy())  # topk counts NaN as the largest
        columns, by_id = columns.sort(dim=1)  # topk alone guarantees no order of equals
        values, by_value = values.gather(1, by_id).sort(dim=1, descending=True, stable=True)
        least = values[:, -1]
        values, columns = values[:, :k], columns.gather(1, by_value[:, :k])
        tied = (values[:, -1] == least) & least.isfinite()  # there may be more of them, of lower columns
        if k + SPARE < x.shape[1] and tied.any():
            rows = ArrayLogProbs(x[tied.to(x.device)].cpu().numpy())
            columns[tied] = torch.from_numpy(rows.best(k)[1])
        return values.double().numpy(), columns.numpy()

    def at(self, rows: Index, columns: Index) -> Floats:
        values: Floats = self.values[self._there(rows), self._there(columns)].cpu().double().numpy()
        return values

    @torch.inference_mode()
    def put(self, rows: Index, columns: Index, values: Floats | float) -> None:
        new = torch.as_tensor(values, dtype=self.values.dtype).to(self.values.device)
        self.values[self._there(rows), self._there(columns)] = new

    def all(self) -> Floats32:
        values: Floats32 = self.values.cpu().numpy()
        return values

    def _there(self, index: Index) -> Tensor | slice | int:
        return torch.from_numpy(index).to(self.values.device) if isinstance(index, np.ndarray) else index


class TorchEngine(ModelEngine):
    """The search over networks of PyTorch, on any device."""

    def __init__(self, *models: Seq2SeqTransformer) -> None:
        assert models
        self.models = models
        device = models[0].device
        self.n_threads = torch.get_num_threads() if device.type == "cpu" else 1
        self._static = [StaticDecoder(model, max_bytes=resident_bytes(device)) for model in models]

    @property
    def precision(self) -> str:
        return str(self.models[0].dtype).removeprefix("torch.")

    @property
    def longest(self) -> int:
        return min(model.config.max_positions for model in self.models) - 1

    def search(self, sentences: Sequence[SearchInput], settings: SearchConfig) -> list[list[Hypothesis]]:
        try:
            return super().search(sentences, settings)
        except torch.OutOfMemoryError:
            pass
        # Outside of the handler, which would keep what is to be freed.
        for decoder in self._static:
            decoder.stages.clear()
        torch.cuda.empty_cache()
        if len(sentences) == 1:
            return super().search(sentences, settings)
        half = len(sentences) // 2
        return self.search(sentences[:half], settings) + self.search(sentences[half:], settings)

    @torch.inference_mode()
    def start(
        self, sources: Sequence[Sequence[int]], settings: SearchConfig, sentences: Sequence[SearchInput] = ()
    ) -> Started:
        src = pad(sources)
        if settings.coverage_penalty > 0:
            return self._start_covering(src, settings.coverage_penalty)
        decoders: list[TensorDecoder] = []
        for model, static in zip(self.models, self._static, strict=True):
            begin: Callable[..., TensorDecoder] = static.start
            if not can_record(model):
                begin = partial(WholeDecoder if model.stepping == "whole" else IncrementalDecoder, model)
            at = src.to(model.device)
            decoders.append(begin(at, _mask(model, at), forbidden=FORBIDDEN))
        return Started(TensorStep(decoders))

    def _start_covering(self, src: Tensor, beta: float) -> Started:
        """Return the same with a coverage penalty, for sources (B, S)."""
        if any(model.stepping == "whole" for model in self.models):
            raise ConfigError(
                "a coverage penalty needs the attention of model/layers.py as it was; set it to 0"
            )
        decoders = [
            IncrementalDecoder(model, at, _mask(model, at), forbidden=FORBIDDEN, keep_attention=True)
            for model in self.models
            for at in [src.to(model.device)]
        ]
        counted = ((src != PAD_ID) & (src != EOS_ID)).numpy()
        coverage = Coverage(AttendingTensorStep(decoders), beta=beta, counted=counted)
        return Started(coverage, coverage.penalty)

    @torch.inference_mode()
    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return what `StepEngine.score` does, by the layers themselves, all in one pass."""
        tgt_out = pad([[*ids, EOS_ID] for ids in targets]).to(self.models[0].device)
        real = tgt_out != PAD_ID
        strange = (tgt_out == UNK_ID).any(dim=1, keepdim=True).expand_as(real)[real]  # (R,)
        by_model = []
        for model in self.models:
            logits = model.project(self._hidden(model, sources, targets)[real]).float()  # (R, V)
            unknown = logits[:, UNK_ID].clone()
            logits[:, list(FORBIDDEN)] = -torch.inf
            logits[:, UNK_ID] = torch.where(strange, unknown, -torch.inf)  # only there can <unk> be written
            by_model.append(logits.log_softmax(dim=-1))
        log_probs = torch.stack(by_model).logsumexp(dim=0) - math.log(len(by_model))
        values = iter(log_probs.gather(1, tgt_out[real][:, None])[:, 0].tolist())
        return [[next(values) for _ in range(len(ids) + 1)] for ids in targets]

    @torch.inference_mode()
    def attention(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Floats32:
        model = self.models[0]
        blocks = [layer.cross_attention for layer in decoder_layers(model)]
        with watched(blocks, lambda weights: weights.mean(1)) as of_layers:  # (B, T, S) each
            self._hidden(model, sources, targets)
        weights: Floats32 = torch.stack(of_layers, dim=1).float().cpu().numpy()
        return weights

    @torch.inference_mode()
    def attention_maps(
        self, source: Sequence[int], target: Sequence[int]
    ) -> tuple[Floats32, Floats32, Floats32]:
        model = self.models[0]
        with (
            watched(layer.self_attention for layer in encoder_layers(model)) as encoder,
            watched(layer.self_attention for layer in decoder_layers(model)) as decoder,
            watched(layer.cross_attention for layer in decoder_layers(model)) as cross,
        ):
            self._hidden(model, [source], [target])
        of_encoder, of_decoder, of_cross = (
            torch.cat(layers).float().cpu().numpy()
            for layers in (encoder, decoder, cross)  # each was (1, H, T, S)
        )
        return of_encoder, of_decoder, of_cross

    def _hidden(
        self,
        model: Seq2SeqTransformer,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
    ) -> Tensor:
        """(B, T, D): what the decoder of `model` gives for each target, the start token before it."""
        src = pad(sources).to(model.device)
        src_mask = _mask(model, src)
        tgt_in = pad([[BOS_ID, *ids] for ids in targets]).to(model.device)
        return model.decode(tgt_in, model.encode(src, src_mask), src_mask)


def engine_of(
    *models: Seq2SeqTransformer, int8: bool = False, shortlist: Shortlist | None = None
) -> ModelEngine:
    """Return the fastest engine for models as they are now: compiled code where it computes them all."""
    if all(can_compile(model, int8=int8) for model in models):
        return CompiledEngine(*(compiled(model, int8=int8) for model in models), shortlist=shortlist)
    return TorchEngine(*models)


def can_compile(model: Seq2SeqTransformer, *, int8: bool = False) -> bool:
    """Whether compiled code computes `model` here, in its type or in int8, and is wanted."""
    kind = _kind_of(model, int8=int8)
    if model.device.type != "cpu" or model.kernels != FAST or model.stepping != "fast" or kind is None:
        return False
    return not why_not_compiled(model.config, kind)


def compiled(model: Seq2SeqTransformer, *, int8: bool = False) -> CompiledModel:
    """Pack the weights of a model that one `can_compile`, as they are now."""
    kind = _kind_of(model, int8=int8)
    assert kind is not None
    return CompiledModel(of_tensors(dict(model.named_parameters())), model.config, kind=kind)


def _kind_of(model: Seq2SeqTransformer, *, int8: bool) -> Kind | None:
    """Return what compiled code stores the weights of a model in; None: it knows none of its type."""
    kinds: dict[torch.dtype, Kind] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
    return "int8" if int8 else kinds.get(model.dtype)


def agreeing_engine(
    models: Sequence[Seq2SeqTransformer], tests: Sequence[Callable[[ModelEngine], bool]], *, where: str
) -> ModelEngine:
    """Return the fastest engine for `models` in which each passes its test: it computes what its layers do.

    DragomanWarning: that is not the fastest of all. RunError: not even the layers themselves pass.
    """
    for stepping in get_args(Stepping):
        for model in models:
            model.stepping = stepping
        engines = [engine_of(model) for model in models]
        if all(test(engine) for test, engine in zip(tests, engines, strict=True)):
            break
    else:
        raise RunError(
            f"{where}: computes other probabilities than when its weights were written; they are damaged, or "
            "src/dragoman/model is not what they were trained with"
        )
    if stepping != "fast":
        warn(
            f"{where}: is not the network that the fast search computes, for src/dragoman/model was changed; "
            f"{SLOWER[stepping]}",
            DragomanWarning,
            stacklevel=2,
        )
    return engines[0] if len(engines) == 1 else engine_of(*models)


def load_torch_engine(files: Sequence[TranslatorFiles], *, device: str, precision: str) -> ModelEngine:
    """Return the fastest engine for the models of these runs in PyTorch. Errors: `Translator.load`."""
    place = choose_device(device)
    models = [load_network(each, place, precision) for each in files]
    where = ", ".join(str(each.run.path) for each in files)
    return agreeing_engine(models, [each.agrees for each in files], where=where)


def networks_of(engine: ModelEngine, files: Sequence[TranslatorFiles]) -> Sequence[Seq2SeqTransformer]:
    """Return the models that `engine` searches with: its own, or those of the runs it was loaded from."""
    if isinstance(engine, TorchEngine):
        return engine.models
    precisions = {ours: short for short, ours in PRECISIONS.items()}
    precision = precisions.get(engine.precision, "fp32")  # int8 is for searches
    return [load_network(each, torch.device("cpu"), precision) for each in files]


def load_network(files: TranslatorFiles, device: torch.device, precision: str) -> Seq2SeqTransformer:
    """Return the model of a run, ready for decoding on `device`."""
    files.check()
    model = build_model(files.config, files.tokenizers, device=device)
    fill(model, files.run.load_weights(), where=str(files.run.weights_path))
    return for_inference(model, choose_dtype(precision, device))


def _mask(model: Seq2SeqTransformer, src: Tensor) -> Tensor:
    """src (B, S) -> (B, S): where the model's encoder and decoder look."""
    return source_mask(src, with_end=model.config.source_end)
