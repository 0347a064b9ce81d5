"""Models of Sockeye 3, in files as it writes them, against a reimplementation of its Transformer."""

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from commands import error_of
from dragoman.interop.sockeye import read
from dragoman.text.foreign import Segmentation
from foreign_checkpoints import F_WIDTH as F
from foreign_checkpoints import TARGET_WORDS, WORDS, D, Reference, check_import, linear, random_tensors

pytest.importorskip("yaml")

HEADS = 2
SIDE: dict[str, Any] = {
    "model_size": D, "attention_heads": HEADS, "feed_forward_num_hidden": F, "act_type": "relu",
    "num_layers": 2, "dropout_attention": 0.1, "dropout_act": 0.2, "dropout_prepost": 0.3,
    "positional_embedding_type": "fixed", "preprocess_sequence": "n", "postprocess_sequence": "dr",
    "max_seq_len_source": 21, "max_seq_len_target": 19, "decoder_type": "transformer", "use_lhuc": False,
    "depth_key_value": D, "use_glu": False,
}  # fmt: skip
LANGUAGES = ("--src-lang", "en", "--tgt-lang", "de")
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"preprocess_sequence": "", "postprocess_sequence": "drn", "act_type": "gelu"},
    "learned positions": {"positional_embedding_type": "learned", "act_type": "swish1"},
    "everything tied": {"preprocess_sequence": "n", "postprocess_sequence": "r"},
}


class Sockeye(Reference):
    """`SockeyeModel` in inference, where keys and values of a head stand together."""

    tokens: ClassVar = {"encoder": "embedding_source.embedding", "decoder": "embedding_target.embedding"}
    layers: ClassVar = {side: f"{side}.layers" for side in ("encoder", "decoder")}
    norms: ClassVar = {
        "encoder": ("pre_self_attention.layer_norm", "pre_ff.layer_norm"),
        "decoder": tuple(f"pre_{name}.layer_norm" for name in ("autoregr_layer", "enc_attention", "ff")),
    }
    last, output, wide, narrow = "{}.final_process.layer_norm", "output_layer", "ff.ff1", "ff.ff2"
    attention: ClassVar = {"encoder": ("self_attention",), "decoder": ("autoregr_layer", "enc_attention")}
    mix = "ff_out"

    @classmethod
    def projections(cls, block: str) -> dict[str, int]:
        """Of self-attention queries, keys and values are one matrix; of the other, keys and values."""
        return {"ff_q": D, "ff_kv": 2 * D, "ff_out": D} if "enc" in block else {"ff_in": 3 * D, "ff_out": D}

    def project(self, at: str, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values (S, 2 D) are of each head its keys, then its values."""
        if at.endswith("enc_attention"):
            q, kv = linear(x, self.tensors, f"{at}.ff_q"), linear(memory, self.tensors, f"{at}.ff_kv")
        else:
            q, kv = linear(x, self.tensors, f"{at}.ff_in").split((D, 2 * D), dim=-1)
        k, v = kv.view(len(kv), HEADS, 2, -1).unbind(2)
        return q, k.flatten(1), v.flatten(1)


class PostNorm(Sockeye):
    norms: ClassVar = {
        side: [name.replace("pre_", "post_") for name in names] for side, names in Sockeye.norms.items()
    }


def sockeye_of(side: dict[str, Any]) -> type[Sockeye]:
    return Sockeye if "n" in side["preprocess_sequence"] else PostNorm


def sockeye_itself(side: dict[str, Any], tensors: dict[str, Tensor]) -> Sockeye:
    """`SockeyeModel`, from the settings of a side and its tensors."""
    return sockeye_of(side)(
        tensors,
        positions=lambda name, length: tensors[f"{name}.pos_embedding.weight"][:length],
        pre=sockeye_of(side) is Sockeye,
        eps=1e-6,
        activation={"swish1": "swish"}.get(side["act_type"], side["act_type"]),
    )


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
    shapes = sockeye_of(side).shapes(
        [4 + len(pieces) for pieces in words.values()], [side["num_layers"]] * 2,
        last="n" in side["preprocess_sequence"], attention_bias=False,
    )  # fmt: skip
    lengths = {"encoder": side["max_seq_len_source"], "decoder": side["max_seq_len_target"]}
    tensors = random_tensors(shapes | {f"{n}.pos_embedding.weight": (lengths[n], D) for n in lengths})
    if side["positional_embedding_type"] == "fixed":
        tensors |= {f"{name}.pos_embedding.weight": sockeye_positions(n) for name, n in lengths.items()}
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


def sockeye_positions(length: int) -> Tensor:
    """Sines of all rates 10000^(-2i / D), then cosines."""
    table = torch.empty(length, D)
    for t in range(length):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            table[t, i], table[t, D // 2 + i] = math.sin(angle), math.cos(angle)
    return table


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_computes_what_sockeye_computes(tmp_path: Path, name: str) -> None:
    ties = {"everything tied": "all", "post-norm": "none"}.get(name, "softmax")
    folder, side, tensors = write(tmp_path / "there", ties=ties, **VARIANTS[name])
    foreign = check_import(
        folder, read, sockeye_itself(side, tensors).logits, max_positions=19, norm_eps=1e-6, output_bias=True,
        positions="learned" if name == "learned positions" else "stored", dropout=0.3, attention_dropout=0.1,
        activation_dropout=0.2, tie_embeddings=ties.replace("softmax", "output"),
    )  # fmt: skip
    assert (foreign.src_segmentation, foreign.notes) == (Segmentation(), ())


def test_half_precision_is_widened_and_what_only_guesses_is_left_out(tmp_path: Path) -> None:
    folder, side, tensors = write(tmp_path / "there")
    halved = {name: tensor.half() for name, tensor in tensors.items()}
    extra = {"length_ratio.layers.0.weight": torch.ones(1, D), "nvs.project_vocab.weight": torch.ones(3, D)}
    torch.save(halved | extra, folder / "params.best")
    write_config(
        folder, {"encoder": side, "decoder": side}, dtype="float16", neural_vocab_selection="logit_max"
    )
    widened = {name: tensor.float() for name, tensor in halved.items()}
    foreign = check_import(folder, read, sockeye_itself(side, widened).logits)
    assert foreign.notes == ("all of the vocabulary is searched; neural_vocab_selection does not narrow it",)
    assert all(tensor.dtype == torch.float32 for tensor in foreign.weights.values())


def test_vocabularies_that_are_damaged_are_named(tmp_path: Path) -> None:
    folder, _, _ = write(tmp_path / "there")

    def refused() -> str:
        return error_of("import", folder, "--out", tmp_path / "run", *LANGUAGES)

    (folder / "vocab.trg.0.json").write_text('{"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 9}', "utf-8")
    assert "embedding_target.embedding.weight has shape" in refused()
    (folder / "config").write_text("!ModelConfig [1, 2]", encoding="utf-8")
    assert "holds no settings" in refused()
    assert "does not say its languages; add --src-lang and --tgt-lang" in error_of(
        "import", write(tmp_path / "another")[0], "--out", tmp_path / "run"
    )
