"""Translations of a run's test sets: made once, kept, and made again where anything has changed."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.evaluation.scores import FOLDER, keep_scores
from dragoman.hub import HubName
from dragoman.predict.shortlist import N_RESERVED, SHORTLIST, Shortlist
from dragoman.runs import Run, saved_scores
from dragoman.tasks.request import EvaluationRequest
from dragoman.tasks.translation.evaluation import scores_of
from dragoman.tasks.translation.kept import TranslatedSet, Translations, kept_name
from dragoman.text.tokenizer import TokenizerPair

ON_CPU = EvaluationRequest(device="cpu", precision="fp32")
KEPT = f"{FOLDER}/test-tiny-test.json"


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Run:
    shutil.copytree(tiny_run, tmp_path / "run")
    return Run.open(tmp_path / "run")


def translate(run: Run, split: str = "test") -> tuple[TranslatedSet, bool]:
    """The run's set, and whether it was translated now."""
    messages: list[str] = []
    translations = Translations(run, replace(ON_CPU, say=messages.append))
    (found,) = translations.sets(split)
    return found, bool(messages)


def test_the_same_run_is_translated_once(run: Run) -> None:
    first, translated = translate(run)
    again, translated_again = translate(run)
    assert (translated, translated_again) == (True, False)
    assert again == first
    assert (len(first.sources), first.n_lines) == (15, 15)
    scores = scores_of(first.evaluation.hypotheses, first.evaluation.references, tgt_lang="de")
    assert first.evaluation.scores == tuple(scores)
    Translations(run, ON_CPU).sets("valid", max_sentences=3)
    assert [record["name"] for record in saved_scores(run)] == ["tiny-test"], "those of a part are not kept"
    assert saved_scores(run)[0]["scores"][0]["value"] == scores[0].value


def test_nothing_is_kept_of_a_run_of_the_hub(run: Run) -> None:
    of_hub = replace(run, origin=HubName("someone/tiny"))
    assert translate(of_hub)[1]
    assert translate(of_hub)[1], "and so it is translated again"
    assert not (run.path / FOLDER).exists()
    assert saved_scores(run) == []


@pytest.mark.slow
def test_another_shortlist_other_settings_weights_or_texts_are_translated_again(run: Run) -> None:
    def change(old: str, new: str) -> None:
        config = run.config_path.read_text(encoding="utf-8")
        run.config_path.write_text(config.replace(old, new), encoding="utf-8")

    (run.path / SHORTLIST).unlink(missing_ok=True)
    translate(run)
    n_tokens = TokenizerPair.load(run.tokenizer_folder).src.vocab_size
    Shortlist(np.arange(N_RESERVED, 12), np.full((n_tokens, 1), -1)).save(run)
    assert translate(run)[1]
    change("beam_size = 3", "beam_size = 2")
    changed = Run.open(run.path)
    assert translate(changed)[1]
    assert not translate(changed)[1]
    changed.save_weights({name: tensor * 0.5 for name, tensor in run.load_weights().items()})
    assert translate(changed)[1]
    test_file = Path(changed.config.data.test["tiny-test"][1])
    other = test_file.with_name("other.de")
    other.write_text(test_file.read_text(encoding="utf-8").replace("Hund", "Köter"), encoding="utf-8")
    change(str(test_file), str(other))
    assert translate(Run.open(run.path))[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [{"hypotheses": [1] * 15}, {"hypotheses": [""]}, {"scores": [{}]}, {"references": [""] * 15}, None],
)
def test_what_is_damaged_is_made_again(run: Run, damage: dict[str, Any] | None) -> None:
    whole, _ = translate(run)
    path = run.path / KEPT
    record = json.loads(path.read_text(encoding="utf-8"))
    damaged = record | {"evaluation": record["evaluation"] | (damage or {})}
    path.write_text("{" if damage is None else json.dumps(damaged), encoding="utf-8")
    again, translated = translate(run)
    assert translated
    assert again.evaluation.hypotheses == whole.evaluation.hypotheses


@pytest.mark.slow
def test_altered_text_is_translated_once_and_again_if_what_is_kept_is_damaged(run: Run) -> None:
    messages: list[str] = []
    translations = Translations(run, replace(ON_CPU, say=messages.append))
    (found,) = translations.sets("test")
    messages.clear()
    rows = translations.altered(found)
    assert translations.altered(found) == rows
    assert len(messages) == 1
    kept = run.path / FOLDER / kept_name("altered", found.name)
    whole = kept.read_bytes()
    for damaged in (whole[:-9], whole.replace(b'"empty"', b'"full"')):
        kept.write_bytes(damaged)
        assert translations.altered(found) == rows
        assert kept.read_bytes() == whole
    assert len(messages) == 3


def test_a_set_s_name_leads_nowhere_else_and_to_no_other_set() -> None:
    names = ["a", "../a", "..", "a/b", "a b", "a_b", "ä", "x" * 300, "x" * 299]
    files = [kept_name("test", name) for name in names]
    assert len(set(files)) == len(names)
    assert all("/" not in file and not file.startswith(".") and len(file) < 100 for file in files)


def test_a_run_that_cannot_keep_translations_has_them_all_the_same(run: Run) -> None:
    (run.path / FOLDER).write_text("in the way", encoding="utf-8")
    messages: list[str] = []
    translations = Translations(run, replace(ON_CPU, say=messages.append))
    assert len(translations.sets("test")[0].evaluation.hypotheses) == 15
    assert any(message.startswith("not kept: ") for message in messages)


def test_scores_that_are_kept_at_the_same_time_are_all_kept(run: Run) -> None:
    records = [{"name": f"set {n}", "scores": []} for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(keep_scores, run, [record]) for record in records]:
            done.result()
    assert {record["name"] for record in saved_scores(run)} >= {record["name"] for record in records}
