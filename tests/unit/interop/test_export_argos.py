"""Packages of Argos Translate, installed and used by its own code."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

import ctranslate2
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import parse_config
from dragoman.errors import ConfigError, RunError
from dragoman.interop import argos
from dragoman.interop.exporting import export_run
from dragoman.interop.importing import import_model
from dragoman.interop.sentencepieces import sentencepiece_model
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.text import subwords
from dragoman.text.tokenizer import SubwordTokenizer
from dragoman.text.vocabulary import EOS_ID
from exports import untrained_run
from foreign_models import write_marian
from tiny import TINY, WORDS, write_many

TEXTS = [
    "red cat", "the old dog!", "Über 17 bird  houses", "e\u0301 Ｂig 東 tree", "small", "<s> </s> <0x41> 👍",
]  # fmt: skip
ARGOS = """
import json, sys
from argostranslate import package, translate

class OneSentence:  # the real one is a model that minisbd downloads
    def split_sentences(self, text):
        return [text]

path, src, tgt = sys.argv[1:]
package.install_from_path(path)
translation = translate.get_translation_from_codes(src, tgt)
translation.underlying.sentencizer = OneSentence()
names = [language.name for language in translate.get_installed_languages()]
json.dump([names, [translation.translate(text) for text in json.load(sys.stdin)]], sys.stdout)
"""
MARKED = ["e\u0301", "e\u0302\u0323", "ê\u0323", "e\u0323\u0302", "\u1112\u1161\u11ab", "A\u030a"]
SENTENCES = [" ".join(pair) for pair in WORDS.items()] + ["Äpfel, Öl & 3.14", "你好世界", "ça élève naïve"]


def in_argos(package: Path, home: Path, *, src: str = "en", tgt: str) -> tuple[list[str], list[str]]:
    """The languages that Argos Translate has once the package is installed, and its translations of TEXTS."""
    pytest.importorskip(
        "argostranslate", reason="pip install --no-deps argostranslate minisbd stanza emoji (make setup does)"
    )
    places = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("DATA", "CONFIG", "CACHE")}
    places["HOME"] = str(home)
    done = subprocess.run(
        [sys.executable, "-c", ARGOS, str(package), src, tgt], env={**os.environ, **places},
        input=json.dumps(TEXTS), text=True, capture_output=True, check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names, found = json.loads(done.stdout)
    return names, found


def by_ctranslate2(run: Path, folder: Path, *, target: str) -> list[str]:
    """The translations of TEXTS by the run's export to CTranslate2, with the search of Argos Translate."""
    export_run(run, folder, to="ctranslate2", n_sentences=5)
    one = Translator.load(run, device="cpu").towards(target)
    tokenizers, end = one.tokenizers, one.model.config.source_end
    pieces = tokenizers.src.pieces()
    model = ctranslate2.Translator(str(folder), compute_type="auto")
    found = []
    for ids in tokenizers.src.encode_batch(TEXTS):
        source = [pieces[i] for i in [*ids, *[EOS_ID] * end]]
        (result,) = model.translate_batch([source], beam_size=4, length_penalty=0.2, replace_unknowns=True)
        ids_of = {piece: i for i, piece in enumerate(tokenizers.tgt.pieces())}
        found.append(tokenizers.tgt.decode([ids_of[piece] for piece in result.hypotheses[0]]))
    return found


