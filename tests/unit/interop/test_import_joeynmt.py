"""Models of JoeyNMT: what its own code trains and saves computes, cuts and translates the same here."""

import copy
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import error_of
from dragoman.interop.foreign import ForeignFolder, ImportOptions
from dragoman.interop.importing import import_model, our_rows
from dragoman.interop.joeynmt import read
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import Tokenizer
from foreign_checkpoints import check_import
from foreign_models import JOEYNMT as SETTINGS
from foreign_models import SENTENCES, sentencepieces, train_sentencepiece
from sharing import made_once
from tiny import write_corpus

yaml = pytest.importorskip("yaml")
pytest.importorskip("joeynmt")
pytest.importorskip("subword_nmt")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of JoeyNMT's packages


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model_dir that the command `joeynmt train` has written."""

    def make(folder: Path) -> None:
        for name, n_pairs in {"train": 60, "dev": 6}.items():
            write_corpus(folder, name, n_pairs, seed=n_pairs)
        (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "joeynmt", "train", "config.yaml", "--skip-test"],
            cwd=folder, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    return made_once(tmp_path_factory, "joeynmt", make) / "model"


def vocabularies(folder: Path) -> list[Any]:
    from types import SimpleNamespace

    from joeynmt.config import _check_special_symbols
    from joeynmt.vocabulary import Vocabulary

    symbols = SimpleNamespace(**_check_special_symbols({}))
    return [
        Vocabulary((folder / f"{side}_vocab.txt").read_text(encoding="utf-8").splitlines(), symbols)
        for side in ("src", "trg")
    ]


@pytest.mark.slow
def test_a_model_that_joeynmt_trained_computes_the_same_here(trained: Path, tmp_path: Path) -> None:
    from joeynmt.model import build_model

    folder = Path(shutil.copytree(trained, tmp_path / "there", symlinks=True))
    model = build_model(copy.deepcopy(SETTINGS["model"]), *vocabularies(folder))
    model.load_state_dict(torch.load(folder / "best.ckpt", weights_only=False)["model_state"])
    model.eval()

    @torch.no_grad()
    def logits(src: torch.Tensor, tgt_in: torch.Tensor) -> torch.Tensor:
        found = model._encode_decode(
            src=src[None], trg_input=tgt_in[None], src_mask=torch.ones(1, 1, len(src), dtype=torch.bool),
            src_length=torch.tensor([len(src)]), trg_mask=torch.ones(1, 1, len(tgt_in), dtype=torch.bool),
        )  # fmt: skip
        return found[0][0]

    foreign = check_import(folder, read, logits, norm="pre", norm_eps=1e-6, positions="sinusoidal")
    assert (foreign.src_lang, foreign.tgt_lang) == ("en", "de")
    assert (foreign.search.beam_size, foreign.search.length_penalty) == (3, 0.7)
    files = Run.open(tmp_path / "run").read_json("report.json")["imported"]["files"]
    assert set(files) == {"best.ckpt", "config.yaml", "src_vocab.txt", "trg_vocab.txt"}


def with_subwords(trained: Path, folder: Path, kind: str) -> tuple[Path, dict[str, Any]]:
    """A model_dir whose text is cut by sentencepiece or subword-nmt, and its settings of a side."""
    shutil.copytree(trained, folder, symlinks=True)
    settings = copy.deepcopy(SETTINGS)
    texts = [line.lower() for line in SENTENCES]
    if kind == "sentencepiece":
        (folder / "spm.model").write_bytes(train_sentencepiece(texts * 9, vocab_size=60))
        pieces = sentencepieces((folder / "spm.model").read_bytes())
        chosen = {"tokenizer_type": kind, "tokenizer_cfg": {"model_file": "/elsewhere/spm.model"}}
    else:
        from subword_nmt.learn_bpe import learn_bpe

        codes = io.StringIO()
        learn_bpe(io.StringIO("\n".join(texts * 9)), codes, 25)
        (folder / "codes.txt").write_text(codes.getvalue(), encoding="utf-8")
        letters = sorted({letter for text in texts for letter in text if letter != " "})
        pieces = [*letters, *(f"{letter}@@" for letter in letters), "the", "re@@", "ri@@", "cat"]
        chosen = {"tokenizer_type": kind, "tokenizer_cfg": {"codes": "/elsewhere/codes.txt"}}
    for side in ("src", "trg"):
        settings["data"][side] |= {"level": "bpe", "lowercase": True, **chosen}
        (folder / f"{side}_vocab.txt").write_text(
            "".join(f"{piece}\n" for piece in ["<unk>", "<pad>", "<s>", "</s>", *pieces]), encoding="utf-8"
        )
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return folder, settings["data"]["src"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentencepiece", "subword-nmt"])
def test_text_is_cut_and_put_together_as_joeynmt_does(trained: Path, tmp_path: Path, kind: str) -> None:
    from joeynmt.model import build_model
    from joeynmt.tokenizers import BasicTokenizer, _build_tokenizer

    folder, side = with_subwords(trained, tmp_path / "there", kind)
    built = build_model(copy.deepcopy(SETTINGS["model"]), *vocabularies(folder))
    state = torch.load(folder / "best.ckpt", weights_only=False)
    torch.save(state | {"model_state": built.state_dict()}, folder / "best.ckpt")
    run = import_model(folder, tmp_path / "run")
    vocabulary, _ = vocabularies(folder)
    names = {"model_file", "codes"}
    here = {key: str(folder / Path(path).name) for key, path in side["tokenizer_cfg"].items() if key in names}
    joeys = _build_tokenizer({**side, "tokenizer_cfg": here})
    if kind == "sentencepiece":  # which has lost what JoeyNMT calls to keep it to known pieces
        BasicTokenizer.set_vocab(joeys, vocabulary)
    else:
        joeys.set_vocab(vocabulary)
    ours: Tokenizer = Translator.load(run.path).tokenizers.src
    foreign = read(ForeignFolder(folder), ImportOptions())
    assert foreign.src_segmentation.kind == ("sentencepiece" if kind == "sentencepiece" else "pieces")
    rows = our_rows(foreign.src)
    for text in SENTENCES:
        pieces = joeys(joeys.pre_process(text))
        ids = [vocabulary.lookup(piece) for piece in pieces]
        assert [rows[i] for i in ours.encode(text)] == ids
        assert len(ids) > 2
        if foreign.src.unk not in ids:
            assert ours.decode(ours.encode(text)) == joeys.post_process(pieces)


@pytest.mark.slow
def test_vocabularies_and_yaml_of_strangers_are_named(trained: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "there"))

    def refused(name: str, content: bytes) -> str:
        (folder / name).write_bytes(content)
        return error_of("import", folder, "--out", tmp_path / "run")

    assert "src_embed.lut.weight has shape" in refused("src_vocab.txt", b"one\ntwo\n")
    assert "is not valid YAML" in refused("config.yaml", b"a: [")
    command = b"data: !!python/object/apply:os.system ['touch " + str(tmp_path).encode() + b"/executed']\n"
    assert "model.encoder.type" in refused("config.yaml", command)
    assert not (tmp_path / "executed").exists()
