"""Model cards hold what the run says and nothing else, and nothing in the run can inject markup."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import succeed
from dragoman.card import model_card, published
from dragoman.config import parse_config
from dragoman.runs import Run

SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def record(name: str, value: float, **search: float) -> dict[str, Any]:
    score = {"name": "BLEU", "value": value, "interval": [value - 1, value + 1], "signature": SIGNATURE}
    return {"name": name, "n_sentences": 15, **search, "scores": [score]}


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Run:
    """A copy of the tiny run, with scores."""
    shutil.copytree(tiny_run, tmp_path / "run")
    opened = Run.open(tmp_path / "run")
    search = opened.config.search
    own = {"beam_size": search.beam_size, "length_penalty": search.length_penalty}
    results = [record("tiny-test", 12.345, **own), record("tiny-test", 10.0, beam_size=1, length_penalty=0.0)]
    opened.write_json("scores.json", {"results": results})
    return opened


def front_matter(card: str) -> dict[str, Any]:
    """The head of a card as YAML reads it."""
    empty, head, _ = card.split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(head)


def test_the_head_is_what_the_hub_reads(run: Run, tiny_classifier_run: Path) -> None:
    from huggingface_hub import ModelCard

    card = model_card(run, name="someone/tiny", licence="cc0-1.0")
    head = ModelCard(card).data.to_dict()
    assert head == front_matter(card)
    assert head["language"] == ["de", "en"]
    assert head["license"] == "cc0-1.0"
    assert (head["library_name"], head["pipeline_tag"]) == ("dragoman", "translation")
    labels = model_card(Run.open(tiny_classifier_run))
    assert "Its labels: blame, praise." in labels
    assert front_matter(labels)["pipeline_tag"] == "text-classification"
    assert "Classifier.load(" in labels


def test_a_card_says_what_is_in_the_run_and_how_to_use_it(run: Run, tiny_run: Path, tiny_many: Path) -> None:
    text = run.config_path.read_text(encoding="utf-8")
    for side in ("en", "de"):
        text = text.replace(str(tiny_run.parent / f"train.{side}"), f"tatoeba-en-de/train.{side}.gz")
    run.config_path.write_text(text, encoding="utf-8")
    card = model_card(Run.open(run.path))
    report, environment = run.read_json("report.json"), run.read_json("environment.json")
    n_parameters = sum(tensor.numel() for tensor in run.load_weights().values())
    signature = SIGNATURE.replace("|", "\\|")
    printed = succeed("card", run.path, "--license", "mit").stdout
    assert printed == model_card(Run.open(run.path), licence="mit")
    for part in (
        "| CC BY 2.0 FR (Tatoeba) | ",
        f"| BLEU | 12.3 | 11.3 – 13.3 | {signature} |",
        f"| BLEU | 10.0 | 9.0 – 11.0 | {signature} |",
        f"| steps | {report['steps']} |",
        f"| torch | {environment['torch']} |",
        f"{n_parameters:,} parameters",
        f'Translator.load("{run.path.name}")',
        f"dragoman translate {run.path.name} input.txt",
    ):
        assert part in card
    many = model_card(Run.open(tiny_many))
    assert f'Translator.load("{tiny_many.name}").towards("en-de")' in many
    assert f"dragoman translate {tiny_many.name} input.txt --to en-de" in many


def test_altered_text_has_a_table_of_its_own(run: Run) -> None:
    altered = {"name": "t (robustness)", "scores": [], "alterations": [{"name": "capitals", "bleu": 7.25}, 1]}
    run.write_json("scores.json", {"results": [record("t", 1.0), altered]})
    card = model_card(run)
    assert f"| t (robustness) | capitals | unknown | 7.2 |{' unknown |' * 6}" in card
    without_signature = [{"name": "BLEU", "value": 12.3, "interval": None}]
    for damaged in (altered | {"alterations": "damaged"}, {"name": "t", "scores": without_signature}):
        run.write_json("scores.json", {"results": [damaged]})
        assert "the run has not been evaluated" in model_card(run)


def test_what_the_run_does_not_say_is_unknown(run: Run) -> None:
    for name in ("report.json", "environment.json", "scores.json"):
        (run.path / name).unlink()
    card = model_card(run)
    assert front_matter(card)["license"] == "unknown"
    assert "Unknown: the run has not been evaluated." in card
    assert "Unknown: the run has no report.json." in card
    assert "| train | train.en, train.de | unknown | unknown |" in card


def test_a_model_of_another_toolkit_is_called_so_and_its_folder_is_not_told(run: Run) -> None:
    origin = {"format": "marian", "path": "/home/me/opus", "files": {"C:\\Users\\me\\source.spm": "ab12"}}
    run.write_json("report.json", {"imported": origin, "notes": ["/home/me/x", "a/b", "n/a"]})
    card = model_card(run)
    assert "taken over from a model of marian" in card
    assert "/home" not in card
    assert "Users" not in card
    for kept in ('"path": "opus"', '"source.spm": "ab12"', '"x", "a/b", "n/a"'):
        assert kept in card.replace("\\[", "[").replace("\\]", "]")


def test_nothing_in_a_run_becomes_markup_or_yaml(run: Run) -> None:
    evil = 'x"\n---\nlicense: mit\n# <script>alert(1)</script> [a](javascript:b) `c` \x1b[31m | d \u202e'
    run.write_json("report.json", {"steps": evil, evil: 1})
    run.write_json("scores.json", {"results": [{**record("t", 1.0), "name": evil}]})
    card = model_card(run)
    head, body = front_matter(card), card.split("---\n", 2)[2]
    assert head["license"] == "unknown"
    assert "<script>" not in body.replace("\\<script\\>", "")
    assert "](javascript" not in body.replace("\\]", "")
    assert not any(ord(c) < 32 and c != "\n" for c in card)
    assert "\u202e" not in card
    columns = {line.replace("\\|", "").count("|") for line in body.splitlines() if line.startswith("| x")}
    assert columns == {3, 6}, "a bar in a cell begins no other"


def test_published_settings_name_no_folder() -> None:
    tests = {
        "hf:a/b:test": "hf:a/b:test", "https://host/t.tsv": "https://host/t.tsv", "s3://mine/t.tsv": "t.tsv",
        r"C:\Users\me\t.tsv": "t.tsv", "hf:/home/me/t": "t", "multi30k/val.en.gz": "multi30k/val.en.gz",
    }  # fmt: skip
    data = {"src_lang": "en", "tgt_lang": "de", "train": ["/home/me/a.en", "../b.de"]}
    data["test"] = {str(i): [file] for i, file in enumerate(tests)}
    config = published(
        parse_config({"name": "x", "data": data, "training": {"start_from": "/home/me/runs/old"}})
    )
    assert config.data.train == ("a.en", "b.de")
    assert list(config.data.test.values()) == [(file,) for file in tests.values()]
    assert config.training.start_from == "old"
