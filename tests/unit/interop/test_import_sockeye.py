"""Models of Sockeye 3, in files as it writes them, against a reimplementation of its Transformer."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from commands import error_of, succeed
from dragoman.interop.foreign import ForeignFolder, ImportOptions
from dragoman.interop.importing import import_model
from dragoman.interop.sockeye import read
from dragoman.text.foreign import Segmentation
from foreign_checkpoints import ACTIVATIONS, TARGET_WORDS, WORDS, Pair, linear, norm, random_tensors

pytest.importorskip("yaml")

D, F, HEADS = 8, 12, 2
SIDE: dict[str, Any] = {
    "model_size": D, "attention_heads": HEADS, "feed_forward_num_hidden": F, "act_type": "relu",
    "num_layers": 2, "dropout_attention": 0.1, "dropout_act": 0.2, "dropout_prepost": 0.3,
    "positional_embedding_type": "fixed", "preprocess_sequence": "n", "postprocess_sequence": "dr",
    "max_seq_len_source": 21, "max_seq_len_target": 19, "decoder_type": "transformer", "use_lhuc": False,
    "depth_key_value": D, "use_glu": False,
}  # fmt: skip
LANGUAGES = ("--src-lang", "en", "--tgt-lang", "de")
HERE = ImportOptions(src_lang="en", tgt_lang="de")
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"preprocess_sequence": "", "postprocess_sequence": "drn", "act_type": "gelu"},
    "learned positions": {"positional_embedding_type": "learned", "act_type": "swish1"},
    "everything tied": {"preprocess_sequence": "n", "postprocess_sequence": "r"},
}


def write(
    folder: Path, *, ties: str = "softmax", **changed: Any
) -> tuple[Path, dict[str, Any], dict[str, Tensor]]:
    """A model folder as Sockeye writes it: the folder, the settings of a side, and its tensors."""
    side = {**SIDE, **changed}
    folder.mkdir(parents=True)
    words = {"src": WORDS, "trg": WORDS if ties == "all" else TARGET_WORDS}
    for name, pieces in words.items():
        ids = {token: i for i, token in enumerate(("<pad>", "<unk>", "<s>", "</s>", *pieces))}
        (folder / f"vocab.{name}.0.json").write_text(json.dumps(ids, indent=4), encoding="utf-8")
    (folder / "version").write_text("3.1.34", encoding="utf-8")
    write_config(folder, {"encoder": side, "decoder": side})
    tensors = random_tensors(shapes(side, *(4 + len(pieces) for pieces in words.values())))
    if side["positional_embedding_type"] == "fixed":
        for name, of in (("encoder", "source"), ("decoder", "target")):
            tensors[f"{name}.pos_embedding.weight"] = sockeye_positions(side[f"max_seq_len_{of}"])
    if ties == "all":
        tensors["embedding_target.embedding.weight"] = tensors["embedding_source.embedding.weight"]
    if ties in ("all", "softmax"):
        tensors["output_layer.weight"] = tensors["embedding_target.embedding.weight"]
    torch.save(tensors, folder / "params.best")
    return folder, side, tensors


def write_config(folder: Path, sides: dict[str, dict[str, Any]], **more: Any) -> None:
    """The YAML of Sockeye's `ModelConfig`, every object tagged with its class."""

    def block(tag: str, values: dict[str, Any]) -> str:
        return f"!{tag}\n" + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in values.items())

    lines = [
        "!ModelConfig\n",
        "config_data: !DataConfig\n  max_seq_len_source: 21\n  num_source_factors: 1\n  eop_id: -1\n",
        "config_embed_source: !EmbeddingConfig\n  factor_configs: null\n  num_embed: 8\n",
        "config_embed_target: !EmbeddingConfig\n  factor_configs: null\n  num_embed: 8\n",
        *(f"config_{name}: {block('TransformerConfig', values)}" for name, values in sides.items()),
        *(
            f"{key}: {json.dumps(value)}\n"
            for key, value in {"dtype": "float32", "lhuc": False, **more}.items()
        ),
        "config_length_task: null\nweight_tying_type: trg_softmax\n",
    ]
    (folder / "config").write_text("".join(lines), encoding="utf-8")


