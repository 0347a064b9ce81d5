"""Control characters never come out, whatever tokens a model writes and whichever way its text leaves."""

import csv
import io
import json
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as HuggingFaceTokenizer

from dragoman.bulk.input import Chunk, Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.output import SyntheticPairs, as_line, json_line
from dragoman.config import TokenizerConfig
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.distillation.teaching import as_candidates
from dragoman.documents import DocumentFile, translate_document, translate_file
from dragoman.interop.pipeline import pipeline
from dragoman.interop.portable import portable, to_json
from dragoman.predict.alignment import word_probabilities
from dragoman.predict.engine import CompiledEngine, Started
from dragoman.predict.flow import TranslationRequest, aligned
from dragoman.predict.probe import Probe
from dragoman.predict.protection import Protection
from dragoman.predict.results import Translation
from dragoman.predict.threads import finish
from dragoman.predict.translator import Translator, translate_protected
from dragoman.text.foreign import Segmentation
from dragoman.text.tokenizer import EOS_ID, Tokenizer, WholeTokenizer, train_tokenizer
from dragoman.text.transformations import REPLACED
from dragoman.text.vocabulary import SPECIAL_TOKENS

EVIL = "\0\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f\x7f\x85\x9b\u2028\u2029\ufdd0\ufffe\uffff\U0001ffff"
TEXTS = st.text([*EVIL, *"aß .", "\u200d", "\u202e", "\ufeff"], min_size=1, max_size=8)
SOURCES = ["red cat", "", "a big <b>old</b> house 12", "tree " * 30]
WRITTEN: list[int] = []
"""What the model of these tests writes, token by token; then the end, but nothing is impossible."""


def is_clean(text: str) -> bool:
    return (
        text.splitlines() in ([text], [])
        and not {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, text))
        and not any(0xFDD0 <= ord(c) < 0xFDF0 or ord(c) & 0xFFFE == 0xFFFE for c in text)
    )


def hostile(engine: CompiledEngine, *_: object) -> Started:
    n_tokens, n_steps = engine.models[0].n_tokens, 0

    def step(last: Ints, parents: Ints) -> ArrayLogProbs:
        nonlocal n_steps
        wanted = WRITTEN[n_steps] if n_steps < len(WRITTEN) else EOS_ID
        n_steps += 1
        log_probs = np.full((len(last), n_tokens), -9.0)
        log_probs[:, : len(SPECIAL_TOKENS)] = -np.inf
        log_probs[:, EOS_ID] = -5.0
        log_probs[:, WRITTEN] = -3.0
        log_probs[:, wanted] = -0.1
        return ArrayLogProbs(log_probs)

    return Started(step)


@pytest.fixture(scope="module", autouse=True)
def _hostile_model() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledEngine, "start", hostile)
        patch.setattr(Probe, "agrees", lambda *_: True)
        yield


def write(text: str, tokenizer: Tokenizer) -> None:
    """From now on the model writes the bytes of `text`."""
    first = tokenizer.pieces().index("<0x00>")
    WRITTEN[:] = [first + byte for byte in text.encode()]


def some(n: int) -> Any:
    def decorate(test: Any) -> Any:
        health = [HealthCheck.function_scoped_fixture]
        test = settings(max_examples=n, derandomize=True, suppress_health_check=health)(test)
        return example(evil=EVIL)(given(evil=TEXTS)(test))

    return decorate


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 3, "n_best": 3},
    "diverse": {"beam_size": 4, "n_best": 4, "diversity_groups": 2},
    "sampling": {"method": "sampling", "n_best": 3, "temperature": 2.0},
    "prefix": {"prefixes": ["rot\tund\x1bso\x85"] * len(SOURCES)},
    "required": {"required": [["rot\tKatze\0"], *[[]] * (len(SOURCES) - 1)]},
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@some(12)
def test_no_search_gives_any(translator: Translator, search: dict[str, Any], evil: str) -> None:
    write(evil, translator.tokenizers.tgt)
    for translation in translator.translate(SOURCES, max_length_extra=9, **search):
        for text in (translation.text, *(alternative.text for alternative in translation.alternatives)):
            assert is_clean(text), repr(text)


