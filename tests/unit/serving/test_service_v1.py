"""What the service's own interface promises, route by route."""

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents import Document, DocumentFile, translate_file
from dragoman.errors import MissingExtraError, RunError
from dragoman.predict.alignment import align, word_probabilities
from dragoman.predict.classifier import Classifier
from dragoman.predict.inflection import Inflectable
from dragoman.predict.translator import Translator
from dragoman.serving.app import create_app
from dragoman.serving.downloads import MAX_STEM
from dragoman.serving.translating import chosen, readable
from services import answer_of, named, refusal_of, service_of


@pytest.fixture(scope="module")
def client(
    tiny_run: Path, tiny_classifier_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """A service of a classifier and of translators from English, Polish and French."""
    folder = tmp_path_factory.mktemp("models")
    runs = [
        named(tiny_run, folder, "en-de"),
        named(tiny_classifier_run, folder, "reviews"),
        named(tiny_run, folder, "pl-de", source="pl"),
        named(tiny_run, folder, "fr-en", source="fr", target="en"),
    ]
    limits = {"characters": 600, "sentences": 20, "beam_size": 4, "glossary_entries": 30}
    limits |= {"required_cost": 3000, "file_bytes": 4096, "file_characters": 300}
    settings = [f"limits.{name}={limit}" for name, limit in limits.items()]
    with TestClient(create_app(service_of(runs, *settings, n_threads=2))) as made:
        yield made


def sentences_of(client: TestClient, text: str, **more: Any) -> list[dict[str, Any]]:
    """The sentences of the translation of one text."""
    (translation,) = answer_of(client, "translate", text=text, **more)["translations"]
    return translation["sentences"]


def check_places(text: str, translation: dict[str, Any]) -> None:
    """Every sentence stands where it says, in order, and there is only white space between them."""
    position = end = 0
    for sentence in translation["sentences"]:
        start, stop = sentence["source_start"], sentence["source_end"]
        assert text[start:stop] == sentence["source"] != ""
        assert not text[position:start].strip()
        assert translation["text"][sentence["start"] : sentence["end"]] == sentence["text"]
        assert not translation["text"][end : sentence["start"]].strip()
        position, end = stop, sentence["end"]
    assert not text[position:].strip()
    assert not translation["text"][end:].strip()


@pytest.mark.slow
@settings(max_examples=25, derandomize=True)
@given(text=st.text(alphabet=[*"ab .!?\n\t\r\u2028\u00a0", "😀", "猫", "。", "ق", "\u0301", "\u200d"]))
def test_sentences_of_any_text_stand_where_the_answer_says(client: TestClient, text: str) -> None:
    for split in (True, False):
        (found,) = answer_of(client, "translate", text=text, split=split, beam_size=1)["translations"]
        sources = tuple(sentence["source"] for sentence in found["sentences"])
        assert sources == (Document.read(text, "en").sentences if split else (text,))
        if split:
            check_places(text, found)


def test_search_settings_are_those_of_the_translator(client: TestClient, translator: Translator) -> None:
    asked: dict[str, Any]
    for asked in (
        {"n_best": 3},
        {"beam_size": 4, "length_penalty": 0.0, "no_repeat_ngram": 2},
        {"method": "sampling", "seed": 3, "temperature": 1.5, "top_k": 20, "top_p": 0.9},
    ):
        (expected,) = translator.translate(["red cat"], **asked)
        (found,) = sentences_of(client, "red cat", split=False, **asked)
        assert [each["text"] for each in found["alternatives"]] == [a.text for a in expected.alternatives]
        scores = [each["score"] for each in found["alternatives"]]
        assert scores == pytest.approx([a.score for a in expected.alternatives], abs=1e-3)
        assert (found["text"], found["score"]) == (expected.text, scores[0])
        assert (found["links"], found["words"]) == (None, None), "nobody asked for them"
    (begun,) = sentences_of(client, "red cat", split=False, prefix="Hund")
    assert begun["text"] == translator.translate(["red cat"], prefixes=["Hund"])[0].text
    (forced,) = sentences_of(client, "red cat", split=False, required=["Haus", "Baum"])
    assert {"Haus", "Baum"} <= set(forced["text"].split())


def test_what_is_protected_is_in_the_translation_unchanged(client: TestClient) -> None:
    kept = ["12.50", "https://example.org/a?b=1", "<b>", "</b>", "{name}", "me@example.org"]
    text = f"red {kept[0]} cat {kept[1]} old {kept[2]}house{kept[3]} {kept[4]} and {kept[5]}"
    kinds = ["numbers", "urls", "emails", "tags", "placeholders"]
    found = sentences_of(client, text, split=False, protect=kinds)
    assert [found[0]["text"].count(piece) for piece in kept] == [1] * len(kept)
    assert found == sentences_of(client, text, split=False, protect=True), "true is every kind"
    assert found != sentences_of(client, text, split=False)


def test_the_terms_of_a_glossary_are_in_the_sentences_that_have_their_sources(
    client: TestClient, translator: Translator
) -> None:
    text = "A red cat. The big old house! A river 12.50."
    found = sentences_of(client, text, glossary=[["cat", "Hund"], ["Big old", "Haus Baum"]])
    assert "Hund" in found[0]["text"].split()
    assert "Haus Baum" in found[1]["text"]
    plain = sentences_of(client, text)
    assert found[2]["text"] == plain[2]["text"], "one without a term is translated as before"
    for inflect, phrase in ((False, str), (True, Inflectable)):
        (expected,) = translator.translate(["A red cat."], required=[[phrase("Katze")]])
        (one,) = sentences_of(client, "A red cat.", glossary=[["cat", "Katze"]], inflect=inflect)
        assert one["text"] == expected.text


def test_links_and_probabilities_are_those_of_the_translators_words(
    client: TestClient, translator: Translator
) -> None:
    text = "The big old house. 😀 red cat"
    found = sentences_of(client, text, align=True, confidence=True)
    sources = [sentence["source"] for sentence in found]
    targets = [sentence["text"] for sentence in found]
    links = align(translator, sources, targets)
    words = word_probabilities(translator, sources, targets)
    for sentence, own_links, own_words in zip(found, links, words, strict=True):
        assert [(*link["source"], *link["target"]) for link in sentence["links"]] == [
            link[:4] for link in own_links
        ]
        weights = [link["weight"] for link in sentence["links"]]
        assert weights == pytest.approx([link.weight for link in own_links], abs=1e-3)
        assert [(word["start"], word["end"]) for word in sentence["words"]] == [w[:2] for w in own_words]
        probabilities = [word["probability"] for word in sentence["words"]]
        assert probabilities == pytest.approx([word.probability for word in own_words], abs=1e-3)


def events_of(client: TestClient, **body: Any) -> list[tuple[str, Any]]:
    """The events of a stream: their names and data."""
    response = client.post("/v1/translate", json={"stream": True} | body)
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/event-stream")
    events = []
    for block in response.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"n_best": 2, "align": True, "confidence": True}])
