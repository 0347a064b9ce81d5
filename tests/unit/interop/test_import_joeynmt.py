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

from commands import error_of, succeed
from dragoman.interop.foreign import Foreign, ForeignFolder, ImportOptions
from dragoman.interop.importing import import_model, our_rows
from dragoman.interop.joeynmt import read
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.tokenizer import Tokenizer
from foreign_checkpoints import Pair
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


def changed(trained: Path, folder: Path, **model: Any) -> Path:
    """A copy with another architecture: built by JoeyNMT, random, saved in a checkpoint as it saves them."""
    from joeynmt.model import build_model

    shutil.copytree(trained, folder, symlinks=True)
    settings = copy.deepcopy(SETTINGS)
    for side in ("encoder", "decoder"):
        settings["model"][side] |= model.pop(side, {})
        settings["model"][side]["embeddings"]["scale"] = model.get("scale", True)
    model.pop("scale", None)
    settings["model"] |= model
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    if settings["model"].get("tied_embeddings"):
        shutil.copy(folder / "src_vocab.txt", folder / "trg_vocab.txt")
    torch.manual_seed(3)
    built = build_model(copy.deepcopy(settings["model"]), *vocabularies(folder))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    state = torch.load(folder / "best.ckpt", weights_only=False)
    torch.save(state | {"model_state": built.state_dict()}, folder / "best.ckpt")
    return folder


def vocabularies(folder: Path) -> list[Any]:
    from types import SimpleNamespace

    from joeynmt.config import _check_special_symbols
    from joeynmt.vocabulary import Vocabulary

    symbols = SimpleNamespace(**_check_special_symbols({}))
    return [
        Vocabulary((folder / f"{side}_vocab.txt").read_text(encoding="utf-8").splitlines(), symbols)
        for side in ("src", "trg")
    ]


def joeys_model(folder: Path) -> Any:
    from joeynmt.model import build_model

    settings = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    model = build_model(settings["model"], *vocabularies(folder))
    model.load_state_dict(torch.load(folder / "best.ckpt", weights_only=False)["model_state"])
    return model.eval()


def check_parity(folder: Path, run: Path) -> Foreign:
    model = joeys_model(folder)

    @torch.no_grad()
    def logits(src: torch.Tensor, tgt_in: torch.Tensor) -> torch.Tensor:
        found = model._encode_decode(
            src=src[None], trg_input=tgt_in[None], src_mask=torch.ones(1, 1, len(src), dtype=torch.bool),
            src_length=torch.tensor([len(src)]), trg_mask=torch.ones(1, 1, len(tgt_in), dtype=torch.bool),
        )  # fmt: skip
        return found[0][0]

    foreign = read(ForeignFolder(folder), ImportOptions())
    Pair(foreign).check(run, logits)
    return foreign


@pytest.mark.slow
def test_a_model_that_joeynmt_trained_computes_the_same_here(trained: Path, tmp_path: Path) -> None:
    run = import_model(trained, tmp_path / "run")
    check_parity(trained, run.path)
    config = run.config
    assert config.task == "translation"
    assert (config.languages, config.search.beam_size, config.search.length_penalty) == (("en", "de"), 3, 0.7)
    assert (config.model.norm, config.model.norm_eps, config.model.positions) == ("pre", 1e-6, "sinusoidal")
    assert succeed("translate", run.path, "-", stdin="red cat\n").stdout.count("\n") == 1
    assert set(Run.open(run.path).read_json("report.json")["imported"]["files"]) == {
        "best.ckpt", "config.yaml", "src_vocab.txt", "trg_vocab.txt"
    }  # fmt: skip


VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {
        "encoder": {"layer_norm": "post", "activation": "gelu"},
        "decoder": {"layer_norm": "post", "activation": "gelu", "num_layers": 1},
        "tied_softmax": False,
        "scale": False,
    },
    "swish": {"encoder": {"activation": "swish", "num_layers": 3}, "decoder": {"activation": "swish"}},
    "everything tied": {"tied_embeddings": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_any_architecture_of_joeynmt_computes_the_same_here(trained: Path, tmp_path: Path, name: str) -> None:
    folder = changed(trained, tmp_path / "there", **copy.deepcopy(VARIANTS[name]))
    run = import_model(folder, tmp_path / "run")
    foreign = check_parity(folder, run.path)
    ties = {"post-norm": "none", "everything tied": "all"}.get(name, "output")
    assert foreign.model.tie_embeddings == ties


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
