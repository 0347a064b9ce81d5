"""A service of a model of several directions, and of pairs that two of them make together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from dragoman.documents import FORMATS
from dragoman.predict.alignment import joined_links
from dragoman.predict.results import Link
from dragoman.predict.translator import Translator
from dragoman.serving import translating
from dragoman.serving.app import create_app
from dragoman.serving.settings import LimitsConfig
from services import answer_of, named, refusal_of, service_of


@pytest.fixture(scope="module")
def client(tiny_many: Path, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Of en ↔ de and en → fr in one model, and pl → en in another."""
    polish = named(tiny_run, tmp_path_factory.mktemp("models"), "polish", source="pl", target="en")
    with TestClient(create_app(service_of([tiny_many, polish], n_threads=1))) as made:
        yield made


@pytest.fixture(scope="module")
def translator(tiny_many: Path) -> Translator:
    return Translator.load(tiny_many, device="cpu", precision="fp32")


def test_every_direction_is_listed_and_those_through_a_pivot_last(client: TestClient) -> None:
    told = client.get("/v1/models").json()
    assert (told["needs_key"], told["formats"]) == (False, list(FORMATS))
    assert told["limits"]["characters"] == LimitsConfig().characters
    models = told["models"]
    found = [(m["source"], m["target"], m.get("pivot"), m["name"]) for m in models]
    assert found == [
        ("en", "de", None, "run"), ("de", "en", None, "run"), ("en", "fr", None, "run"),
        ("pl", "en", None, "polish"),
        ("de", "fr", "en", "run"), ("pl", "de", "en", "polish+run"), ("pl", "fr", "en", "polish+run"),
    ]  # fmt: skip


def test_each_direction_is_what_the_translator_makes_of_it(
    client: TestClient, translator: Translator
) -> None:
    for source, target in (("en", "de"), ("de", "en"), ("en", "fr")):
        answer = answer_of(client, "translate", text="red cat", source=source, target=target, split=False)
        assert (answer["source"], answer["target"]) == (source, target)
        assert "pivot" not in answer
        (expected,) = translator.translate(["red cat"], to=f"{source}-{target}")
        assert answer["translations"][0]["text"] == expected.text


def test_terms_of_the_source_are_required_of_the_last_translation_behind_a_pivot(
    client: TestClient, translator: Translator
) -> None:
    asked = {"text": "rot Katze 12.50", "source": "de", "target": "fr", "split": False}
    answer = answer_of(client, "translate", **asked, glossary=[["Katze", "chat"]])
    between = translator.translate(["rot Katze 12.50"], to="de-en")[0].text
    (expected,) = translator.translate([between], to="en-fr", required=[["chat"]])
    assert answer["translations"][0]["text"] == expected.text
    answer = answer_of(client, "translate", **asked, protect=True, glossary=[["Katze", "chat"]])
    assert all(piece in answer["translations"][0]["text"] for piece in ("12.50", "chat"))


def test_a_pair_without_a_model_goes_through_two_on_every_route(
    client: TestClient, translator: Translator
) -> None:
    body = {"text": "rot Katze", "source": "de", "target": "fr", "align": True, "confidence": True}
    answer = answer_of(client, "translate", **body)
    assert (answer["pivot"], answer["model"]) == ("en", "run")
    between = translator.translate(["rot Katze"], to="de-en")[0].text
    (expected,) = translator.translate([between], to="en-fr")
    assert answer["translations"][0]["text"] == expected.text
    assert '"pivot":"en"' in client.post("/v1/translate", json={**body, "stream": True}).text
    found = client.post("/translate", json={"q": "rot Katze", "source": "de", "target": "fr"})
    assert found.json()["translatedText"] == expected.text
    languages = {one["code"]: one["targets"] for one in client.get("/languages").json()}
    assert languages["pl"] == ["de", "en", "fr", "pl"]
    assert languages["fr"] == ["fr"], "nothing translates from it"


