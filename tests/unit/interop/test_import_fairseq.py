"""Models of fairseq, in files as it writes them, against a reimplementation of its Transformer."""

import argparse
import math
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from commands import error_of, succeed
from dragoman.interop.fairseq import read
from dragoman.interop.foreign import ForeignFolder, ImportOptions
from dragoman.interop.importing import import_model
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.foreign import Segmentation
from foreign_checkpoints import F_WIDTH as F
from foreign_checkpoints import TARGET_WORDS, WORDS, D, Reference, check_import, random_tensors
from foreign_models import SENTENCES, sentencepieces, train_sentencepiece

PAD = 1
ARGS: dict[str, Any] = {
    "arch": "transformer_iwslt_de_en", "task": "translation", "source_lang": "en", "target_lang": "de",
    "encoder_embed_dim": D, "decoder_embed_dim": D, "encoder_ffn_embed_dim": F, "decoder_ffn_embed_dim": F,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 2, "decoder_layers": 1,
    "encoder_normalize_before": False, "decoder_normalize_before": False, "encoder_learned_pos": False,
    "decoder_learned_pos": False, "share_decoder_input_output_embed": True, "share_all_embeddings": False,
    "activation_fn": "relu", "max_source_positions": 40, "max_target_positions": 30, "dropout": 0.3,
    "attention_dropout": 0.1, "relu_dropout": 0.2, "no_token_positional_embeddings": False,
    "adaptive_softmax_cutoff": None, "layernorm_embedding": False, "cross_self_attention": False, "beam": 4,
}  # fmt: skip
PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {**PRE, "activation_fn": "gelu", "share_decoder_input_output_embed": False},
    "learned positions": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "no_scale_embedding": True,
    },
    "positions of one side": {"encoder_learned_pos": True},
    "no positions": {"no_token_positional_embeddings": True},
    "everything tied": {**PRE, "share_all_embeddings": True},
}


class Fairseq(Reference):
    tokens: ClassVar = {side: f"{side}.embed_tokens" for side in ("encoder", "decoder")}
    layers: ClassVar = {side: f"{side}.layers" for side in ("encoder", "decoder")}
    norms: ClassVar = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    attention: ClassVar = {"encoder": ("self_attn",), "decoder": ("self_attn", "encoder_attn")}
    output, wide, narrow = "decoder.output_projection", "fc1", "fc2"
    qkv, mix = ("q_proj", "k_proj", "v_proj"), "out_proj"


