"""What translators search with: threads, and compiled code or PyTorch."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from commands import error_of, succeed
from dragoman.errors import ConfigError, DataError
from dragoman.model.compiled import why_not_compiled
from dragoman.predict.engine import CompiledEngine
from dragoman.predict.threads import map_in_threads
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.text.tokenizer import EOS_ID
from exports import untrained_run
from sharing import made_once
from small_models import small_model
from tiny import WORDS

needs_int8 = pytest.mark.skipif(
    bool(why_not_compiled(small_model().config, "int8")), reason="there is no compiled code for int8"
)
SENTENCES = ["red cat", "big old house", "", "small bird river tree", "blue dog", " ", "green"] * 7


def test_results_come_in_the_order_of_the_items() -> None:
    def slow_square(x: int) -> int:
        time.sleep(0.002 * (x % 3))
        return x * x

    assert list(map_in_threads(slow_square, range(20), 3)) == [x * x for x in range(20)]


def test_an_error_in_a_thread_is_raised_and_nothing_more_is_begun() -> None:
    begun = []

    def fail_at_three(x: int) -> int:
        begun.append(x)
        if x == 3:
            raise DataError("three")
        return x

    with pytest.raises(DataError, match="three"):
        list(map_in_threads(fail_at_three, range(1000), 2))
    assert len(begun) < 20
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")]


def test_two_threads_translate_as_one_does(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for n_threads in (1, 2):
        monkeypatch.setattr(translator.engine, "n_threads", n_threads)
        found.append(translator.translate(SENTENCES))
    assert [t.text for t in found[0]] == [t.text for t in found[1]]
    assert [t.score for t in found[0]] == pytest.approx([t.score for t in found[1]], rel=1e-4)


def test_without_compiled_code_pytorch_finds_the_same(
    translator: Translator, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("loading", "torch_engine"):
        monkeypatch.setattr(f"dragoman.predict.{module}.why_not_compiled", lambda *_: "a test")
    other = Translator.load(tiny_run, device="cpu", precision="fp32")
    assert (type(translator.engine), type(other.engine)) == (CompiledEngine, TorchEngine)
    found, expected = other.translate(SENTENCES), translator.translate(SENTENCES)
    assert [t.text for t in found] == [t.text for t in expected]
    assert [t.score for t in found] == pytest.approx([t.score for t in expected], rel=1e-4)


@pytest.fixture(scope="module")
def taught_run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows SENTENCES by heart, so that no engine has a reason to choose otherwise."""

    def make(folder: Path) -> None:
        known = sorted({sentence for sentence in SENTENCES if sentence.strip()}) * 40
        for name, words in {"train.en": {}, "train.de": WORDS}.items():
            lines = [" ".join(words.get(word, word) for word in sentence.split()) for sentence in known]
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        config = Run.open(tiny_run).config
        files = (str(folder / "train.en"), str(folder / "train.de"))
        training = {"max_steps": 200, "valid_every": 200, "learning_rate": 0.01, "warmup_steps": 20}
        model = {"d_model": 32, "d_ff": 64, "dropout": 0.0}
        sections = {
            "data": config.data.model_copy(update={"train": files}),
            "training": config.training.model_copy(update=training),
            "model": config.model.model_copy(update=model),
            "search": config.search.model_copy(update={"max_length_extra": 20}),
        }
        train(config.model_copy(update=sections), folder / "run")

    return made_once(tmp_path_factory, "taught", make) / "run"


@pytest.mark.parametrize(
    "settings", [{"beam_size": 1}, {"beam_size": 3, "n_best": 3}, {"method": "sampling"}]
)
def test_no_translation_is_empty_however_probable_the_end_is(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    path = untrained_run(tmp_path / "r", model={"output_bias": True})
    run = Run.open(path)
    weights = run.load_weights()
    weights["output.bias"][EOS_ID] += 20.0
    run.save_weights(weights)
    native = Translator.load(path, precision="fp32")
    for translation in native.translate([*SENTENCES, ""], **settings):
        for alternative, ids in zip(translation.alternatives, translation.ids, strict=True):
            assert bool(ids) == bool(translation.source.strip()), alternative
    found = native.translate(SENTENCES, **settings)
    assert found[0].score < -5, "the end that was forbidden still has its probability"


@pytest.mark.slow
@needs_int8
@pytest.mark.parametrize("beam_size", [1, 3])
def test_int8_finds_what_fp32_finds(taught_run: Path, beam_size: int) -> None:
    native, rounded = (Translator.load(taught_run, precision=p) for p in ("fp32", "int8"))
    expected = native.translate(SENTENCES, beam_size=beam_size)
    found = rounded.translate(SENTENCES, beam_size=beam_size)
    assert [t.text for t in found] == [t.text for t in expected]
    assert [t.score for t in found] == pytest.approx([t.score for t in expected], abs=0.1)
    assert [t.score for t in found] != pytest.approx([t.score for t in expected], rel=1e-5)


def test_int8_is_refused_where_the_processor_is_not_made_for_it(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.predict.loading.why_not_compiled", lambda *_: "there is no C compiler")
    with pytest.raises(ConfigError, match='precision int8: there is no C compiler; use precision "auto"'):
        Translator.load(tiny_run, precision="int8")


@needs_int8
def test_the_command_translates_in_int8_and_scores_in_more(run: Path, tmp_path: Path) -> None:
    result = succeed("translate", run, "--precision", "int8", stdin="red cat\n\n")
    assert len(result.stdout.splitlines()) == 2
    text = tmp_path / "text"
    text.write_text("red cat\n", encoding="utf-8")
    line = error_of("score-model", run, text, text, "--precision", "int8")
    assert "--precision int8: is for search only" in line