GERMAN, POLISH = "Wo ist der Bahnhof? Das alte Haus steht am Fluss.", "Gdzie jest dworzec? Stary dom stoi."


@pytest.mark.parametrize(
    ("text", "asked", "direction"),
    [
        (GERMAN, {}, "de-en"),
        (GERMAN, {"model": "run", "target": "fr"}, "de-fr"),
        (GERMAN, {"model": "run", "target": "de"}, "en-de"),
        (POLISH, {"target": "de"}, "pl-de"),
    ],
)
def test_auto_is_a_language_of_the_models_that_may_answer(
    client: TestClient, text: str, asked: dict[str, str], direction: str
) -> None:
    answer = answer_of(client, "translate", text=text, source="auto", **asked)
    assert f"{answer['source']}-{answer['target']}" == direction
    file = {"file": ("a.txt", text.encode())}
    sent = client.post("/v1/documents", data={"source": "auto", **asked}, files=file)
    target = answer["target"]
    expected = client.post("/v1/documents", data={**asked, "source": answer["source"]}, files=file)
    assert f"a.{target}.txt" in sent.headers["Content-Disposition"]
    assert sent.content == expected.content
    if "model" not in asked:
        theirs = client.post("/translate", json={"q": text, "source": "auto", "target": target}).json()
        assert theirs["detectedLanguage"]["language"] == answer["source"]


PORTUGUESE, CHINESE = "Onde fica a estação? A casa velha fica perto do rio.", "那座老房子在河边。"


def test_auto_finds_variants_and_the_language_of_each_text_by_itself(tiny_run: Path, tmp_path: Path) -> None:
    texts = {"pb": PORTUGUESE, "zh-Hant": CHINESE, "de": GERMAN}
    runs = [named(tiny_run, tmp_path, code, source=code, target="en") for code in texts]
    with TestClient(create_app(service_of(runs))) as made:

        def translated(text: str | list[str], source: str, target: str = "en") -> Any:
            return made.post("/translate", json={"q": text, "source": source, "target": target}).json()

        english = "Where is the station? The old house stands by the river."
        answer = translated([*texts.values(), english], "auto")
        assert [each["language"] for each in answer["detectedLanguage"]] == [*texts, "en"]
        assert all(each["confidence"] > 50 for each in answer["detectedLanguage"])
        expected = [translated(text, code)["translatedText"] for code, text in texts.items()]
        assert answer["translatedText"] == [*expected, english]
        assert translated("Stary dom stoi.", "auto")["detectedLanguage"]["language"] in texts, "not English"
        assert "(pb) is not available as a target" in translated(PORTUGUESE, "pt", "pt-BR")["error"]
        line = translated(english, "auto", "de")["error"]
        assert "(de) is not available as a target language from English" in line
        models = {"pt": "pb", "pt_BR": "pb", "de-AT": "de", "zh_tw": "zh-Hant", "auto": "pb"}
        for code, model in models.items():
            answer = answer_of(made, "translate", text=PORTUGUESE, source=code, target="en-GB")
            assert answer["source"] == model


def test_one_source_needs_no_detection_and_none_is_an_error(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translating, "detect", lambda *_: pytest.fail("nothing is to be detected"))
    answer = answer_of(client, "translate", text="Das alte Haus", source="auto", model="polish")
    assert answer["source"] == "pl"
    asked = {"text": "Das alte Haus", "source": "auto", "target": "de", "model": "polish"}
    line = refusal_of(client.post("/v1/translate", json=asked), 400)
    assert "polish: translates from pl to en; leave source and target" in line


def test_links_of_two_steps_meet_in_the_words_between() -> None:
    before = [Link(0, 3, 5, 8, 0.5), Link(4, 9, 0, 4, 0.8)]
    after = [Link(0, 4, 0, 2, 0.5), Link(5, 8, 3, 6, 1.0), Link(20, 22, 7, 9, 0.9)]
    assert joined_links(before, after) == [Link(4, 9, 0, 2, 0.4), Link(0, 3, 3, 6, 0.5)]
