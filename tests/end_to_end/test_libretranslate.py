"""LibreTranslate's clients against this service, over a real connection."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("libretranslatepy")

from libretranslatepy import LibreTranslateAPI

from dragoman.documents import translate_file
from dragoman.predict.translator import Translator
from dragoman.serving.access import make_key
from services import refusal_of, running, service_of

HTTP = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))


class Running(NamedTuple):
    """A service, and where it is."""

    url: str
    key: str = ""

    def post(self, path: str, body: Any) -> httpx.Response:
        return HTTP.post(f"{self.url}{path}", json=body)


@pytest.fixture(scope="module")
def free(tiny_run: Path) -> Iterator[Running]:
    """A service that needs no keys."""
    with running(service_of([tiny_run], "limits.characters=500", "limits.beam_size=4")) as url:
        yield Running(url)


@pytest.fixture(scope="module")
def locked(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that needs keys."""
    file = tmp_path_factory.mktemp("keys") / "keys.toml"
    key = make_key(file, "somebody")
    with running(service_of([tiny_run], keys=file)) as url:
        yield Running(url, key)


def test_the_client_gets_the_translation_of_each_sentence(free: Running, translator: Translator) -> None:
    first, second = (each.text for each in translator.translate(["A red cat.", "A big old house."]))
    found = LibreTranslateAPI(free.url).translate("A red cat. A big old house.", "en", "de")
    assert found == f"{first} {second}".strip()


def test_the_client_learns_which_languages_there_are_and_which_a_text_has(free: Running) -> None:
    client = LibreTranslateAPI(free.url)
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "de", "name": "German", "targets": ["de"]},
    ]
    found = client.detect("Wo ist denn der Bahnhof?")
    assert [each["language"] for each in found] == ["de", "en"], "no others are served"
    assert 100 >= found[0]["confidence"] >= found[1]["confidence"] >= 0


def test_the_client_needs_the_right_key_where_keys_are_needed(locked: Running) -> None:
    with_key = LibreTranslateAPI(locked.url, api_key=locked.key)
    assert isinstance(with_key.translate("A red cat.", "en", "de"), str)
    assert with_key.detect("A red cat.")
    assert LibreTranslateAPI(locked.url).languages()
    for key, message in {None: "Please contact the server operator", "wrong": "Invalid API key"}.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            LibreTranslateAPI(locked.url, api_key=key).translate("A red cat.", "en", "de")
        with refused.value as answer:
            assert answer.code == 403
            assert json.load(answer)["error"].startswith(message)


def test_a_key_may_stand_in_the_body_the_query_or_a_header(locked: Running) -> None:
    asked = {"q": "red", "source": "en", "target": "de"}
    given = {"api_key": locked.key}
    url = f"{locked.url}/translate"
    answers = [
        HTTP.post(url, json=asked | given),
        HTTP.post(url, data=asked | given),
        HTTP.post(url, files={name: (None, value) for name, value in (asked | given).items()}),
        HTTP.post(url, params=asked | given),
        HTTP.post(url, json=asked, params=given),
        HTTP.post(url, json=asked, headers={"Authorization": f"Bearer {locked.key}"}),
        HTTP.post(url, json=asked, headers={"X-API-Key": locked.key}),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert len({answer.text for answer in answers}) == 1


def test_who_comes_too_often_is_told_to_slow_down(tiny_run: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys.toml", "hasty", per_minute=2)
    with running(service_of([tiny_run], keys=tmp_path / "keys.toml")) as url:
        asked = {"q": "red", "source": "en", "target": "de", "api_key": key}
        answers = [HTTP.post(f"{url}/translate", json=asked) for _ in range(3)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    assert refusal_of(answers[2], 429).startswith("Slowdown: ")
    assert int(answers[2].headers["Retry-After"]) > 0


def test_a_list_of_texts_is_answered_with_lists(free: Running) -> None:
    texts = ["A red cat.", "", "A blue bird."]
    asked = {"source": "en", "target": "de", "alternatives": 2}
    together = free.post("/translate", asked | {"q": texts, "api_key": ""}).json()  # Weblate sends no key so
    assert together["translatedText"][1] == ""
    for i in (0, 2):
        alone = free.post("/translate", asked | {"q": texts[i]}).json()
        long = free.post("/translate", asked | {"q": [texts[i] * 25] * 3})
        assert long.status_code == 200, "each has a limit"
        assert alone["translatedText"] == together["translatedText"][i]
        assert alone["alternatives"] == together["alternatives"][i]


def test_alternatives_are_others_of_the_search(free: Running, translator: Translator) -> None:
    asked = {"q": "A red cat.", "source": "en", "target": "de"}
    assert "alternatives" not in free.post("/translate", asked).json()
    (found,) = translator.translate(["A red cat."], n_best=4, beam_size=4)
    answer = free.post("/translate", asked | {"alternatives": 3}).json()
    others = [each.text for each in found.alternatives[1:] if each.text not in ("", found.text)]
    assert answer == {"translatedText": found.text, "alternatives": list(dict.fromkeys(others))}


def test_a_text_that_is_in_the_target_language_stays(free: Running) -> None:
    text = "Das alte Haus steht am Fluss."
    for source in ("auto", "de"):
        asked = {"q": text, "source": source, "target": "de", "alternatives": 1}
        answer = free.post("/translate", asked).json()
        detected = answer.pop("detectedLanguage", None)
        assert answer == {"translatedText": text, "alternatives": []}
        assert (source == "auto") == (detected is not None)


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_a_form_is_read_as_the_same_text_in_json(free: Running, path: str) -> None:
    """Raw bytes are UTF-8, lines end in one way, and the last one without an end."""
    asked = {"source": "en", "target": "de"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def answer_to(content: bytes) -> httpx.Response:
        content += b"&source=en&target=de&api_key="
        return HTTP.post(f"{free.url}{path}", content=content, headers=form)

    for text in ("Straße café 😀 1+1", "red cat\nold house"):
        expected = free.post(path, asked | {"q": text}).json()
        lines = text.replace("\n", "\r\n") + "\r\n"
        assert HTTP.post(f"{free.url}{path}", data=asked | {"q": lines}).json() == expected
        assert answer_to(b"q=" + text.replace("+", "%2B").encode()).json() == expected
    for broken in (b"q=caf\xe9", b"q=caf%E9"):
        assert refusal_of(answer_to(broken), 400) == "Invalid request: the form is not UTF-8"


def test_markup_stays_and_text_between_is_translated(free: Running, translator: Translator) -> None:
    q = "<p class='a&amp;b'>\n  <b>red cat</b>\n</p> <script>if (1 < 2) \"red\"</script> 12 &lt; 13"
    answer = free.post("/translate", {"q": q, "source": "en", "target": "de", "format": "html"}).json()
    (cat,) = (each.text for each in translator.translate(["red cat"]))
    escaped = cat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert answer["translatedText"] == q.replace("red cat", escaped)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"q": ["a", {}]}, "Invalid request: q parameter is not a text, nor a list of texts"),
        ({"q": "\ud83d"}, "Invalid request: q parameter holds half of a surrogate pair, which is no text"),
        ({"source": 5}, "Invalid request: source parameter is not a text"),
        ({"target": "xx\n" + "y" * 100}, "xx " + "y" * 37 + " is not supported"),
        ({"source": "de", "target": "en"},
         "English (en) is not available as a target language from German (de)"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 4}, "Invalid request: alternatives parameter must be <= 3"),
        ({"q": "x" * 501}, "Invalid request: request (501) exceeds text limit (500)"),
    ],
)  # fmt: skip
def test_mistakes_are_said_as_by_libretranslate(free: Running, changed: dict[str, Any], message: str) -> None:
    asked = {"q": "A red cat.", "source": "en", "target": "de"} | changed
    body = json.dumps({name: value for name, value in asked.items() if value is not None})
    headers = {"Content-Type": "application/json"}
    answer = HTTP.post(f"{free.url}/translate", content=body, headers=headers)
    assert refusal_of(answer, 400) == message