def without_bytes(path: Path) -> Path:
    """The run, changed so that it writes no bytes: what is not UTF-8 each tool shows in its own way."""
    run = Run.open(path)
    weights = run.load_weights()
    weights["output.bias"][EOS_ID + 1 : subwords.N_FIXED] -= 50.0
    run.save_weights(weights)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param(
            {"shared": False, "model": {"output_bias": True, "tie_embeddings": "output"}},
            marks=pytest.mark.nightly,
        ),
        pytest.param({"kind": "unigram", "lowercase": True}, marks=pytest.mark.nightly),
        pytest.param({"model": {"output_bias": True, "source_end": False}}, marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_argos_installs_a_package_and_translates_as_the_run(settings: dict[str, Any], tmp_path: Path) -> None:
    run = without_bytes(untrained_run(tmp_path / "r", **{"model": {"output_bias": True}, **settings}))
    report = export_run(run, tmp_path / "out", to="argos", n_sentences=40)
    assert report.parity.same[argos.ALIKE] >= argos.SHARE
    assert sorted(report.files) == ["README.md", "translate-en_de-1_0.argosmodel"]
    again = export_run(run, tmp_path / "out", to="argos", n_sentences=40)  # in the place of the first
    assert again.files.keys() == report.files.keys()
    names, found = in_argos(tmp_path / "out" / "translate-en_de-1_0.argosmodel", tmp_path, tgt="de")
    assert names == ["English", "German"]
    assert found == by_ctranslate2(run, tmp_path / "ct2", target="de")
    assert len(set(found)) > 1


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_of_several_directions_becomes_a_package_for_each(tmp_path: Path) -> None:
    config = parse_config(write_many(tmp_path), overrides=[*TINY, "model.output_bias=true"])
    run = without_bytes(train(config, tmp_path / "run"))
    report = export_run(run, tmp_path / "out", to="argos", n_sentences=9)
    names = [f"translate-{pair}-1_0.argosmodel" for pair in ("de_en", "en_de", "en_fr")]
    assert sorted(report.files) == ["README.md", *names]
    for pair in ("en-fr", "de-en"):
        src, tgt = pair.split("-")
        package = tmp_path / "out" / f"translate-{src}_{tgt}-1_0.argosmodel"
        _, found = in_argos(package, tmp_path / pair, src=src, tgt=tgt)
        assert found == by_ctranslate2(run, tmp_path / f"ct2-{pair}", target=tgt)


@pytest.mark.slow
def test_the_sentencepiece_model_of_an_imported_run_is_that_of_the_package(tmp_path: Path) -> None:
    run = import_model(write_marian(tmp_path / "opus"), tmp_path / "run")
    export_run(run.path, tmp_path / "out", to="argos", n_sentences=9)
    with zipfile.ZipFile(tmp_path / "out" / "translate-en_de-1_0.argosmodel") as package:
        found = package.read("translate-en_de-1_0/sentencepiece.model")
    assert found == (tmp_path / "opus" / "source.spm").read_bytes()


def tokenizer_of(folder: Path, kind: Any, *, lowercase: bool) -> tuple[SubwordTokenizer, Any]:
    """A tokenizer, and sentencepiece with what it is written as."""
    spec = subwords.learn(SENTENCES * 3, kind=kind, vocab_size=340, lowercase=lowercase)
    path = folder / f"{kind}-{lowercase}.json"
    path.write_text(spec, encoding="utf-8")
    tokenizer = SubwordTokenizer(spec)
    model = sentencepiece_model(path, tokenizer)
    return tokenizer, sentencepiece.SentencePieceProcessor(model_proto=model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_sentencepiece_cuts_any_text_as_the_tokenizer(
    kind: str, lowercase: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tokenizer, processor = tokenizer_of(tmp_path_factory.mktemp("t"), kind, lowercase=lowercase)
    pieces = tokenizer.pieces()
    assert processor.GetPieceSize() == len(pieces)
    odd = st.sampled_from([*"\u00a0\u3000\x07\n▁_<>ÅİΩ각\ufdd0", "<s>", "<0x41>", *MARKED])
    plain = st.characters(codec="utf-8", exclude_categories=["M"], exclude_characters="\x00Σ")

    @given(st.lists(st.sampled_from(SENTENCES) | odd | plain, max_size=8))
    @settings(max_examples=100)
    def check(parts: list[str]) -> None:
        text = "".join(parts)
        expected = [pieces[i] for i in tokenizer.encode(text)]
        assert processor.EncodeAsPieces(text) == expected

    check()


def test_what_argos_translate_cannot_read_is_refused(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "r", kind="words")
    with pytest.raises(ConfigError, match="a tokenizer of words cannot be written"):
        export_run(run, tmp_path / "out", to="argos", n_sentences=5)
    assert not (tmp_path / "out").exists()
    config = translation_config(Run.open(run))
    slots = config.model_copy(update={"modifiers": config.modifiers.model_copy(update={"slots": 0.5})})
    with pytest.raises(ConfigError, match="cannot carry numbers"):
        argos.check_argos(slots)


@pytest.mark.slow
def test_no_package_that_reads_otherwise_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained_run(tmp_path / "r")
    foreign = Mock(EncodeAsPieces=str.split, DecodePieces=lambda tokens: "otherwise")
    monkeypatch.setattr(argos, "sentencepiece_processor", lambda model: foreign)
    with pytest.raises(RunError, match="reads or writes 9 of 9 sentences otherwise"):
        export_run(run, tmp_path / "out", to="argos", n_sentences=9)
    assert not (tmp_path / "out").exists()
