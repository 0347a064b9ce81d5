"""Models of OpenNMT-py and eole, in files as they write them, against a reimplementation."""

import argparse
import json
import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from commands import error_of, succeed
from dragoman.interop.foreign import ForeignFolder
from dragoman.interop.importing import import_model
from dragoman.interop.opennmt import read, read_eole
from dragoman.runs import Run
from dragoman.text.foreign import Segmentation
from foreign_checkpoints import F_WIDTH as F
from foreign_checkpoints import HERE, TARGET_WORDS, WORDS, D, Reference, check_import, random_tensors
from foreign_models import SENTENCES, train_sentencepiece

SIDES = ("encoder", "decoder")
SPECIAL = ("<unk>", "<blank>", "<s>", "</s>")
LANGUAGES = ("--src-lang", "en", "--tgt-lang", "de")
OPT: dict[str, Any] = {
    "encoder_type": "transformer", "decoder_type": "transformer", "enc_layers": 2, "dec_layers": 1,
    "heads": 2, "transformer_ff": F, "hidden_size": -1, "enc_hid_size": D, "dec_hid_size": D,
    "position_encoding": True, "position_encoding_type": "SinusoidalInterleaved",
    "max_relative_positions": 0, "copy_attn": False, "self_attn_type": "scaled-dot",
    "pos_ffn_activation_fn": "relu", "layer_norm": "standard", "norm_eps": 1e-6, "num_kv": 0,
    "add_qkvbias": False, "generator_function": "softmax", "parallel_residual": False, "dropout": [0.1],
    "model_task": "seq2seq", "transforms": [],
}  # fmt: skip


class OpenNMT(Reference):
    """`NMTModel`: pre-norm, and a norm behind the last layer."""

    tokens: ClassVar = {side: f"{side}.embeddings.make_embedding.emb_luts.0" for side in SIDES}
    layers: ClassVar = {"encoder": "encoder.transformer", "decoder": "decoder.transformer_layers"}
    norms: ClassVar = {
        "encoder": ("layer_norm", "feed_forward.layer_norm"),
        "decoder": ("layer_norm_1", "layer_norm_2", "feed_forward.layer_norm"),
    }
    attention: ClassVar = {"encoder": ("self_attn",), "decoder": ("self_attn", "context_attn")}
    output, wide, narrow = "generator", "feed_forward.w_1", "feed_forward.w_2"
    qkv, mix = ("linear_query", "linear_keys", "linear_values"), "final_linear"


class Eole(OpenNMT):
    tokens: ClassVar = {"encoder": "src_emb.embeddings", "decoder": "tgt_emb.embeddings"}
    layers: ClassVar = {side: f"{side}.transformer_layers" for side in SIDES}
    norms: ClassVar = {
        "encoder": ("input_layernorm", "post_attention_layernorm"),
        "decoder": ("input_layernorm", "precontext_layernorm", "post_attention_layernorm"),
    }
    wide, narrow = "mlp.gate_up_proj", "mlp.down_proj"


