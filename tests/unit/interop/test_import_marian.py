"""Marian's models in Hugging Face's folders: the run computes, cuts and searches as transformers does."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from commands import succeed
from dragoman.interop.foreign import ForeignFolder, ImportOptions
from dragoman.interop.importing import import_model, our_rows
from dragoman.interop.marian import read
from dragoman.model.layers import sinusoids
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tensors import load_tensors
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from foreign_models import SENTENCES, write_marian
from tiny import TRAINING, write_corpus

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:Recommended. pip install sacremoses"
)
pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

TWO_VOCABULARIES = {"share_encoder_decoder_embeddings": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "one vocabulary, all tied": {},
    "two vocabularies": {**TWO_VOCABULARIES, "activation_function": "relu"},
    "nothing tied": {**TWO_VOCABULARIES, "tie_word_embeddings": False, "scale_embedding": False},
    "an output of its own": {"tie_word_embeddings": False, "activation_function": "gelu"},
    "a table of both languages": {"tie_word_embeddings": False, "d_model": 8},
    "an old folder": {"activation_function": "silu"},
}


class Pair:
    """A model in Hugging Face's folder, and the run that it became."""

    def __init__(self, folder: Path, name: str) -> None:
        from transformers import MarianMTModel, MarianTokenizer

        self.folder = write_marian(folder / "there", **VARIANTS[name])
        if name == "a table of both languages":
            keep_once(self.folder)
        if name == "an old folder":
            make_old(self.folder)
        self.run = import_model(self.folder, folder / "run")
        self.theirs = MarianMTModel.from_pretrained(self.folder).eval()
        if name == "a table of both languages":  # transformers 5 would draw what is not there
            for side in (self.theirs.model.encoder, self.theirs.model.decoder):
                side.embed_tokens.weight = self.theirs.model.shared.weight
        self.their_tokenizer = MarianTokenizer.from_pretrained(self.folder)
        self.translator = Translator.load(self.run.path, device="cpu", precision="fp32")
        found = read(ForeignFolder(self.folder), ImportOptions())
        self.src_rows, self.tgt_rows = our_rows(found.src), our_rows(found.tgt)

    def theirs_of(self, ids: Tensor, rows: list[int | None]) -> Tensor:
        """Our ids as theirs, padding by their padding."""
        pad = self.theirs.config.pad_token_id
        return torch.tensor([[pad if i == PAD_ID else rows[i] for i in line] for line in ids.tolist()])


def keep_once(folder: Path) -> None:
    """Leaves the embeddings of both languages in the weights once, as transformers 4 wrote them."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for side in ("encoder", "decoder"):
        del weights[f"model.{side}.embed_tokens.weight"]
    save_file(weights, path, metadata={"format": "pt"})


def make_old(folder: Path) -> None:
    """The same as old versions wrote it: by torch.save, tied weights by all names, search in config.json."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        weights[f"{name}.weight"] = weights["model.shared.weight"]
    halves = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = sinusoids(64, 16)[:, halves]
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "generation_config.json").unlink()
    settings = json.loads((folder / "config.json").read_bytes())
    for name in ("tie_word_embeddings", "share_encoder_decoder_embeddings", "decoder_vocab_size"):
        del settings[name]
    settings |= {"static_position_embeddings": True, "normalize_before": False, "add_bias_logits": False}
    settings |= {"num_beams": 6, "max_length": 512, "bad_words_ids": [[settings["pad_token_id"]]]}
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    return {name: Pair(tmp_path_factory.mktemp("marian"), name) for name in VARIANTS}


@pytest.fixture(params=VARIANTS)
def pair(request: pytest.FixtureRequest, pairs: dict[str, Pair]) -> Pair:
    return pairs[request.param]


@pytest.fixture
def opus(pairs: dict[str, Pair]) -> Pair:
    return pairs["one vocabulary, all tied"]


@pytest.mark.slow
def test_logits_are_those_of_transformers(pair: Pair) -> None:
    torch.manual_seed(0)
    src = torch.randint(4, len(pair.src_rows), (3, 9))
    src[0, 6:] = PAD_ID
    tgt = torch.randint(4, len(pair.tgt_rows), (3, 7))
    tgt[:, 0] = BOS_ID
    with torch.inference_mode():
        ours = pair.translator.model(src, src != PAD_ID, tgt)
        theirs = pair.theirs(
            input_ids=pair.theirs_of(src, pair.src_rows),
            attention_mask=(src != PAD_ID).long(),
            decoder_input_ids=pair.theirs_of(tgt, pair.tgt_rows),
        ).logits
    there = [i for i, row in enumerate(pair.tgt_rows) if row is not None]
    expected = theirs[..., [pair.tgt_rows[i] for i in there]]
    assert expected.std() > 0.5, "logits tell tokens apart"
    torch.testing.assert_close(ours[..., there], expected, atol=1e-4, rtol=0)
    assert theirs.shape[-1] == len(there), "every token of theirs is one of ours"


