"""Runs put on a hub and fetched from it: the same model comes back, and nothing goes out that should not."""

import json
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception

import pytest
import yaml

pytest.importorskip("huggingface_hub")

from huggingface_hub import constants

from commands import dragoman, error_of, succeed
from dragoman import Classifier, Translator, push_to_hub
from dragoman.config import load_recipe
from dragoman.errors import RunError
from dragoman.hub import HubName, is_on_hub
from dragoman.runs import Run
from hub import TOKEN, Hub, hub_on_this_machine

pytestmark = pytest.mark.filterwarnings(
    "default::DeprecationWarning:huggingface_hub", "default::DeprecationWarning:httpx2"
)
"""Those of the hub's package about its own HTTP library."""

NAME = "someone/tiny-en-de"
SOURCES = ["the red cat", "a big house", ""]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub and an empty cache, and nobody logged in."""
    with hub_on_this_machine() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.address)
        template = running.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield running


def sent(hub: Hub) -> dict[str, bytes]:
    """The files of the newest version of the model."""
    files: dict[str, bytes] = hub.models[NAME].versions[-1][1]
    return files


@pytest.fixture
def pushed(hub: Hub, tiny_run: Path) -> Hub:
    """A hub with the tiny translator."""
    push_to_hub(tiny_run, NAME, private=False, token=TOKEN)
    return hub


def test_what_is_pushed_translates_as_the_run_does(pushed: Hub, tiny_run: Path) -> None:
    there, here = Translator.from_pretrained(NAME), Translator.load(tiny_run)
    assert there.translate(SOURCES) == here.translate(SOURCES)
    assert Translator.from_pretrained(tiny_run).translate(SOURCES) == here.translate(SOURCES)
    fetched, pushed_one = Run.open(f"hf:{NAME}").config, load_recipe(tiny_run / "config.toml")
    assert fetched.model_dump(exclude={"data"}) == pushed_one.model_dump(exclude={"data"})


def test_only_what_a_run_needs_travels_without_folders_of_this_machine(
    hub: Hub, tiny_run: Path, run: Path
) -> None:
    home = str(tiny_run.parent).encode()
    assert home in (run / "config.toml").read_bytes()
    Run.open(run).write_json("report.json", {"imported": {"path": f"{tiny_run.parent}/opus"}})
    (run / "notes-of-mine.txt").write_text("secret")
    push_to_hub(run, NAME, token=TOKEN)
    files = sent(hub)
    assert {name for name in files if not name.startswith(".")} == {
        "README.md", "config.toml", "environment.json", "model.safetensors", "report.json",
        "tokenizer/shared.json",
    }  # fmt: skip
    assert files["model.safetensors"] == (run / "model.safetensors").read_bytes()
    assert hub.models[NAME].private, "unless it is said to be public"
    assert all(home not in content for content in files.values())
    assert json.loads(files["report.json"]) == {"imported": {"path": "opus"}}
    (run / "config.toml").write_bytes(files["config.toml"])
    data = Run.open(run).config.data
    assert (data.train, data.test) == (("train.en", "train.de"), {"tiny-test": ("test.en", "test.de")})
    n_requests = len(hub.requests)
    (run / "model.safetensors").unlink()
    assert "holds no model.safetensors yet" in error_of("push", run, NAME)
    assert len(hub.requests) == n_requests


def test_what_a_new_version_lacks_is_removed_and_what_is_not_ours_stays(pushed: Hub, tiny_run: Path) -> None:
    pushed.put(NAME, sent(pushed) | {"tokenizer/src.json": b"{}", "LICENSE": b"mine"})
    push_to_hub(tiny_run, NAME, token=TOKEN)
    assert "tokenizer/src.json" not in sent(pushed)
    assert sent(pushed)["LICENSE"] == b"mine"


def test_a_revision_is_that_version(pushed: Hub) -> None:
    first, files = pushed.models[NAME].versions[-1]
    second = pushed.put(NAME, files | {"config.toml": files["config.toml"].replace(b'"tiny"', b'"tinier"')})
    assert Run.open(f"hf:{NAME}").config.name == "tinier"
    assert Run.open(f"hf:{NAME}@{first}").config.name == "tiny"
    assert Run.open(f"hf:{NAME}@{second}").config.name == "tinier"
    assert Translator.from_pretrained(NAME, revision=first).config.name == "tiny"
    with pytest.raises(RunError, match=r"the hub has no such revision; give a branch, a tag or a commit"):
        Translator.from_pretrained(NAME, revision="none")


def test_a_private_model_needs_the_token_which_is_never_shown(
    hub: Hub, tiny_run: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    hub.status = 403
    with pytest.raises(RunError, match="the hub answered 403; the token has not the right to; give another"):
        push_to_hub(tiny_run, NAME, token=TOKEN)
    assert hub.models == {}
    hub.status = 200
    push_to_hub(tiny_run, NAME, token=TOKEN)
    with pytest.raises(RunError, match="the hub has no such model, or it is private") as nobody:
        Translator.from_pretrained(NAME)
    with pytest.raises(RunError) as wrong:
        Translator.from_pretrained(NAME, token=TOKEN + "x")
    assert Translator.from_pretrained(NAME, token=TOKEN).translate(["the cat"])
    causes = (*format_exception(nobody.value), *format_exception(wrong.value))
    assert TOKEN not in "".join((*capfd.readouterr(), caplog.text, *causes))
    assert all(TOKEN.encode() not in content for content in sent(hub).values())


def test_a_fetched_run_needs_no_network(pushed: Hub, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Translator.from_pretrained(NAME).translate(SOURCES)
    pushed.server.shutdown()
    pushed.server.server_close()
    assert Translator.from_pretrained(NAME).translate(SOURCES) == first
    with pytest.raises(RunError, match="the hub cannot be reached, and the cache has not all of it"):
        Translator.from_pretrained("someone/other")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert Translator.from_pretrained(NAME).translate(SOURCES) == first


@pytest.mark.slow
def test_commands_take_a_name_of_the_hub_for_a_run(pushed: Hub, tiny_run: Path) -> None:
    text = "the red cat\n"
    there, here = (succeed("translate", run, stdin=text).stdout for run in (f"hf:{NAME}", tiny_run))
    assert there == here
    shown = succeed("show", f"hf:{NAME}").stdout
    assert "tiny · en → de" in shown
    source, reference = (tiny_run.parent / f"test.{side}" for side in ("en", "de"))
    succeed("evaluate", f"hf:{NAME}", "--src", source, "--ref", reference)
    assert not (Run.open(f"hf:{NAME}").path / "scores.json").exists(), "the cache is not ours to write to"
    assert f'Translator.from_pretrained("{NAME}")' in succeed("card", f"hf:{NAME}").stdout


@pytest.mark.slow
def test_a_run_of_the_hub_cannot_choose_among_the_files_of_this_machine(pushed: Hub, tmp_path: Path) -> None:
    files, diary = sent(pushed), tmp_path / "diary.txt"
    diary.write_text("mine\n")
    elsewhere = ("../diary.txt", "s3://bucket/diary.txt", f"hf:{tmp_path}:train", "hf:../diary")
    for file in (str(diary), diary.as_uri(), *elsewhere):
        config = files["config.toml"].replace(b'"test.en"', f'"{file}"'.encode())
        pushed.put(NAME, files | {"config.toml": config})
        line = error_of("evaluate", f"hf:{NAME}")
        assert f"names {file} as data.test.tiny-test; a run of the hub cannot choose among your files" in line


def test_the_push_command_prints_the_address_and_what_comes_next(
    hub: Hub, tiny_run: Path, tiny_classifier_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    pushed = dragoman("push", tiny_run, NAME, "--public", "--license", "cc0-1.0")
    assert pushed.exit_code == 0, pushed.stderr
    assert pushed.stdout == f"{hub.address}/{NAME}\n"
    assert f"next: dragoman translate hf:{NAME}" in pushed.stderr
    assert TOKEN not in pushed.output
    card = sent(hub)["README.md"].decode()
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc0-1.0"
    assert f"next: dragoman classify hf:{NAME}" in dragoman("push", tiny_classifier_run, NAME).stderr
    there, here = Classifier.from_pretrained(NAME), Classifier.load(tiny_classifier_run)
    assert there.temperature == here.temperature
    assert there.classify(["a good cat", "an awful dog"]) == here.classify(["a good cat", "an awful dog"])


def test_a_card_of_the_users_own_is_taken_as_it_is(hub: Hub, run: Path) -> None:
    (run / "README.md").write_text("# Mine\n")
    push_to_hub(run, NAME, token=TOKEN)
    assert sent(hub)["README.md"] == b"# Mine\n"
    with pytest.raises(RunError, match=r"README\.md: is the card that you wrote; say the licence there"):
        push_to_hub(run, NAME, token=TOKEN, licence="mit")


def test_names_of_the_hub() -> None:
    for name, parsed in {
        "user/model": HubName("user/model"),
        "hf:user/model@v1.0": HubName("user/model", "v1.0"),
        "user/model@refs/pr/1": HubName("user/model", "refs/pr/1"),
    }.items():
        assert HubName.parse(name) == HubName.parse(str(parsed)) == parsed
    with pytest.raises(RunError, match="names the revision a, and revision = 'b' another"):
        HubName.parse("user/model@a", revision="b")


def test_what_is_no_name_is_refused_without_asking(hub: Hub) -> None:
    for name in ("model", "user/", "../model", "a/..", "a/b/c", "a b/c", "user/model@../x"):
        with pytest.raises(RunError, match=r"is no (name of the hub|revision)"):
            Translator.from_pretrained(name)
    assert hub.requests == []


def test_a_run_of_the_hub_has_a_place_that_other_machines_can_open(pushed: Hub, tmp_path: Path) -> None:
    place = Run.open(Path(f"hf:{NAME}")).path.resolve()
    assert Run.open(place).weights_path.exists()
    assert is_on_hub("hf:user/model")
    assert not is_on_hub(tmp_path / "hf:user")
    assert not is_on_hub("runs/hf:x")