def interleaved(side: str = "", length: int = 20) -> Tensor:
    """sin(t / 10000^(2i / D)) and the cosine of the same, one after the other."""
    angles = [[t / 10000 ** (2 * i / D) for i in range(D // 2)] for t in range(length)]
    return torch.tensor([[f(angle) for angle in row for f in (math.sin, math.cos)] for row in angles])


def vocabularies(shared: bool) -> dict[str, list[str]]:
    return {"src": [*SPECIAL, *WORDS], "tgt": [*SPECIAL, *(WORDS if shared else TARGET_WORDS)]}


def write_onmt(folder: Path, *, shared: bool = False, **changed: Any) -> dict[str, Tensor]:
    """A checkpoint as OpenNMT-py 3 writes it: its tensors."""
    opt, tokens = {**OPT, **changed}, vocabularies(shared)
    folder.mkdir(parents=True)
    sizes = len(tokens["src"]), len(tokens["tgt"])
    tensors = random_tensors(OpenNMT.shapes(sizes, (2, 1), attention_bias=opt["add_qkvbias"]))
    src, tgt = (f"{name}.weight" for name in OpenNMT.tokens.values())
    if shared:
        tensors[tgt] = tensors[src]
        tensors["generator.weight"] = tensors[tgt]
    model = {name: tensor for name, tensor in tensors.items() if not name.startswith("generator")}
    for side in SIDES:
        model[f"{side}.embeddings.make_embedding.pe.pe"] = interleaved()[:, None]
    generator = {kind: tensors[f"generator.{kind}"] for kind in ("weight", "bias")}
    vocab: Any = {**tokens, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    state = {
        "model": model, "generator": generator, "vocab": vocab, "opt": argparse.Namespace(**opt), "optim": {},
    }  # fmt: skip
    torch.save(state, folder / "model_step_1000.pt")
    return tensors


VARIANTS: dict[str, dict[str, Any]] = {
    "without biases": {},
    "with biases": {"add_qkvbias": True, "pos_ffn_activation_fn": "gelu", "norm_eps": 1e-3},
    "one vocabulary": {"shared": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_computes_what_opennmt_computes(tmp_path: Path, name: str) -> None:
    settings = VARIANTS[name]
    tensors = write_onmt(tmp_path / "there", **settings)
    there = OpenNMT(
        tensors, eps=settings.get("norm_eps", 1e-6), positions=interleaved,
        activation=settings.get("pos_ffn_activation_fn", "relu"),
    )  # fmt: skip
    ties = "all" if settings.get("shared") else "none"
    check_import(
        tmp_path / "there", read, there.logits, source_end=False, output_bias=True, positions="sinusoidal",
        tie_embeddings=ties,
    )  # fmt: skip


def test_a_suffix_ends_sources_and_other_transforms_are_told(tmp_path: Path) -> None:
    spm = train_sentencepiece([*SENTENCES] * 9, vocab_size=60)
    tensors = write_onmt(
        tmp_path / "there", transforms=["sentencepiece", "suffix", "prefix"], src_suffix="</s>",
        src_prefix="<2de>", src_subword_model="/elsewhere/en.spm.model",
    )  # fmt: skip
    (tmp_path / "there" / "en.spm.model").write_bytes(spm)
    there = OpenNMT(tensors, eps=1e-6, activation="relu", positions=interleaved)
    foreign = check_import(tmp_path / "there", read, there.logits)
    assert foreign.src_segmentation == foreign.tgt_segmentation == Segmentation(spm)
    (note,) = foreign.notes
    assert note == "every source began with '<2de>' (transform prefix): write it in front yourself"


def write_eole(
    folder: Path, *, shared: bool = False, scalar: float = 1.0, **changed: Any
) -> dict[str, Tensor]:
    """A model folder as eole writes it, shared weights left out: the tensors of the model.

    `scalar` is by what eole 0.6 multiplies the output of the decoder's layer.
    """
    folder.mkdir(parents=True)
    tokens = vocabularies(shared)
    biases = {"attention_bias": "add_qkvbias" in changed, "mlp_bias": "add_ffnbias" in changed}
    tensors = random_tensors(Eole.shapes((len(tokens["src"]), len(tokens["tgt"])), (2, 1), **biases))
    saved = tensors | {"decoder.transformer_layers.0.layer_scalar": torch.tensor([scalar])}
    torch.save({"state": {}}, folder / "optimizer.pt")
    if shared:
        tensors["tgt_emb.embeddings.weight"] = tensors["src_emb.embeddings.weight"]
        tensors["generator.weight"] = tensors["src_emb.embeddings.weight"]
        del saved["tgt_emb.embeddings.weight"], saved["generator.weight"]
    save_file({name: tensor.contiguous() for name, tensor in saved.items()}, folder / "model.00.safetensors")
    embeddings = {"word_vec_size": D, **changed.pop("embeddings", {})}
    more = {key: changed.pop(key) for key in ("transforms", "transforms_configs") if key in changed}
    model = {
        "architecture": "transformer", "hidden_size": D, "heads": 2, "transformer_ff": F, "norm_eps": 1e-5,
        "embeddings": embeddings, "encoder": {"encoder_type": "transformer", "layers": 2},
        "decoder": {"decoder_type": "transformer", "layers": 1},
        "share_embeddings": shared, "share_decoder_embeddings": shared, **changed,
    }  # fmt: skip
    config = {
        "model": model, "share_vocab": shared, "src_vocab": "vocab.txt", "data": {}, "training": {}, **more,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    names = {"bos_token": "<s>", "pad_token": "<blank>", "eos_token": "</s>", "unk_token": "<unk>"}
    vocab = {**tokens, "decoder_start_token": "<s>", "specials": names}
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    return tensors


EOLE_VARIANTS: dict[str, dict[str, Any]] = {
    "without biases": {},
    "with biases": dict.fromkeys(("add_qkvbias", "add_final_linear_bias", "add_ffnbias"), True)
    | {"mlp_activation_fn": "gelu"},
    "one vocabulary": {"shared": True, "mlp_activation_fn": "silu"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EOLE_VARIANTS)
def test_a_run_computes_what_eole_computes(tmp_path: Path, name: str) -> None:
    settings = EOLE_VARIANTS[name]
    tensors = write_eole(tmp_path / "there", **settings)
    activation = settings.get("mlp_activation_fn", "relu").replace("silu", "swish")
    there = Eole(tensors, eps=1e-5, activation=activation, positions=interleaved)
    ties = "all" if settings.get("shared") else "none"
    foreign = check_import(
        tmp_path / "there", read_eole, there.logits, source_end=False, positions="sinusoidal",
        tie_embeddings=ties,
    )  # fmt: skip
    assert foreign.src_segmentation == Segmentation()


def test_eoles_transforms_name_what_cuts_the_text(tmp_path: Path) -> None:
    configs = {"bpe": {"src_subword_model": "${MODEL_PATH}/en.codes"}, "suffix": {"src_suffix": "</s>"}}
    write_eole(tmp_path / "there", transforms=["bpe", "suffix", "onmt_tokenize"], transforms_configs=configs)
    (tmp_path / "there" / "en.codes").write_text("#version: 0.2\nt h\nth e</w>\n", encoding="utf-8")
    foreign = read_eole(ForeignFolder(tmp_path / "there"), HERE)
    assert foreign.src_segmentation == Segmentation(codes="#version: 0.2\nt h\nth e</w>\n")
    assert foreign.model.source_end
    assert foreign.notes == ("text was cut by OpenNMT's Tokenizer (transform onmt_tokenize): give it so",)


def test_a_scaled_layer_of_eole_is_refused(tmp_path: Path) -> None:
    write_eole(tmp_path / "there", scalar=0.5)
    message = error_of("import", tmp_path / "there", "--out", tmp_path / "run", *LANGUAGES)
    assert "layer_scalar is 0.5: a layer whose output is scaled" in message


@pytest.mark.slow
def test_vocabularies_that_are_damaged_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    write_onmt(folder)
    path = folder / "model_step_1000.pt"
    state = torch.load(path, weights_only=False)

    def refused(change: dict[str, Any]) -> str:
        torch.save(state | change, path)
        return error_of("import", folder, "--out", tmp_path / "run", *LANGUAGES)

    vocab = state["vocab"]
    for change, said in (
        ({"vocab": None}, "holds no vocab and generator; give a checkpoint of OpenNMT-py 3"),
        ({"vocab": {"src": ["a", 3], "tgt": []}}, "where a list of texts belongs"),
        ({"vocab": {"src": ["<unk>", "<s>"], "tgt": ["<unk>"]}}, "has no </s> among its tokens"),
        ({"vocab": vocab | {"src_feats": [["a"]]}}, "has features of words"),
        ({"generator": {3: "x"}}, "generator.3 is no tensor"),
    ):
        assert said in refused(change)


@pytest.mark.slow
def test_a_model_without_source_ends_is_fine_tuned_and_converted(tmp_path: Path) -> None:
    write_onmt(tmp_path / "there", shared=True)
    run = import_model(tmp_path / "there", tmp_path / "run", options=HERE).path
    for runtime in ("ctranslate2", "onnx"):
        options = ("--to", runtime, "--out", tmp_path / runtime, "--sentences", 5)
        result = succeed("export", run, *options)
        assert "same, greedy                              100.0%" in result.stdout
        assert "the model reads no end token of a source" in result.stderr
    message = error_of("export", run, "--to", "huggingface", "--out", tmp_path / "huggingface")
    assert "model.norm_eps = 1e-06: the models of transformers that are like it have 1e-05" in message
    (tmp_path / "train.tsv").write_text("the red cat\tdog house\nold tree\tblue dog\n" * 20, encoding="utf-8")
    settings = ("max_steps=3", "valid_every=3", "batch_tokens=60", "warmup_steps=1")
    succeed(
        "train", "--tsv", tmp_path / "train.tsv", "--valid-tsv", tmp_path / "train.tsv",
        "--from", run, "--out", tmp_path / "tuned",
        *(f"--set=training.{setting}" for setting in settings),
    )  # fmt: skip
    tuned = Run.open(tmp_path / "tuned")
    assert tuned.config.model.source_end is False  # type: ignore[union-attr]
    assert succeed("translate", tuned.path, "-", stdin="the red cat\n").stdout.count("\n") == 1


def test_of_several_steps_the_last_is_taken(tmp_path: Path) -> None:
    write_onmt(tmp_path / "there")
    last = tmp_path / "there" / "model_step_1000.pt"
    (tmp_path / "there" / "model_step_900.pt").write_bytes(b"not read")
    run = import_model(tmp_path / "there", tmp_path / "run", options=HERE)
    assert set(Run.open(run.path).read_json("report.json")["imported"]["files"]) == {last.name}