def shapes(side: dict[str, Any], n_src: int, n_tgt: int) -> dict[str, tuple[int, ...]]:
    """The state of `SockeyeModel`."""
    found: dict[str, tuple[int, ...]] = {
        "embedding_source.embedding.weight": (n_src, D), "embedding_target.embedding.weight": (n_tgt, D),
        "output_layer.weight": (n_tgt, D), "output_layer.bias": (n_tgt,),
        "encoder.pos_embedding.weight": (side["max_seq_len_source"], D),
        "decoder.pos_embedding.weight": (side["max_seq_len_target"], D),
    }  # fmt: skip
    pre = "n" in side["preprocess_sequence"]
    for name, blocks in (("encoder", ("self_attention",)), ("decoder", ("autoregr_layer", "enc_attention"))):
        for i in range(side["num_layers"]):
            at = f"{name}.layers.{i}"
            for block in (*blocks, "ff"):
                for kind in ("weight", "bias"):
                    found[f"{at}.{'pre' if pre else 'post'}_{block}.layer_norm.{kind}"] = (D,)
            found[f"{at}.{blocks[0]}.ff_in.weight"] = (3 * D, D)
            for block in blocks:
                found[f"{at}.{block}.ff_out.weight"] = (D, D)
            found |= {f"{at}.ff.ff1.weight": (F, D), f"{at}.ff.ff1.bias": (F,)}
            found |= {f"{at}.ff.ff2.weight": (D, F), f"{at}.ff.ff2.bias": (D,)}
            if name == "decoder":
                found[f"{at}.enc_attention.ff_q.weight"] = (D, D)
                found[f"{at}.enc_attention.ff_kv.weight"] = (2 * D, D)
        if pre:
            found |= {f"{name}.final_process.layer_norm.{kind}": (D,) for kind in ("weight", "bias")}
    return found


