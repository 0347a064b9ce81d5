"""Models as ONNX graphs, and a search over onnxruntime.

A translator becomes two graphs. The encoder gives, beside the bias that hides padding, keys and values of
every decoder layer's attention to the source, so that they are computed once a sentence. The decoder takes
the last tokens, the keys and values of all tokens before (none in the first step) and those of the source,
and gives log-probabilities, forbidden tokens at -inf, and the longer keys and values. A classifier is one
graph. All of them take any number of rows, of any length.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import SearchConfig
from dragoman.data.batching import pad, source_mask
from dragoman.data.document_batching import Documents
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.errors import ConfigError, optional
from dragoman.files import write_atomically
from dragoman.model.classifier import TransformerClassifier, pool
from dragoman.model.layers import MultiHeadAttention
from dragoman.model.transformer import Seq2SeqTransformer, decoder_layers
from dragoman.predict.engine import FORBIDDEN, SearchInput, Started, StepEngine
from dragoman.text.tokenizer import PAD_ID

OPSET = 18
"""Of 2022. Every onnxruntime from 1.14 on knows it."""

LARGEST = 2**31
"""Bytes of weights; protocol buffers, of which the file is made, hold no more."""

ENCODER, DECODER, CLASSIFIER = "encoder.onnx", "decoder.onnx", "classifier.onnx"


class EncoderGraph(nn.Module):
    """ids (B, S), 0 where a sentence has ended -> bias (B, 1, 1, S), then keys and values (B, H, S, d)."""

    def __init__(self, model: Seq2SeqTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        bias = hidden_bias(ids != PAD_ID)
        x = model.src_embedding(ids, dtype=model.dtype)
        for layer in model.encoder:
            x = layer(x, bias)
        memory = model.encoder_norm(x)
        attentions = [layer.cross_attention for layer in decoder_layers(model)]
        return bias, *(a.split_heads(t) for a in attentions for t in a.project_memory(memory))


class DecoderGraph(nn.Module):
    """last (N,), the encoder's bias, past and cross keys and values -> log-probabilities (N, V), present.

    The past has t tokens, and the last is at position t. A tied table is in the graph once, as (D, V): both
    what is looked up and what is multiplied read it there.
    """

    table: Tensor
    bias: Tensor

    def __init__(self, model: Seq2SeqTransformer) -> None:
        super().__init__()
        self.model = model
        # Multiplied as (V, D), by Gemm, the quantiser would transpose it under the look-up.
        self.register_buffer("table", model.output.weight.detach().t().contiguous())
        weight, own_bias = model.output.weight, model.output.bias
        bias = torch.zeros(len(weight)) if own_bias is None else own_bias.clone()
        bias[list(FORBIDDEN)] = float("-inf")
        self.register_buffer("bias", bias)

    def forward(self, last: Tensor, src_bias: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        model, n = self.model, 2 * self.model.config.n_decoder_layers
        past, cross = caches[:n], caches[n:]
        embedding, t = model.tgt_embedding, past[0].shape[2]
        if model.config.tie_embeddings == "none":
            x = embedding(last[:, None], dtype=model.dtype, start=t)  # (N, 1, D)
        else:
            x = self.table.index_select(1, last).t() * embedding.scale + embedding.positions[t : t + 1]
            x = x[:, None]  # (N, 1, D)
        present: list[Tensor] = []
        for i, layer in enumerate(decoder_layers(model)):
            pair = slice(2 * i, 2 * i + 2)

            def attend_to_past(
                y: Tensor, attention: MultiHeadAttention = layer.self_attention, at: slice = pair
            ) -> Tensor:
                q, k, v = (attention.split_heads(t) for t in attention.in_proj(y).chunk(3, dim=-1))
                keys, values = (torch.cat(t, dim=2) for t in zip(past[at], (k, v), strict=True))
                present.extend((keys, values))
                return attention.merge_heads(attention.kernels.attention(q, keys, values, None, 0.0))

            def attend_to_source(
                y: Tensor, other: MultiHeadAttention = layer.cross_attention, at: slice = pair
            ) -> Tensor:
                q, (keys, values) = other.split_heads(other.project_query(y)), cross[at]
                return other.merge_heads(other.kernels.attention(q, keys, values, src_bias, 0.0))

            x = layer.residuals[0](x, attend_to_past)
            x = layer.residuals[1](x, attend_to_source)
            x = layer.residuals[2](x, layer.feed_forward)
        logits = model.decoder_norm(x[:, 0]) @ self.table + self.bias
        return logits.log_softmax(-1), *present


class ClassifierGraph(nn.Module):
    """ids (W, L), document (W,) as in `TransformerClassifier` -> logits (B, C).

    A model with votes of n-grams also takes `buckets` (G,) and `bucket_document` (G,): the different
    buckets of each text (model/ngrams.py), which are no matter of tensors and stay outside.
    """

    def __init__(self, model: TransformerClassifier) -> None:
        super().__init__()
        self.model = model
        if model.votes is not None:
            of_votes, of_encoder = model.mixture.float()
            self.register_buffer("share", of_encoder)
            self.register_buffer("votes", of_votes * model.votes.table.float())
            self.register_buffer("bias", of_votes * model.votes.bias.float())

    def forward(
        self, ids: Tensor, document: Tensor, buckets: Tensor | None = None, of_buckets: Tensor | None = None
    ) -> Tensor:
        model, real = self.model, ids != PAD_ID
        x = model.embedding(ids, dtype=model.dtype)
        for layer in model.encoder:
            x = layer(x, hidden_bias(real))
        encoded = model.encoder_norm(x)
        n_documents: Any = document.max() + 1  # a tensor, which the trace follows
        belongs_to = document[None, :] == torch.arange(n_documents)[:, None]  # (B, W)
        highest = encoded.masked_fill(~real[:, :, None], float("-inf")).amax(1)  # (W, D)
        pooled = [
            highest[None].masked_fill(~belongs_to[:, :, None], float("-inf")).amax(1)
            if name == "max"  # scatter_reduce becomes branches, of which onnxruntime warns, text by text
            else pool(name, encoded, real, document, n_documents)
            for name in model.poolings
        ]
        logits = model.head(torch.cat(pooled, dim=-1))
        if buckets is None or of_buckets is None:
            return logits
        assert isinstance(self.votes, Tensor)
        assert isinstance(self.bias, Tensor)
        assert isinstance(self.share, Tensor)
        belongs = (of_buckets[None, :] == torch.arange(n_documents)[:, None]).float()  # (B, G)
        sums = belongs @ self.votes[buckets]  # (B, C)
        return self.share * logits + sums / belongs.sum(1).clamp(min=1).sqrt()[:, None] + self.bias


def hidden_bias(real: Tensor) -> Tensor:
    """`attention_bias` for a graph, which cannot look whether anything is hidden: (B, S) -> (B, 1, 1, S)."""
    return torch.zeros(real.shape).masked_fill(~real, float("-inf"))[:, None, None, :]


def write_translator(model: Seq2SeqTransformer, folder: Path) -> None:
    """Write ENCODER and DECODER. MissingExtraError: onnx is not installed."""
    numbers = range(model.config.n_decoder_layers)
    cross, past, present = (
        [f"{kind}.{i}.{part}" for i in numbers for part in ("key", "value")]
        for kind in ("cross", "past", "present")
    )
    encoder, decoder = EncoderGraph(model).eval(), DecoderGraph(model).eval()
    ids = torch.tensor([[5, 6, 7, 2], [5, 2, PAD_ID, PAD_ID]]) % len(model.src_embedding.tokens.weight)
    with torch.no_grad():
        bias, *keys_and_values = encoder(ids)
        _, *first = decoder(
            torch.tensor([1, 1]), bias, *[kv[:, :, :0] for kv in keys_and_values], *keys_and_values
        )
    write_graph(
        encoder, (ids,), folder / ENCODER,
        inputs={"ids": {0: "B", 1: "S"}},
        outputs={"src_bias": {0: "B", 3: "S"}} | {name: {0: "B", 2: "S"} for name in cross},
    )  # fmt: skip
    write_graph(
        decoder, (torch.tensor([5, 6]), bias, *first, *keys_and_values), folder / DECODER,
        inputs={"last": {0: "N"}, "src_bias": {0: "N", 3: "S"}}
        | {name: {0: "N", 2: "T"} for name in past} | {name: {0: "N", 2: "S"} for name in cross},
        outputs={"log_probs": {0: "N"}} | {name: {0: "N", 2: "T + 1"} for name in present},
    )  # fmt: skip


def write_classifier(model: TransformerClassifier, folder: Path) -> None:
    """Write CLASSIFIER. MissingExtraError: onnx is not installed."""
    ids, document = torch.tensor([[5, 6, 7], [5, 0, 0], [6, 7, 0]]), torch.tensor([0, 0, 1])
    inputs: dict[str, dict[int, str]] = {"ids": {0: "W", 1: "L"}, "document": {0: "W"}}
    arguments: tuple[Tensor, ...] = (ids, document)
    if model.votes is not None:
        inputs |= {"buckets": {0: "G"}, "bucket_document": {0: "G"}}
        arguments = (*arguments, torch.tensor([1, 3, 2]), torch.tensor([0, 0, 1]))
    graph, outputs = ClassifierGraph(model).eval(), {"logits": {0: "B"}}
    write_graph(graph, arguments, folder / CLASSIFIER, inputs=inputs, outputs=outputs)


def write_graph(
    module: nn.Module,
    arguments: tuple[Tensor, ...],
    path: Path,
    *,
    inputs: Mapping[str, dict[int, str]],
    outputs: Mapping[str, dict[int, str]],
) -> None:
    """Write `module` as ONNX; inputs and outputs by name, each with its axes of any length.

    By tracing: torch.export stumbles over the decoder (docs/decisions.md). ConfigError: it is too large.
    """
    import_package("onnx")
    size = sum(p.numel() * p.element_size() for p in module.parameters())
    if size >= LARGEST:
        raise ConfigError(
            f"{path.name}: a graph in one file holds less than {LARGEST / 2**30:g} GiB, and the model has "
            f"{size / 2**30:.1f}; export to ctranslate2 or huggingface"
        )
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # it calls itself old, and warns of shapes that are constant here
        torch.onnx.export(
            module, arguments, buffer,  # type: ignore[arg-type]
            dynamo=False, opset_version=OPSET,
            input_names=list(inputs), output_names=list(outputs), dynamic_axes={**inputs, **outputs},
        )  # fmt: skip
    write_atomically(path, buffer.getvalue())


def quantize(path: Path) -> None:
    """Replace the graph of a translator by one with weights in int8, by onnxruntime's quantiser.

    What a matrix multiplies is cut into 256 steps at each call (`DynamicQuantizeLinear`), and products are
    summed as integers (`MatMulInteger`): the same sums on every processor and in a browser. Bytes are
    unsigned, since sums of signed ones overflow on processors without VNNI.
    MissingExtraError: onnx or onnxruntime is not installed.
    """
    onnx, quantization = import_package("onnx"), import_package("onnxruntime.quantization")
    model = onnx.load(path)
    # Its tracer has folded all constants; without this entry the quantiser warns that nobody has.
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    quantization.quantize_dynamic(model, path, per_channel=True, weight_type=quantization.QuantType.QUInt8)


class OnnxEngine(StepEngine):
    """Dragoman's search over the two graphs of a translator, by onnxruntime."""

    def __init__(self, folder: Path, *, max_positions: int, source_end: bool = True) -> None:
        """Without `source_end` the model is not given the end token of a source."""
        self.max_positions = max_positions
        self.source_end = source_end
        self.encoder = session(folder / ENCODER)
        self.decoder = session(folder / DECODER)

    @property
    def longest(self) -> int:
        return self.max_positions - 1

    def start(
        self, sources: Sequence[Sequence[int]], settings: SearchConfig, sentences: Sequence[SearchInput] = ()
    ) -> Started:
        if settings.coverage_penalty > 0:
            raise ConfigError("coverage_penalty: the graphs do not say where they look; set it to 0")
        src = pad(sources)
        src = src.masked_fill(~source_mask(src, with_end=self.source_end), PAD_ID)
        return Started(OnnxSteps(self.encoder, self.decoder, src.numpy()))