def test_what_is_no_object_is_no_request(free: Running) -> None:
    for body in ("[1]", "{", "\xff", "[" * 100_000):
        for path in ("/translate", "/detect", "/translate_file"):
            headers = {"Content-Type": "application/json"}
            answer = HTTP.post(f"{free.url}{path}", content=body.encode("latin-1"), headers=headers)
            assert refusal_of(answer, 400) == "Invalid JSON format"


def send_file(where: Running, name: str, content: bytes, **fields: str) -> httpx.Response:
    """What /translate_file answers."""
    data = {"source": "en", "target": "de"} | fields
    return HTTP.post(f"{where.url}/translate_file", data=data, files={"file": (name, content)})


def test_a_file_is_translated_and_fetched_under_its_name(free: Running, translator: Translator) -> None:
    content = b"A red cat.\n\nA big old house.\n"
    for source in ("en", "auto"):
        answer = send_file(free, "../secret/żółw letter.txt", content, source=source)
        url = answer.json()["translatedFileUrl"]
        assert url.startswith(f"{free.url}/download_file/")
        fetched = HTTP.get(url)
        assert fetched.content == translate_file(translator, "letter.txt", content)
        disposition = fetched.headers["Content-Disposition"]
        assert disposition == (
            'attachment; filename="___w letter.de.txt"; '
            "filename*=UTF-8''%C5%BC%C3%B3%C5%82w%20letter.de.txt"
        )


def test_a_file_that_is_wrong_is_refused(free: Running) -> None:
    assert refusal_of(send_file(free, "a.exe", b"x"), 400) == "Invalid request: file format not supported"
    unreadable = refusal_of(send_file(free, "a.txt", b"\xff\xfe\xfa"), 400)
    assert unreadable.startswith("a.txt, line 1: is not UTF-")
    assert refusal_of(send_file(free, "a.docx", b"x"), 400).startswith("a.")
    assert refusal_of(send_file(free, "a.txt", b"x", target="pl"), 400) == "pl is not supported"
    without = HTTP.post(f"{free.url}/translate_file", data={"source": "en", "target": "de"})
    assert refusal_of(without, 400) == "Invalid request: missing file parameter"


def test_only_what_was_translated_can_be_fetched(free: Running) -> None:
    for name in (
        "nothing.txt",
        "..%2f..%2fetc%2fpasswd",
        f"{'a' * 32}.txt",
        f"{'a' * 32}.{'b' * 300}",
        "%ff",
    ):
        refusal_of(HTTP.get(f"{free.url}/download_file/{name}"), 404)


def test_a_page_learns_what_the_service_is_like(free: Running, locked: Running) -> None:
    settings = HTTP.get(f"{free.url}/frontend/settings").json()
    assert settings.pop("supportedFilesFormat")[0] == ".txt"
    assert settings == {
        "apiKeys": False, "charLimit": 500, "filesTranslation": True, "frontendTimeout": 500,
        "keyRequired": False, "suggestions": False,
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"}, "target": {"code": "de", "name": "German"},
        },
    }  # fmt: skip
    assert HTTP.get(f"{locked.url}/frontend/settings").json()["keyRequired"] is True
    # Dialect, the program of GNOME, asks for an interface of this name before it accepts the address.
    assert HTTP.get(f"{locked.url}/spec").json()["info"]["title"] == "LibreTranslate"
