"""The other toolkits themselves compute what the run computes that their model became.

Their requirements do not go with a present PyTorch, but their models do. So they are installed by
themselves, where they stand in nobody's way, and the tests are skipped where they are not:

    pip install --no-deps --target peers eole==0.6.4 pyonmttok torch-optimi OpenNMT-py==3.5.1 configargparse sockeye==3.1.34
    PYTHONPATH=peers python -m pytest tests/references/test_foreign_toolkits.py
"""  # noqa: E501

import importlib
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor

from dragoman.interop import opennmt, sockeye
from dragoman.interop.foreign import ForeignFolder
from dragoman.interop.importing import import_model
from foreign_checkpoints import Pair

sys.path.append(str(Path(__file__).parents[1] / "unit" / "interop"))

import test_import_opennmt as opennmt_files
import test_import_sockeye as sockeye_files

pytestmark = pytest.mark.filterwarnings("ignore")
HERE = opennmt_files.HERE


@pytest.mark.parametrize("name", sockeye_files.VARIANTS)
def test_sockeye_itself_computes_the_same(tmp_path: Path, name: str) -> None:
    pytest.importorskip("sockeye")
    model, transformer, encoder, data_io = (
        importlib.import_module(f"sockeye.{part}") for part in ("model", "transformer", "encoder", "data_io")
    )
    ties = {"everything tied": "all", "post-norm": "none"}.get(name, "softmax")
    folder, side, _ = sockeye_files.write(tmp_path / "there", ties=ties, **sockeye_files.VARIANTS[name])
    n_src, n_tgt = (len(json.loads((folder / f"vocab.{s}.0.json").read_text())) for s in ("src", "trg"))
    lengths = {"max_seq_len_source": 21, "max_seq_len_target": 19}
    config = model.ModelConfig(
        config_data=data_io.DataConfig(
            data_statistics=None, num_source_factors=1, num_target_factors=1, **lengths
        ),
        vocab_source_size=n_src,
        vocab_target_size=n_tgt,
        config_embed_source=encoder.EmbeddingConfig(vocab_size=n_src, num_embed=8, dropout=0.0),
        config_embed_target=encoder.EmbeddingConfig(vocab_size=n_tgt, num_embed=8, dropout=0.0),
        config_encoder=transformer.TransformerConfig(**side),
        config_decoder=transformer.TransformerConfig(**side),
        weight_tying_type={"all": "src_trg_softmax", "none": "none", "softmax": "trg_softmax"}[ties],
    )
    built = model.SockeyeModel(config)
    built.load_parameters(str(folder / "params.best"), device=torch.device("cpu"))
    built.save_parameters(str(folder / "params.best"))  # as Sockeye itself writes them
    built.save_config(str(folder))
    built.eval()

    @torch.no_grad()
    def logits(src: Tensor, tgt_in: Tensor) -> Tensor:
        ends = torch.tensor([[len(src), 0]]), torch.tensor([len(tgt_in)])
        return built(src[None, :, None], ends[0], tgt_in[None, :, None], ends[1])["logits"][0]

    run = import_model(folder, tmp_path / "run", options=HERE)
    Pair(sockeye.read(ForeignFolder(folder), HERE)).check(run.path, logits)


@pytest.mark.parametrize("name", opennmt_files.VARIANTS)
def test_opennmt_itself_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for package in ("ahocorasick", "fasttext", "rapidfuzz", "flask", "waitress"):  # for other ends
        monkeypatch.setitem(sys.modules, package, sys.modules.get(package) or MagicMock())
    pytest.importorskip("onmt")
    encoders, decoders, modules, models = (
        importlib.import_module(f"onmt.{part}")
        for part in ("encoders.transformer", "decoders.transformer", "modules", "models")
    )
    folder, settings = tmp_path / "there", opennmt_files.VARIANTS[name]
    opennmt_files.write_onmt(folder, **settings)
    state = torch.load(folder / "model_step_1000.pt", weights_only=False)
    opt, vocab = state["opt"], state["vocab"]
    vars(opt).update(
        attention_dropout=[0.0], relative_positions_buckets=0, add_ffnbias=True, use_ckpting=[], world_size=1,
        parallel_mode="data_parallel", rotary_interleave=True, rotary_theta=1e4, global_attention="general",
        aan_useffn=False, full_context_alignment=False, alignment_layer=-3, alignment_heads=0,
        sliding_window=0, shared_layer_norm=False, num_experts=0, num_experts_per_tok=2, rotary_dim=0,
    )  # fmt: skip

    def embeddings(side: str) -> Any:
        return modules.Embeddings(
            word_vec_size=8, position_encoding=True, position_encoding_type=opt.position_encoding_type,
            word_padding_idx=1, word_vocab_size=len(vocab[side]), dropout=0.0,
        )  # fmt: skip

    built = models.NMTModel(
        encoders.TransformerEncoder.from_opt(opt, embeddings("src")),
        decoders.TransformerDecoder.from_opt(opt, embeddings("tgt")),
    )
    built.generator = torch.nn.Linear(8, len(vocab["tgt"]))
    generator = {f"generator.{kind}": tensor for kind, tensor in state["generator"].items()}
    weights = {key: value for key, value in state["model"].items() if not key.endswith(".pe.pe")}
    torch.nn.Module.load_state_dict(built, weights | generator, strict=False)
    built.eval()

    @torch.no_grad()
    def logits(src: Tensor, tgt_in: Tensor) -> Tensor:
        length = torch.tensor([len(src)])
        memory, _, _ = built.encoder(src[None, :, None], length)
        built.decoder.init_state(src[None, :, None], memory, None)
        return built.generator(built.decoder(tgt_in[None, :, None], memory, src_len=length)[0])[0]

    run = import_model(folder, tmp_path / "run", options=HERE)
    Pair(opennmt.read(ForeignFolder(folder), HERE), source_end=False).check(run.path, logits)


@pytest.mark.parametrize("name", opennmt_files.EOLE_VARIANTS)
def test_eole_itself_computes_the_same(tmp_path: Path, name: str) -> None:
    pytest.importorskip("eole")
    models = importlib.import_module("eole.models.model")
    config = importlib.import_module("eole.config.run")
    folder, settings = tmp_path / "there", opennmt_files.EOLE_VARIANTS[name]
    opennmt_files.write_eole(folder, **settings)
    predicting = config.PredictConfig(
        model_path=str(folder), src="nothing", gpu_ranks=[], world_size=0, compute_dtype="fp32"
    )
    kind = models.get_model_class(predicting.model)
    built, _, _ = kind.for_inference(predicting, model_path=str(folder))
    built.float().eval()

    @torch.no_grad()
    def logits(src: Tensor, tgt_in: Tensor) -> Tensor:
        padding = torch.zeros(1, 1, len(src), dtype=torch.bool)
        memory, _ = built.encoder(built.src_emb(src[None]), pad_mask=padding)
        nothing = torch.zeros(1, 1, len(tgt_in), dtype=torch.bool)
        decoded = built.decoder(
            built.tgt_emb(tgt_in[None]), enc_out=memory, src_pad_mask=padding, tgt_pad_mask=nothing
        )
        return built.generator(decoded[0])[0]

    run = import_model(folder, tmp_path / "run", options=HERE)
    Pair(opennmt.read_eole(ForeignFolder(folder), HERE), source_end=False).check(run.path, logits)
