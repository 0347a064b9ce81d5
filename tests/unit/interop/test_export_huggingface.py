"""Exports that transformers loads."""

import warnings
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError, RunError
from dragoman.interop.exporting import export_run
from dragoman.interop.importing import import_model
from dragoman.interop.pipeline import pipeline
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair
from exports import untrained_run
from foreign_models import SENTENCES, write_marian

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")

LINES = ["red cat", "a\u0301 </s> <s> <0x41> tgt:Haus", "  big\u3000old   house\u2581 ", "3.5 🙂"]
MODELS: dict[str, dict[str, Any]] = {
    "the paper": {"norm": "post"},
    "Marian": {"norm": "post", "activation": "swish", "output_bias": True},
    "three matrices": {"tie_embeddings": "none", "activation": "gelu", "scale_embeddings": False},
    "three matrices, post": {"norm": "post", "tie_embeddings": "none", "output_bias": True},
    "two matrices, post": {"norm": "post", "tie_embeddings": "output"},
    "learned positions": {"positions": "learned", "output_bias": True, "n_decoder_layers": 2},
    "no end of a source": {"source_end": False, "output_bias": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_what_the_run_computes(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    run = untrained_run(tmp_path / "r", model=model)
    report = export_run(run, tmp_path / "out", to="huggingface", n_sentences=8)
    assert report.parity.same == {"greedy": 1.0}
    assert 0 < report.parity.largest["nats a token"] < 1e-4
    check_loading(tmp_path / "out", "pegasus" if model.get("norm", "pre") == "pre" else "marian")
    end = [2] * model.get("source_end", True)
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert reader("red cat").input_ids == [*TokenizerPair.load(run / "tokenizer").src.encode("red cat"), *end]


TWO: dict[str, Any] = {"shared": False, "kind": "unigram"}
TOKENIZERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two vocabularies": (TWO, {"tie_embeddings": "none"}),
    "two vocabularies, post": (TWO, {"tie_embeddings": "output", "norm": "post", "output_bias": True}),
    "words and characters": ({**TWO, "kind": "words", "tgt_kind": "characters", "vocab_size": 60},
                             {"tie_embeddings": "output"}),
    "lower case": ({"lowercase": True, "dropout": 0.1}, {}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizers_read_and_write_as_ours_do(name: str, tmp_path: Path) -> None:
    tokenizer, model = TOKENIZERS[name]
    shared = tokenizer.get("shared", True)
    run = untrained_run(tmp_path / "r", model=model, **tokenizer)
    report = export_run(run, tmp_path / "out", to="huggingface", n_sentences=5)
    assert report.parity.same["greedy"] == 1.0
    check_loading(tmp_path / "out", "marian" if model.get("norm") == "post" else "pegasus")
    ours = TokenizerPair.load(run / "tokenizer")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    first = 0 if shared else ours.src.vocab_size
    for text in LINES:
        assert theirs(text).input_ids == [*ours.src.encode(text), 2]
        ids = [i for i in ours.tgt.encode(text) if i > 3]
        written = [first + i for i in (1, *ids, 2)] + [0, 0]
        assert theirs.decode(written, skip_special_tokens=True) == ours.tgt.decode(ids)


def check_loading(folder: Path, architecture: str, more: Set[str] = frozenset()) -> None:
    """Nothing is missing, nothing is left over, nothing is code."""
    loaded, information = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert loaded.config.model_type == architecture
    assert not any(information.values()), information
    files = [path.suffix for path in folder.rglob("*") if path.is_file()]
    assert set(files) == {".json", ".safetensors", ".md", ".py", *more}
    assert "auto_map" not in (folder / "config.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_generate_works_as_it_comes(tiny_run: Path, tmp_path: Path) -> None:
    export_run(tiny_run, tmp_path / "out", to="huggingface", n_sentences=3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    search = Run.open(tiny_run).config.search  # type: ignore[union-attr]
    assert model.generation_config.num_beams == search.beam_size == 3
    assert model.generation_config.length_penalty == pytest.approx(0.8 * search.length_penalty)
    batch = tokenizer(["red cat", "big old house"], return_tensors="pt", padding=True)
    assert set(batch) == {"input_ids", "attention_mask"}
    ours = pipeline("translation", model=str(tiny_run), device=-1)
    for limit in ({"max_new_tokens": 4}, {"max_length": 4}):
        theirs = model.generate(**batch, num_beams=1, length_penalty=None, **limit)
        written = tokenizer.batch_decode(theirs, skip_special_tokens=True)
        answers = ours(["red cat", "big old house"], num_beams=1, **limit)
        assert written == [answer["translation_text"] for answer in answers]


@pytest.mark.slow
def test_an_imported_marian_goes_out_as_the_same(tmp_path: Path) -> None:
    model = write_marian(tmp_path / "opus")
    run = import_model(model, tmp_path / "run")
    report = export_run(run.path, tmp_path / "out", to="huggingface", n_sentences=10)
    assert report.parity.same == {"greedy": 1.0}
    check_loading(tmp_path / "out", "marian", {".spm"})
    tokenizers = TokenizerPair.load(run.tokenizer_folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(theirs).__name__ == "MarianTokenizer"
    for text in SENTENCES:
        assert theirs(text).input_ids == [*tokenizers.src.encode(text), 2]


@pytest.mark.slow
def test_an_imported_model_of_two_vocabularies_is_refused_by_its_tokenizers(tmp_path: Path) -> None:
    model = write_marian(tmp_path / "opus", share_encoder_decoder_embeddings=False)
    run = import_model(model, tmp_path / "run")
    with pytest.raises(ConfigError, match="two vocabularies of sentencepiece are beyond what transformers"):
        export_run(run.path, tmp_path / "out", to="huggingface")
    report = export_run(run.path, tmp_path / "onnx", to="onnx", n_sentences=5)
    assert set(report.parity.same.values()) == {1.0}
    (note,) = report.notes
    assert "the sentencepiece model that came with an imported model" in note


def test_positions_that_marian_would_forget_are_refused(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "r", model={"norm": "post", "positions": "learned"})
    with pytest.raises(ConfigError, match="keeps no table; export to ctranslate2 or onnx"):
        export_run(run, tmp_path / "out", to="huggingface")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_another_epsilon_of_the_norms_is_refused_and_goes_to_the_others(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "r", model={"norm_eps": 0.1})
    with pytest.raises(ConfigError, match=r"model.norm_eps = 0.1: the models of transformers .* have 1e-05"):
        export_run(run, tmp_path / "out", to="huggingface")
    for to in ("onnx", "ctranslate2"):
        report = export_run(run, tmp_path / to, to=to, n_sentences=5)
        assert report.parity.same["greedy"] == 1.0


@pytest.mark.slow
def test_a_tokenizer_that_reads_otherwise_is_an_error(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.interop.portable.META_SPACE", "e")  # "e" is written as an underscore
    with pytest.raises(RunError, match=r"AutoTokenizer: '.*' becomes other tokens than in the run; nothing"):
        export_run(tiny_run, tmp_path / "out", to="huggingface", n_sentences=20)
    assert list(tmp_path.iterdir()) == []
