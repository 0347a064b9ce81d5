"""The search by PyTorch: on GPUs, for what compiled code does not compute, and as the reference of tests.

Arrays go in, and log-probabilities stay on the device that computed them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.data.batching import pad, source_mask
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.log_probs import ArrayLogProbs, Floats, Floats32, Index, Ints, LogProbs, check_no_nan
from dragoman.errors import ConfigError, DragomanWarning, RunError
from dragoman.hardware import resident_bytes
from dragoman.model.compiled import CompiledModel, why_not_compiled
from dragoman.model.copies import watched
from dragoman.model.incremental import IncrementalDecoder, WholeDecoder
from dragoman.model.kernels import FAST
from dragoman.model.static import StaticDecoder, can_record
from dragoman.model.transformer import Seq2SeqTransformer, Stepping, decoder_layers, encoder_layers
from dragoman.predict.engine import FORBIDDEN, CompiledEngine, ModelEngine, SearchInput, Started, covering
from dragoman.predict.shortlist import Shortlist
from dragoman.tensors import of_tensors
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SPARE = 8
"""Candidates beyond the k best, so that ties at the edge seldom need a second pass over the vocabulary."""


class TensorStep:
    """The next-token function of one decoder of tensors, or of several, whose probabilities it averages."""

    def __init__(self, decoders: Sequence[Any]) -> None:
        """Each is called as a next-token function, with tensors: see `model.incremental`."""
        self._decoders = decoders

    @torch.inference_mode()
    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        tokens, rows = torch.from_numpy(last), torch.from_numpy(parents)
        log_probs = torch.stack([decoder(tokens, rows) for decoder in self._decoders])
        # The mean of probabilities: a single model cannot veto a token.
        mean = log_probs.logsumexp(dim=0) - math.log(len(log_probs)) if len(log_probs) > 1 else log_probs[0]
        return ArrayLogProbs(mean.numpy()) if mean.device.type == "cpu" else TensorLogProbs(mean)

    @property
    def attention(self) -> Floats32:
        """(N, S) of the last call: the mean of the decoders' that keep it."""
        mean: Floats32 = torch.stack([each.attention for each in self._decoders]).mean(dim=0).cpu().numpy()
        return mean


class TensorLogProbs:
    """Log-probabilities on a device, of which only what is asked for travels."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

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
        self.can_be_interrupted = device.type == "cpu"  # on a GPU, searches of a thread share tensors
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
        src, beta = pad(sources), settings.coverage_penalty
        decoders = []
        for model, static in zip(self.models, self._static, strict=True):
            begin: Callable[..., Any] = static.start
            if model.stepping == "whole":
                begin = partial(WholeDecoder, model)
            elif beta or not can_record(model):
                begin = partial(IncrementalDecoder, model, keep_attention=beta > 0)
            at = src.to(model.device)
            decoders.append(begin(at, _mask(model, at), forbidden=FORBIDDEN))
        if beta and any(model.stepping == "whole" for model in self.models):
            raise ConfigError(
                "a coverage penalty needs the attention of model/layers.py as it was; set it to 0"
            )
        step = TensorStep(decoders)
        return covering(step, sources, beta) if beta else Started(step)

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
    kind: Any = "int8" if int8 else TorchEngine(*models).precision
    for model in models:
        is_usual = model.device.type == "cpu" and model.kernels == FAST and model.stepping == "fast"
        if not is_usual or why_not_compiled(model.config, kind):
            return TorchEngine(*models)
    weights = [of_tensors(dict(model.named_parameters())) for model in models]
    pairs = zip(weights, models, strict=True)
    packed = (CompiledModel(each, model.config, kind=kind) for each, model in pairs)
    return CompiledEngine(*packed, shortlist=shortlist)


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
            "the layers themselves search in its place, slower",
            DragomanWarning,
            stacklevel=2,
        )
    return engines[0] if len(engines) == 1 else engine_of(*models)


def _mask(model: Seq2SeqTransformer, src: Tensor) -> Tensor:
    """src (B, S) -> (B, S): where the model's encoder and decoder look."""
    return source_mask(src, with_end=model.config.source_end)