def write(folder: Path, **changed: Any) -> tuple[Path, dict[str, Any], dict[str, Tensor]]:
    """A model as `save_state` writes it: the folder, its arguments, and its tensors."""
    args = {**ARGS, **changed}
    folder.mkdir(parents=True)
    words = {"en": WORDS, "de": WORDS if args["share_all_embeddings"] else TARGET_WORDS}
    for lang, pieces in words.items():
        lines = "".join(f"{piece} {100 - i}\n" for i, piece in enumerate(pieces))
        (folder / f"dict.{lang}.txt").write_text(lines, encoding="utf-8")
    shapes = Fairseq.shapes(
        [4 + len(pieces) for pieces in words.values()], [args["encoder_layers"], args["decoder_layers"]],
        last=args["encoder_normalize_before"], output_bias=False,
    )  # fmt: skip
    for side, kind in (("encoder", "source"), ("decoder", "target")):
        learned, rows = args[f"{side}_learned_pos"], args[f"max_{kind}_positions"] + PAD + 1
        table = f"{side}.embed_positions.{'weight' if learned else '_float_tensor'}"
        shapes |= {table: (rows, D) if learned else (1,), f"{side}.version": (1,)}
    for i in range(args["encoder_layers"]):  # 0.12.2 writes these as well, and reads none of them
        copies = {"in_proj": (3 * D, D), "out_proj": (D, D), "fc1": (F, D), "fc2": (D, F)}
        for part, shape in copies.items():
            at = f"encoder.layers.{i}.{part}"
            shapes |= {f"{at}_weight": shape, f"{at}_bias": shape[:1]}
    tensors = random_tensors(shapes)
    tensors |= {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    if args["share_all_embeddings"]:
        tensors["decoder.embed_tokens.weight"] = tensors["encoder.embed_tokens.weight"]
    if args["share_all_embeddings"] or args["share_decoder_input_output_embed"]:
        tensors["decoder.output_projection.weight"] = tensors["decoder.embed_tokens.weight"]
    state = {
        "args": argparse.Namespace(**args), "model": tensors,
        "optimizer_history": [{"num_updates": 3}], "extra_state": {"val_loss": 2.5},
        "last_optimizer_state": None,
    }  # fmt: skip
    torch.save(state, folder / "checkpoint_best.pt")
    return folder, args, tensors


def fairseq_positions(args: dict[str, Any], tensors: dict[str, Tensor], side: str, length: int) -> Tensor:
    """Positions count from padding_idx + 1: sines of all rates 10000^(-i / (D/2 - 1)), then cosines."""
    if args["no_token_positional_embeddings"]:
        return torch.zeros(length, D)
    if args[f"{side}_learned_pos"]:
        return tensors[f"{side}.embed_positions.weight"][PAD + 1 : PAD + 1 + length]
    table = torch.empty(length, D)
    for t in range(length):
        for i in range(D // 2):
            angle = (PAD + 1 + t) / 10000 ** (i / (D // 2 - 1))
            table[t, i], table[t, D // 2 + i] = math.sin(angle), math.cos(angle)
    return table


def fairseq(args: dict[str, Any], tensors: dict[str, Tensor]) -> Fairseq:
    """`TransformerModel`, from its arguments and tensors."""
    return Fairseq(
        tensors,
        positions=lambda side, length: fairseq_positions(args, tensors, side, length),
        pre=args["encoder_normalize_before"],
        activation=args["activation_fn"],
        scale=1.0 if args.get("no_scale_embedding") else math.sqrt(D),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_computes_what_fairseq_computes(tmp_path: Path, name: str) -> None:
    folder, args, tensors = write(tmp_path / "there", **VARIANTS[name])
    ties = {"pre-norm": "none", "everything tied": "all"}.get(name, "output")
    foreign = check_import(
        folder, read, fairseq(args, tensors).logits, max_positions=30, tie_embeddings=ties, dropout=0.3,
        attention_dropout=0.1, activation_dropout=0.2,
        positions={"learned positions": "learned"}.get(name, "stored"),
    )  # fmt: skip
    assert foreign.search.beam_size == 4
    assert succeed("translate", tmp_path / "run", "-", stdin="the red cat\n").stdout.count("\n") == 1


@pytest.mark.parametrize("how", ["nested", "omegaconf"])
def test_newer_settings_say_the_same(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, args, tensors = write(tmp_path / "there", **PRE)
    path = folder / "checkpoint_best.pt"
    state = torch.load(path, weights_only=False)
    task = {
        "_name": "translation", "source_lang": args.pop("source_lang"),
        "target_lang": args.pop("target_lang"),
    }  # fmt: skip
    model: Any = argparse.Namespace(**args)
    if how == "nested":
        sides: dict[str, dict[str, Any]] = {"encoder": {}, "decoder": {}}
        for key, value in args.items():
            side, _, name = key.partition("_")
            if side in sides:
                sides[side][name] = value
        flat = {k: v for k, v in args.items() if not k.startswith(("encoder_", "decoder_", "arch"))}
        model = {"_name": "transformer", **flat, **sides}
    cfg: Any = {"_name": None, "task": task, "model": model, "bpe": None, "tokenizer": {"_name": "moses"}}
    if how == "omegaconf":
        module = types.ModuleType("omegaconf.dictconfig")

        class DictConfig:
            def __init__(self, content: Any) -> None:
                self._content = content

        DictConfig.__module__, DictConfig.__qualname__ = "omegaconf.dictconfig", "DictConfig"
        module.DictConfig = DictConfig  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "omegaconf", types.ModuleType("omegaconf"))
        monkeypatch.setitem(sys.modules, "omegaconf.dictconfig", module)
        cfg = DictConfig({**cfg, "task": DictConfig(task)})
    torch.save(state | {"args": None, "cfg": cfg}, path)
    foreign = check_import(folder, read, fairseq(args, tensors).logits, norm="pre")
    assert any("Moses" in note for note in foreign.notes)
    foreign = read(ForeignFolder(folder), ImportOptions())
    assert (foreign.src_lang, foreign.tgt_lang) == ("en", "de")


def test_text_is_cut_by_what_lies_beside_the_checkpoint(tmp_path: Path) -> None:
    model = train_sentencepiece([*SENTENCES] * 9, vocab_size=60)
    pieces = sentencepieces(model)
    folder, _, _ = write(tmp_path / "there")
    foreign = read(ForeignFolder(folder), ImportOptions())
    assert (foreign.src_segmentation, foreign.tgt_segmentation) == (Segmentation(), Segmentation())
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    assert read(ForeignFolder(folder), ImportOptions()).src_segmentation == Segmentation(model)
    (folder / "sentencepiece.bpe.model").unlink()
    (folder / "bpecodes").write_text("t h 9\nth e</w> 8\nc a 7\nca t</w> 6\n", encoding="utf-8")
    run = import_model(folder, tmp_path / "run")  # fastBPE's codes, with counts
    tokens = Translator.load(run.path).tokenizers.src.tokens("the cat cab")
    assert [(token.start, token.end) for token in tokens] == [(0, 3), (3, 7), (7, 10), (10, 11)]
    (folder / "bpecodes").unlink()
    (folder / "dict.en.txt").write_text("".join(f"{piece} 1\n" for piece in pieces[: len(WORDS)]), "utf-8")
    imported = import_model(folder, tmp_path / "cut").read_json("report.json")["imported"]
    (note,) = [note for note in imported["notes"] if note.startswith("en")]
    assert "its sentencepiece model is not in the folder" in note


def test_languages_without_a_dictionary_are_refused(tmp_path: Path) -> None:
    for lang, said in (("fr", "holds no dict.fr.txt; is the folder complete?"), (None, "add --tgt-lang")):
        folder, _, _ = write(tmp_path / f"to-{lang}", target_lang=lang)
        assert said in error_of("import", folder, "--out", tmp_path / "run")


@pytest.mark.slow
def test_gaps_and_dictionaries_of_another_model_are_named(tmp_path: Path) -> None:
    folder, _, tensors = write(tmp_path / "there")
    path = folder / "checkpoint_best.pt"
    whole, state = path.read_bytes(), torch.load(path, weights_only=False)

    def refused(content: Any = None) -> str:
        if content is not None:
            torch.save(content, path)
        return error_of("import", folder, "--out", tmp_path / "run")

    assert "holds no weights where a model has them" in refused({"args": state["args"], "model": [1]})
    gap = {name.replace("layers.1.", "layers.7."): tensor for name, tensor in tensors.items()}
    assert "layers of its encoder are missing" in refused(state | {"model": gap})
    path.write_bytes(whole)
    (folder / "dict.de.txt").write_text("die 9\nrote neun\n", encoding="utf-8")
    assert "dict.de.txt, line 2: is not a token and its count" in refused()


def test_several_checkpoints_are_told_apart_by_name(tmp_path: Path) -> None:
    folder, _, _ = write(tmp_path / "there")
    best = folder / "checkpoint_best.pt"
    for name in ("checkpoint1.pt", "checkpoint2.pt"):
        (folder / name).write_bytes(best.read_bytes())
    best.unlink()
    message = error_of("import", folder, "--out", tmp_path / "run")
    assert "holds checkpoint1.pt, checkpoint2.pt; name the checkpoint itself" in message
    run = import_model(folder / "checkpoint2.pt", tmp_path / "run")
    assert "checkpoint2.pt" in Run.open(run.path).read_json("report.json")["imported"]["files"]