def test_a_stream_ends_with_what_is_answered_without_one(client: TestClient, more: dict[str, Any]) -> None:
    texts = ["A red cat. The big old house! old trees", "", "Blue birds. 3 small dogs."]
    whole = answer_of(client, "translate", text=texts, **more)
    names, data = zip(*events_of(client, text=texts, **more), strict=True)
    assert names == ("begin", *["sentence"] * (len(names) - 2), "done")
    assert data[-1] == whole
    names_told = ("source_start", "source_end", "source")
    for told, text in zip(data[0]["translations"], whole["translations"], strict=True):
        assert told["sentences"] == [{name: each[name] for name in names_told} for each in text["sentences"]]
    places = [(i, k) for i, text in enumerate(whole["translations"]) for k in range(len(text["sentences"]))]
    found = data[1:-1]
    assert [(each["text"], each["sentence"]) for each in found] == places, "in order, each once"
    for each in found:
        sentence = whole["translations"][each["text"]]["sentences"][each["sentence"]]
        assert each["result"].items() <= sentence.items()
        assert each["result"].keys() ^ sentence.keys() <= {"start", "end"}


def test_labels_are_those_of_the_classifier(client: TestClient, classifier: Classifier) -> None:
    texts = ["a great lovely cat", "dull house", ""]
    found = answer_of(client, "classify", text=texts)
    assert found["model"] == "reviews"
    for result, wanted in zip(found["results"], classifier.classify(texts), strict=True):
        assert result["label"] == (wanted.label or None)
        assert result["labels"] == list(wanted.labels)
        assert result["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-4)
        assert list(result["probabilities"]) == list(wanted.probabilities), "the most likely first"
        assert result["n_cut"] == wanted.n_cut


DOCUMENTS = {
    "a.txt": "A red cat.\n\nThe big old house!\n",
    "c.html": "<!DOCTYPE html>\n<title>Red cat</title><p>The <b>big</b> old&nbsp;house!<p>12",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_what_translate_file_makes_of_it(
    client: TestClient, translator: Translator, name: str
) -> None:
    content = DOCUMENTS[name].encode()
    for asked in ({"model": "en-de"}, {"source": "auto", "target": "de"}):
        response = client.post("/v1/documents", data=asked, files={"file": (f"żó/{name}", content)})
        assert response.status_code == 200, response.text
        assert response.content == translate_file(translator, name, content)
        stem, _, ending = name.partition(".")
        disposition = f"attachment; filename=\"{stem}.de.{ending}\"; filename*=UTF-8''{stem}.de.{ending}"
        assert response.headers["Content-Disposition"] == disposition


@pytest.mark.parametrize(
    ("name", "content", "target", "model"),
    [
        ("a.html", "<p>Stary <b>dom</b> stoi nad rzeką.</p>", "de", "pl-de"),
        ("a.txt", "Stary dom stoi nad rzeką.", "en", "fr-en"),
        ("a.tmx", '<tmx><tu><tuv xml:lang="pl"><seg>Stary dom stoi.</seg></tuv></tu></tmx>', "de", "pl-de"),
        ("a.tmx", '<tmx><tu><tuv xml:lang="fr"><seg>La maison.</seg></tuv></tu></tmx>', None, "fr-en"),
    ],
)
def test_the_language_of_a_document_chooses_the_model(
    client: TestClient, name: str, content: str, target: str | None, model: str
) -> None:
    service = client.app.state.service
    read = partial(readable, partial(DocumentFile.read, name, content.encode()))
    assert chosen(service.models, read, None, "auto", target).name == model


def test_a_document_that_is_wrong_is_refused_and_one_with_a_long_name_is_not(client: TestClient) -> None:
    def sent(name: str, content: bytes, **data: str) -> httpx.Response:
        return client.post("/v1/documents", data=data, files={"file": (name, content)})

    assert "4,097 bytes" in refusal_of(sent("a.txt", b"x" * 4097), 413)
    assert "301 characters" in refusal_of(sent("a.txt", b"x" * 301), 413)
    assert refusal_of(sent("a.exe", b"x"), 400).startswith("a.exe: .exe is no format of documents")
    assert "no model translates from de" in refusal_of(sent("a.txt", b"x", source="de"), 400)
    assert "tmx" in refusal_of(sent("a.tmx", b"<tmx", source="auto", target="de"), 400)
    assert refusal_of(client.post("/v1/documents", data={"file": "x"}), 400).startswith("file: ")
    stem = "a" * (MAX_STEM - len(".de"))
    long = sent("a" * 100 + ".txt", b"red cat").headers["Content-Disposition"]
    assert f'filename="{stem}.de.txt"' in long


@pytest.mark.parametrize(
    ("route", "body", "status", "message"),
    [
        ("translate", {}, 400, "text: field required"),
        ("translate", {"text": []}, 400, "there is no text"),
        ("translate", {"text": "x", "colour": 1}, 400, "colour: is no field of this request"),
        ("translate", {"text": "x", "model": "reviews"}, 400, "reviews: no such model translates here"),
        ("translate", {"text": [], "model": "\x1b[2J\n\u202e"}, 400, "\\x1b[2J \\u202e: no such model"),
        ("translate", {"text": "x", "model": "en-de", "source": "pl"}, 400, "en-de: translates from en "),
        ("translate", {"text": "x", "source": "de"}, 400, "no model translates from de to any; "),
        ("translate", {"text": "x", "source": "auto", "target": "it"}, 400, "no model translates from any"),
        ("translate", {"text": "x", "prefix": "y"}, 400, "prefix and required are for one sentence"),
        ("translate", {"text": ["x", "y"], "split": False, "required": ["y"]}, 400, "prefix and required"),
        ("translate", {"text": "x", "glossary": [["a", "b"], ["a"]]}, 400, "glossary.1: list should have "),
        ("translate", {"text": "x", "glossary": [["a", "b"], ["a", "c"]]}, 400, "entry 2: 'a' is to be"),
        ("translate", {"text": "x", "glossary": [["a", "b"]] * 31}, 413, "31 glossary entries are more than"),
        ("translate", {"text": "x", "glossary": [["x", "y"]], "method": "sampling"}, 400, 'method = "beam"'),
        ("translate", {"text": "a b", "glossary": [["a", "x" * 12], ["b", "y" * 12]]}, 413,
         " are more than the 3,000 that limits.required_cost allows; require fewer or shorter phrases"),
        ("translate", {"text": "x" * 601, "stream": True}, 413, "601 characters are more than the 600"),
        ("translate", {"text": ["x"] * 21}, 413, "21 sentences are more than the 20 that limits.sentences"),
        ("translate", {"text": "x", "beam_size": 5}, 413, "than the 4 that limits.beam_size allows"),
        ("translate", {"text": "x", "n_best": 5}, 413, "5 hypotheses are more than the 4"),
        ("translate", {"text": "\ud83d"}, 400, "the body is no JSON: "),
        ("classify", {"text": ["x"] * 21}, 413, "21 texts"),
        ("classify", {"text": "x", "model": "en-de"}, 400, "en-de: no such model classifies here;"),
        ("detect", {"text": "x" * 601}, 413, "601 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    client: TestClient, route: str, body: dict[str, Any], status: int, message: str
) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post(f"/v1/{route}", content=json.dumps(body), headers=headers)
    assert message in refusal_of(response, status)


def test_what_is_no_json_no_route_and_no_method_are_refused_in_one_line(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    for content in (b"", b"{", b"[]", b"\xff", b'"\\ud800"', b"[" * 100_000, b"NaN", b'{"text": NaN}'):
        refusal_of(client.post("/v1/translate", content=content, headers=headers), 400)
    refusal_of(client.post("/v1/translate", data={"text": "x"}), 400)
    refusal_of(client.get("/v1/nothing"), 404)
    refusal_of(client.get("/v1/translate"), 405)


def test_what_is_wrong_with_the_service_is_told_without_its_paths(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of([tiny_run])
    missing = MissingExtraError("sentencex", extra="documents", purpose="this")
    problems = {
        RunError(f"{tiny_run}: is gone"): "internal error of this service; see its log",
        missing: "this needs the package sentencex: pip install 'dragoman[documents]'",
    }
    with TestClient(create_app(service)) as client:
        for problem, message in problems.items():
            monkeypatch.setattr(type(service.models), "translator", Mock(side_effect=problem))
            assert refusal_of(client.post("/v1/translate", json={"text": "x"}), 503) == message


@pytest.mark.slow
def test_a_large_document_is_received_without_a_temporary_file(
    client: TestClient, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    service = service_of([tiny_run], "limits.file_characters=10")
    with TestClient(create_app(service)) as client:
        response = client.post("/v1/documents", files={"file": ("a.txt", b"red cat\n" * 200_000)})
    assert "characters are more than the 10" in refusal_of(response, 413)


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/documents", "/translate"])
def test_a_sender_is_admitted_before_what_is_sent_is_looked_at(tiny_run: Path, path: str) -> None:
    with TestClient(create_app(service_of([tiny_run], "limits.per_minute=1"))) as client:
        kind = "multipart/form-data; boundary=B" if path == "/v1/documents" else "application/json"
        content = b"--B--\r\n" if path == "/v1/documents" else b"{}"
        statuses = [
            client.post(path, content=content, headers={"Content-Type": kind}).status_code for _ in range(2)
        ]
    assert statuses == [400, 429]
