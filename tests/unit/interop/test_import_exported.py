"""Dragoman → Hugging Face → Dragoman: the same weights, tokens and settings, and fine-tuned in between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from commands import error_of, succeed
from dragoman.config import parse_config
from dragoman.interop.exporting import export_run
from dragoman.interop.importing import import_model
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tensors import load_tensors
from dragoman.text.tokenizer import TokenizerPair
from tiny import WORDS

pytest.importorskip("transformers")

SETTINGS = {
    "pre-norm, one vocabulary": {"tokenizer": {}, "model": {}},
    "post-norm, swish, an output bias": {
        "tokenizer": {"kind": "unigram"},
        "model": {"norm": "post", "activation": "swish", "output_bias": True},
    },
    "two vocabularies of words": {
        "tokenizer": {"kind": "words", "shared": False},
        "model": {"tie_embeddings": "output", "scale_embeddings": False},
    },
    "learned positions, nothing tied": {
        "tokenizer": {"shared": False},
        "model": {"tie_embeddings": "none", "positions": "learned", "max_positions": 40},
    },
}


def random_run(folder: Path, settings: dict[str, dict[str, object]]) -> Run:
    """A run with random weights, all of them others than they begin with."""
    config = parse_config({
        "name": "random",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"], "max_length": 30},
        "tokenizer": {"vocab_size": 300, **settings["tokenizer"]},
        "model": {
            "d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 2, "n_decoder_layers": 1,
            **settings["model"],
        },
    })  # fmt: skip
    assert config.task == "translation"
    run = Run.create(folder, config)
    pair = TokenizerPair.train([(src, tgt) for src, tgt in WORDS.items()] * 3, config.tokenizer)
    pair.save(run.tokenizer_folder)
    torch.manual_seed(1)
    model = Seq2SeqTransformer(
        config.model, src_vocab_size=pair.src.vocab_size, tgt_vocab_size=pair.tgt.vocab_size
    )
    run.save_weights({name: p + 0.3 * torch.randn_like(p) for name, p in model.named_parameters()})
    return run


@pytest.fixture(scope="module", params=SETTINGS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("exported")
    run = random_run(folder / "run", SETTINGS[request.param])
    export_run(run.path, folder / "there", to="huggingface", n_sentences=2)
    return run, folder / "there"


def test_a_round_trip_gives_the_same_run(exported: tuple[Run, Path], tmp_path: Path) -> None:
    run, there = exported
    back = import_model(there, tmp_path / "back")
    before, after = run.load_weights(), back.load_weights()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert back.config == run.config
    for file in run.tokenizer_folder.iterdir():
        assert (back.tokenizer_folder / file.name).read_bytes() == file.read_bytes()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    run = random_run(folder / "run", SETTINGS["post-norm, swish, an output bias"])
    export_run(run.path, folder / "there", to="huggingface", n_sentences=2)
    return folder


@pytest.fixture
def there(original: Path, tmp_path: Path) -> Path:
    """An export that may be changed."""
    return Path(shutil.copytree(original / "there", tmp_path / "there"))


def test_what_was_trained_there_comes_back(original: Path, there: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(there)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.tensor([[10, 11, 2]])
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    model.save_pretrained(tmp_path / "trained")
    assert "holds no dragoman/" in error_of("import", tmp_path / "trained", "--out", tmp_path / "back")
    shutil.copytree(there / "dragoman", tmp_path / "trained" / "dragoman")
    succeed("import", tmp_path / "trained", "--out", tmp_path / "back", "--tgt-lang", "nl")
    translator = Translator.load(tmp_path / "back", precision="fp32", device="cpu")
    assert translator.config.languages == ("en", "nl")
    with torch.inference_mode():
        ours = translator.model(ids, ids != 0, torch.tensor([[1, 7, 9]]))
        theirs = model.eval()(input_ids=ids, decoder_input_ids=torch.tensor([[1, 7, 9]])).logits
    torch.testing.assert_close(ours[..., 4:], theirs[..., 4:], atol=1e-4, rtol=0)
    before, after = (load_tensors(run / "model.safetensors") for run in (original / "run", tmp_path / "back"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert "decoder.0.feed_forward.linear1.weight" in changed


def change_kept(there: Path, **changed: object) -> None:
    settings = json.loads((there / "config.json").read_bytes())
    settings["dragoman"] |= changed
    (there / "config.json").write_text(json.dumps(settings))


@pytest.mark.slow
def test_parts_of_different_exports_are_told_apart(there: Path, tmp_path: Path) -> None:
    config = json.loads((there / "config.json").read_bytes())["dragoman"]["config"]

    def with_model(**settings: int) -> dict[str, object]:
        return {"config": {**config, "model": {**config["model"], **settings}}}

    for changed, message in (
        ({"version": 2}, "dragoman is of another version, or damaged; export again"),
        ({"config": 3}, "dragoman is of another version, or damaged; export again"),
        ({"src_vocab_size": 5}, "its config.json and its folder dragoman are of different runs"),
        ({"config": {**config, "seed": -1}}, "seed = -1"),
        (with_model(d_model=10**12), "input should be less than or equal to 100000"),
        (with_model(n_decoder_layers=2), "holds no model.decoder.layers.1.self_attn.q_proj.weight"),
        (with_model(d_ff=25), "fc1.weight has shape (24, 16), its settings say (25, 16)"),
        (with_model(d_model=18), "q_proj.weight has shape (16, 16), its settings say (18, 18)"),
        ({"forbidden_bias": [0.5, "x", 1e999]}, "dragoman.forbidden_bias is damaged; export again"),
    ):
        shutil.copytree(there, tmp_path / "changed")
        change_kept(tmp_path / "changed", **changed)
        assert message in error_of("import", tmp_path / "changed", "--out", tmp_path / "back")
        assert not (tmp_path / "back").exists()
        shutil.rmtree(tmp_path / "changed")