@some(12)
def test_links_and_probabilities_belong_to_the_text_that_is_given(translator: Translator, evil: str) -> None:
    write(evil + "Katze" + evil, translator.tokenizers.tgt)
    found = translator.translate(SOURCES)
    for translation, links in zip(found, finish(aligned(translator, found)), strict=True):
        assert all(translation.text[x.target_start : x.target_end].strip() for x in links)
    probabilities = word_probabilities(translator, SOURCES, [t.text for t in found])
    for translation, words in zip(found, probabilities, strict=True):
        assert "".join(translation.text[w.start : w.end] for w in words) == "".join(translation.text.split())


@some(12)
def test_protected_text_and_documents_hold_what_the_user_wrote_and_no_other_controls(
    translator: Translator, evil: str
) -> None:
    write(evil, translator.tokenizers.tgt)
    for translation in translate_protected(translator, SOURCES, Protection()):
        assert is_clean(translation.text)
    text = "A red cat.\tA tree.\n\n\x0cOld\x1b house\r\nx"
    written = translate_document(translator, text)
    assert len(f"{written}x".splitlines()) == len(f"{text}x".splitlines())
    assert set(EVIL) & set(written) <= set(text)


def subtitles(n_cues: int) -> str:
    cue = "{0}\n00:00:0{0},000 --> 00:00:0{0},900\nA red cat.\nA tree.\n"
    return "\n".join(cue.format(i + 1) for i in range(n_cues))


UNIT = '<tu><tuv xml:lang="en"><seg>A red cat.</seg></tuv></tu>\n'
DOCUMENTS = {
    "a.srt": subtitles(3),
    "a.tmx": f'<tmx version="1.4"><body>\n{UNIT * 2}</body></tmx>\n',
    "a.html": "<p>A red cat.\n<p>A tree.",
    "a.txt": "A\nb\n",
}


@pytest.mark.parametrize("name", DOCUMENTS)
@some(8)
def test_a_document_has_the_lines_that_it_had(translator: Translator, name: str, evil: str) -> None:
    content = DOCUMENTS[name]
    write(evil, translator.tokenizers.tgt)
    written = translate_file(translator, name, content.encode()).decode()
    assert len(written.splitlines()) <= len(content.splitlines())  # an empty line of a cue goes
    assert all(map(is_clean, written.split("\n")))
    again = DocumentFile.read(name, written.encode(), ("de", "en"))
    assert again.written(again.sentences).decode().split() == written.split()


OUTPUTS = {
    "lines": as_line,
    "json": json_line,
    "candidates": as_candidates,
    "pairs": SyntheticPairs("<BT>", 0.0),
}


@pytest.mark.parametrize("kind", OUTPUTS)
@some(6)
def test_files_of_translations_have_a_line_for_each(kind: str, tiny_run: Path, evil: str) -> None:
    request = TranslationRequest(settings={"method": "sampling"}, n_best=3)
    job = Job(ModelSpec(tiny_run), Input("in", Path("in")), Path("out"), OUTPUTS[kind], request)
    write(evil, job.model.translator.tokenizers.tgt)
    done = job.open()(Chunk(1, SOURCES, 1, ""), lambda n: None)
    lines = done.data.decode().split("\n")[:-1]
    for line in lines:
        assert all(map(is_clean, line.split("\t"))), repr(line)
    if kind == "pairs":
        rows = list(csv.reader(io.StringIO(done.data.decode()), delimiter="\t", quoting=csv.QUOTE_NONE))
        assert all(len(row) == 2 for row in rows)
    else:
        assert len(lines) == len(SOURCES)
    if kind == "json":
        assert [json.loads(line)["source"] for line in lines] == SOURCES


@some(8)
def test_a_pipeline_gives_none(translator: Translator, evil: str) -> None:
    write(evil, translator.tokenizers.tgt)
    for found in pipeline("translation", model=translator)(SOURCES[:1], num_beams=3, num_return_sequences=3):
        assert all(is_clean(one["translation_text"]) for one in found)