class OnnxSteps:
    """The next-token function of the graphs for sources (B, S)."""

    def __init__(self, encoder: Any, decoder: Any, src: Ints) -> None:
        self.decoder = decoder
        self.outputs = [output.name for output in decoder.get_outputs()]
        names = [output.name for output in encoder.get_outputs()]
        values = encoder.run(names, {"ids": src})
        self.of_source: dict[str, np.ndarray[Any, Any]] = dict(zip(names, values, strict=True))
        self.of_rows = self.of_source  # a row for each row of the last call
        self.sentences = np.arange(len(src))
        n, heads, _, width = self.of_source["cross.0.key"].shape
        empty = np.zeros((n, heads, 0, width), dtype=np.float32)
        self.past = {name.replace("present", "past"): empty for name in self.outputs[1:]}

    def __call__(self, last: Ints, parents: Ints) -> ArrayLogProbs:
        if not np.array_equal(parents, np.arange(len(self.sentences))):  # the caches follow the rows
            self.past = {name: value[parents] for name, value in self.past.items()}
            sentences = self.sentences[parents]
            if not np.array_equal(sentences, self.sentences):
                self.of_rows = {name: value[sentences] for name, value in self.of_source.items()}
            self.sentences = sentences
        log_probs, *present = self.decoder.run(self.outputs, {"last": last, **self.past, **self.of_rows})
        self.past = dict(zip(self.past, present, strict=True))
        return ArrayLogProbs(log_probs)


def classifier_logits(graph: Any, documents: Documents) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(B, C) by the session of a classifier's graph."""
    feed = {"ids": documents.ids.numpy(), "document": documents.document.numpy()}
    if documents.ngrams is not None:
        counts = documents.ngrams.counts
        texts = np.repeat(np.arange(len(counts)), counts)
        feed |= {"buckets": documents.ngrams.buckets, "bucket_document": texts}
    (logits,) = graph.run(["logits"], feed)
    return logits


def session(path: Path) -> Any:
    """Return a graph, ready to run. MissingExtraError: onnxruntime is not installed."""
    onnxruntime = import_package("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def import_package(name: str) -> Any:
    """Return the package `name` of the extra "onnx". MissingExtraError: it is not installed."""
    return optional(name, extra="onnx", purpose="exporting to ONNX")