def sockeye_positions(length: int) -> Tensor:
    """Sines of all rates 10000^(-2i / D), then cosines."""
    table = torch.empty(length, D)
    for t in range(length):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            table[t, i], table[t, D // 2 + i] = math.sin(angle), math.cos(angle)
    return table


class Sockeye:
    """`SockeyeModel` without dropout, in inference, where keys and values of a head stand together."""

    def __init__(self, side: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.side, self.tensors = side, tensors

    def logits(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (S,), tgt_in (T,) -> (T, V)."""
        hidden = self.run("decoder", tgt_in, self.run("encoder", src, None))
        return linear(hidden, self.tensors, "output_layer")

    def run(self, name: str, ids: Tensor, memory: Tensor | None) -> Tensor:
        embedding = "embedding_source" if name == "encoder" else "embedding_target"
        x = self.tensors[f"{embedding}.embedding.weight"][ids] * D**0.5
        x = x + self.tensors[f"{name}.pos_embedding.weight"][: len(ids)]
        for i in range(self.side["num_layers"]):
            x = self.layer(f"{name}.layers.{i}", x, memory)
        return self.process(f"{name}.final_process", self.side["preprocess_sequence"], x, None)

    def layer(self, at: str, x: Tensor, memory: Tensor | None) -> Tensor:
        own = "self_attention" if memory is None else "autoregr_layer"
        y = self.before(at, own, x)
        q, kv = linear(y, self.tensors, f"{at}.{own}.ff_in").split((D, 2 * D), dim=-1)
        x = self.after(at, own, self.attend(f"{at}.{own}", q, kv, causal=memory is not None), x)
        if memory is not None:
            q = linear(self.before(at, "enc_attention", x), self.tensors, f"{at}.enc_attention.ff_q")
            kv = linear(memory, self.tensors, f"{at}.enc_attention.ff_kv")
            x = self.after(at, "enc_attention", self.attend(f"{at}.enc_attention", q, kv, causal=False), x)
        activation = ACTIVATIONS[{"swish1": "swish"}.get(self.side["act_type"], self.side["act_type"])]
        inner = activation(linear(self.before(at, "ff", x), self.tensors, f"{at}.ff.ff1"))
        return self.after(at, "ff", linear(inner, self.tensors, f"{at}.ff.ff2"), x)

    def attend(self, at: str, q: Tensor, kv: Tensor, *, causal: bool) -> Tensor:
        """kv (S, 2 D): of each head its keys, then its values."""
        q = q.view(len(q), HEADS, -1)
        kv = kv.view(len(kv), HEADS, 2, -1)
        scores = torch.einsum("thd,shd->hts", q * q.shape[-1] ** -0.5, kv[:, :, 0])
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -1e8)
        context = torch.einsum("hts,shd->thd", scores.softmax(-1), kv[:, :, 1])
        return linear(context.flatten(1), self.tensors, f"{at}.ff_out")

    def before(self, at: str, block: str, x: Tensor) -> Tensor:
        return self.process(f"{at}.pre_{block}", self.side["preprocess_sequence"], x, None)

    def after(self, at: str, block: str, x: Tensor, residual: Tensor) -> Tensor:
        return self.process(f"{at}.post_{block}", self.side["postprocess_sequence"], x, residual)

    def process(self, at: str, sequence: str, x: Tensor, residual: Tensor | None) -> Tensor:
        for step in sequence:
            if step == "r":
                assert residual is not None
                x = x + residual
            elif step == "n":
                x = norm(x, self.tensors, f"{at}.layer_norm", 1e-6)
        return x


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_computes_what_sockeye_computes(tmp_path: Path, name: str) -> None:
    ties = {"everything tied": "all", "post-norm": "none"}.get(name, "softmax")
    folder, side, tensors = write(tmp_path / "there", ties=ties, **VARIANTS[name])
    run = import_model(folder, tmp_path / "run", options=HERE)
    foreign = read(ForeignFolder(folder), HERE)
    Pair(foreign).check(run.path, Sockeye(side, tensors).logits)
    model = foreign.model
    assert (model.max_positions, model.norm_eps, model.output_bias) == (19, 1e-6, True)
    assert model.positions == ("learned" if name == "learned positions" else "stored")
    assert model.tie_embeddings == {"all": "all", "none": "none"}.get(ties, "output")
    assert (model.dropout, model.attention_dropout, model.activation_dropout) == (0.3, 0.1, 0.2)
    assert (foreign.src_segmentation, foreign.notes) == (Segmentation(), ())
    assert succeed("translate", run.path, "-", stdin="the red cat\n").stdout.count("\n") == 1


def test_half_precision_is_widened_and_what_only_guesses_is_left_out(tmp_path: Path) -> None:
    folder, side, tensors = write(tmp_path / "there")
    halved = {name: tensor.half() for name, tensor in tensors.items()}
    extra = {"length_ratio.layers.0.weight": torch.ones(1, D), "nvs.project_vocab.weight": torch.ones(3, D)}
    torch.save(halved | extra, folder / "params.best")
    write_config(
        folder, {"encoder": side, "decoder": side}, dtype="float16", neural_vocab_selection="logit_max"
    )
    foreign = read(ForeignFolder(folder), HERE)
    assert foreign.notes == ("all of the vocabulary is searched; neural_vocab_selection does not narrow it",)
    assert all(tensor.dtype == torch.float32 for tensor in foreign.weights.values())
    run = import_model(folder, tmp_path / "run", options=HERE)
    widened = {name: tensor.float() for name, tensor in halved.items()}
    Pair(foreign).check(run.path, Sockeye(side, widened).logits)


def test_vocabularies_that_are_damaged_are_named(tmp_path: Path) -> None:
    folder, _, _ = write(tmp_path / "there")

    def refused() -> str:
        return error_of("import", folder, "--out", tmp_path / "run", *LANGUAGES)

    for ids, said in (
        (
            '{"<pad>": 0, "<unk>": 1, "<s>": 2, "die": 9}',
            "vocab.trg.0.json: has no </s>; it is of another model",
        ),
        ('{"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 2}', "does not give each token a number of its own"),
        ('{"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 9}', "embedding_target.embedding.weight has shape"),
    ):
        (folder / "vocab.trg.0.json").write_text(ids, encoding="utf-8")
        assert said in refused()
    (folder / "config").write_text("!ModelConfig [1, 2]", encoding="utf-8")
    assert "holds no settings" in refused()
    assert "does not say its languages; add --src-lang and --tgt-lang" in error_of(
        "import", write(tmp_path / "another")[0], "--out", tmp_path / "run"
    )