def test_a_service_gives_none(tiny_run: Path) -> None:
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from dragoman.serving.app import create_app
    from services import service_of

    with TestClient(create_app(service_of([tiny_run], n_threads=1))) as client:
        for evil in (EVIL, "\n", "\u2028"):
            write(f"a{evil}b", Translator.load(tiny_run).tokenizers.tgt)
            for extra in ({"n_best": 2, "align": True, "confidence": True}, {"stream": True}):
                answer = client.post("/v1/translate", json={"text": SOURCES[0], **extra}).text
                strings = list(_strings([json.loads(part.partition("{")[1] + part.partition("{")[2])
                                         for part in answer.split("\n") if "{" in part]))  # fmt: skip
                assert len(strings) > 3
                assert all(map(is_clean, strings)), strings
            sent = {"file": ("a.txt", b"red cat\nold tree\n")}
            assert is_clean(client.post("/v1/documents", files=sent).text.replace("\n", ""))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def listed(kind: str, pieces: Sequence[str], **more: Any) -> Tokenizer:
    vocabulary = [*SPECIAL_TOKENS, *pieces]
    spec = {"kind": kind, "lowercase": False, "vocabulary": vocabulary, **more}
    return WholeTokenizer(json.dumps(spec))


CORPUS = ["Two men, 12 dogs."] * 3
OF_STRANGERS = ["a", "b\n", *EVIL, "\ud800", "x\u2028y"]
TOKENIZERS = {
    "bpe": train_tokenizer(CORPUS, TokenizerConfig(kind="bpe", vocab_size=340)),
    "unigram": train_tokenizer(CORPUS, TokenizerConfig(kind="unigram", vocab_size=340)),
    "characters": listed("characters", ["a", "▁", *EVIL]),
    "words": listed("words", OF_STRANGERS, splitter="spacy", language="en", format_output=True),
    "pieces": Segmentation().tokenizer([*SPECIAL_TOKENS, *OF_STRANGERS]),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=200)
def test_no_tokens_of_any_vocabulary_decode_to_controls(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    text = tokenizer.decode(data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20)))
    assert is_clean(text)
    text.encode()
    assert is_clean(tokenizer.normalise(text))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
@given(data=st.data())
@settings(max_examples=200)
def test_an_exported_tokenizer_reads_and_writes_the_same(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tokenizer = TOKENIZERS[kind]
    path = tmp_path_factory.getbasetemp() / f"{kind}.json"
    if not path.exists():
        tokenizer.save(path)
    exported = HuggingFaceTokenizer.from_str(to_json(portable(path, end=False)))
    text = data.draw(TEXTS)
    assert exported.encode(text, add_special_tokens=False).ids == tokenizer.encode(text)
    low = len(SPECIAL_TOKENS)
    spelt = [low + byte for byte in text.encode()] if kind != "characters" else []
    ids = data.draw(st.lists(st.integers(low, tokenizer.vocab_size - 1), max_size=9)) + spelt
    assert exported.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids)


def test_what_is_replaced_is_what_breaks_lines_formats_and_terminals() -> None:
    ends = (plane + 0xFFF0 + i for plane in range(0, 0x110000, 0x10000) for i in range(16))
    for code in (*range(0x3000), *range(0xD700, 0x10000), *ends):
        assert (code in REPLACED) != is_clean(chr(code)), hex(code)
    assert all(chr(code).isspace() == (new == " ") for code, new in REPLACED.items())


def test_text_of_other_writing_systems_is_left_as_it_is(translator: Translator) -> None:
    kept = "क्\u200dष می\u200cروم \u200fא\u200e \u2066a\u2069 👩\u200d👧 \u00ad \u2060"
    write(kept, translator.tokenizers.tgt)
    (found,) = translator.translate(["red cat"], beam_size=1, max_length_extra=100)
    assert isinstance(found, Translation)
    assert found.text == kept