@pytest.mark.slow
def test_text_is_cut_and_joined_as_by_their_tokenizer(pair: Pair) -> None:
    texts = [*SENTENCES, "a ½ ﬁne cat", "Δ red 猫", "green\u00a0house", "Rot - blau?"]
    for text in texts:
        ids = pair.translator.tokenizers.src.encode(text)
        theirs = pair.their_tokenizer(text)["input_ids"]
        assert [pair.src_rows[i] for i in [*ids, EOS_ID]] == theirs
        tgt = pair.their_tokenizer(text_target=text)["input_ids"]
        ours = pair.translator.tokenizers.tgt.encode(text)
        assert [pair.tgt_rows[i] for i in [*ours, EOS_ID]] == tgt
        if UNK_ID not in ours:
            expected = pair.their_tokenizer.decode(tgt, skip_special_tokens=True)
            assert pair.translator.tokenizers.tgt.decode(ours) == expected


@pytest.mark.slow
def test_an_imported_run_is_trained_further(opus: Pair, tmp_path: Path) -> None:
    run, out = opus.run, tmp_path / "further"
    write_corpus(tmp_path, "new", 60, seed=5)
    settings = ("--set=training.max_steps=3", "--set=training.ema_decay=0.5", "--set=data.max_length=48")
    succeed("train", "--from", run.path, "--tsv", tmp_path / "new.tsv", "--out", out, *TRAINING, *settings)
    before, after = (load_tensors(path / "model.safetensors") for path in (run.path, out))
    assert before.keys() == after.keys()
    for tensor in before:
        assert not torch.equal(before[tensor], after[tensor]), tensor
    losses = [record["train_loss"] for record in Run.open(out).history() if "train_loss" in record]
    assert all(0 < loss < 50 for loss in losses), "tokens that are not there take no part in the loss"
    assert Translator.load(out).translate(["the red cat"])[0].text is not None


def test_sinusoids_are_not_kept_and_the_search_is_theirs(opus: Pair, pairs: dict[str, Pair]) -> None:
    old = pairs["an old folder"].run
    for run in (opus.run, old):
        assert run.config.model.positions == "sinusoidal"
        assert not any("positions" in name for name in run.load_weights())
    assert (opus.run.config.search.beam_size, opus.run.config.search.length_penalty) == (4, 0.8)
    assert old.config.search.beam_size == 6


@pytest.mark.slow
def test_the_command_says_what_it_read_and_what_comes_next(opus: Pair, tmp_path: Path) -> None:
    result = succeed("import", opus.folder, "--out", tmp_path / "run", "--src-lang", "eng")
    assert result.stdout == f"{tmp_path / 'run'}\n"
    said = result.stderr
    assert "marian: config.json" in said
    assert "eng → de, 2 + 1 layers of 16, post-norm, swish" in said
    assert "beam_size 4, length_penalty 0.8" in said
    assert "note      a beam ranks by" in said
    assert f"next: dragoman translate {tmp_path / 'run'}" in said
    assert f"imported from {opus.folder} (marian)" in succeed("show", tmp_path / "run").stdout
    assert succeed("translate", tmp_path / "run", stdin="the red cat\n\n").stdout.count("\n") == 2


def test_the_wanted_language_is_a_token(tmp_path: Path) -> None:
    folder = write_marian(tmp_path / "there", languages=(">>deu<<", ">>nld<<"))
    run = import_model(folder, tmp_path / "run")
    (note,) = [n for n in run.read_json("report.json")["imported"]["notes"] if ">>" in n]
    assert ">>deu<< >>nld<<" in note
    translator = Translator.load(run.path)
    assert translator.directions == (("en", "deu"), ("en", "nld"))
    tokenizer = translator.tokenizers.src
    assert translator.towards("nld").tokenizers.src.encode("red")[0] == tokenizer.marks["<2nld>"]
    language, *rest = tokenizer.encode(">>nld<< the red cat")
    assert tokenizer.pieces()[language] == ">>nld<<"
    assert rest == tokenizer.encode("the red cat")
    assert tokenizer.encode(">>xyz<< red")[0] == UNK_ID
