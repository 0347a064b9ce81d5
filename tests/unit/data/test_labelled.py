"""Labelled corpora: texts and the names of their classes, split so that no text is on both sides."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_files import COMPRESS, complaint_of, write
from corpus_files import offline_hub as offline_hub
from dragoman.config import Column, TokenizerConfig
from dragoman.data.labelled import guess_labelled_columns, open_labelled
from dragoman.data.records import Corpus, Labelled, labels_of, split_held_out
from dragoman.data.store import LabelledStore
from dragoman.errors import DataError
from dragoman.text.tokenizer import train_tokenizer

EXAMPLES = [
    ("Good, really.", "positive"),
    ('A "film"', "negative"),
    ("我们 &", "positive"),
    ("Bad", "negative"),
]


def corpus_of(path: str, **columns: Column) -> Corpus:
    return open_labelled([path], **columns)


def read(path: str, **columns: Column) -> list[Labelled]:
    return list(corpus_of(path, **columns).examples())


def complaint(path: str, **columns: Column) -> str:
    return complaint_of(lambda: corpus_of(path, **columns).examples())


def notes(path: str, **columns: Column) -> list[str]:
    corpus = corpus_of(path, **columns)
    list(corpus.examples())
    return [line.removeprefix(f"{corpus.name}: ") for line in corpus.notes()]


def tsv_of(tmp_path: Path, examples: list[tuple[str, str]], *, name: str = "a.tsv") -> str:
    return write(tmp_path / name, "".join(f"{label}\t{text}\n" for text, label in examples))


def jsonl_of(tmp_path: Path, *objects: dict[str, Any]) -> str:
    return write(tmp_path / "a.jsonl", "".join(json.dumps(one) + "\n" for one in objects))


def test_every_format_gives_the_same_examples(tmp_path: Path) -> None:
    csv = 'text,label\n"Good, really.",positive\n"A ""film""",negative\n我们 &,positive\nBad,negative\n'
    named = "id\tklass\tsatz\n" + "".join(f"1\t{label}\t{text}\n" for text, label in EXAMPLES)
    paths = [tsv_of(tmp_path, EXAMPLES, name=f"a.tsv{suffix}") for suffix in COMPRESS]
    paths += [write(tmp_path / f"a.csv{suffix}", csv) for suffix in COMPRESS]
    paths += [jsonl_of(tmp_path, *({"text": text, "label": label} for text, label in EXAMPLES))]
    for path in paths:
        assert read(path) == EXAMPLES
        assert notes(path) == []
    path = write(tmp_path / "b.tsv", named)
    assert read(path, text_column="satz", label_column="klass") == EXAMPLES
    assert read(path, text_column=2, label_column=1)[1:] == EXAMPLES
    prints = {corpus_of(one).fingerprint() for one in (*paths[:1], tsv_of(tmp_path, EXAMPLES, name="c.tsv"))}
    assert len(prints) == 1, "it depends on content and columns"
    others = corpus_of(paths[0], text_column=0, label_column=1), corpus_of(path)
    prints |= {corpus.fingerprint() for corpus in others}
    assert len(prints) == 3


def test_labels_are_text_whatever_json_they_are(tmp_path: Path) -> None:
    labels = [1, 0, True, False, 4.5, " star ", "1"]
    path = jsonl_of(tmp_path, *({"text": "x", "label": label} for label in labels))
    assert [example.label for example in read(path)] == ["1", "0", "true", "false", "4.5", "star", "1"]


def test_a_label_or_a_text_that_is_none_is_reported(tmp_path: Path) -> None:
    wrong = ("label", ["a"], "a list"), ("label", {"x": {}}, "an object"), ("text", 1, "a number")
    for column, value, what in wrong:
        path = jsonl_of(tmp_path, {"text": "x", "label": "a"}, {"text": "x", "label": "a", column: value})
        message = complaint(path, text_column="text", label_column="label")
        assert message == f"{path} line 2: column '{column}' holds {what}, not text; name another one"


def test_examples_without_text_or_label_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [("x", "a"), (" ", "b"), (None, "b"), ("y", None), ("y", float("nan")), ("y", "b")]
    path = jsonl_of(tmp_path, *({"text": text, "label": label} for text, label in rows))
    assert read(path) == [("x", "a"), ("y", "b")]
    assert notes(path) == ["left out 4 of 6 examples: 2 without text, 2 without label"]


def test_a_corpus_without_classes_is_reported(tmp_path: Path) -> None:
    path = tsv_of(tmp_path, [])
    assert complaint(path) == f"{path}: no example; give a file of texts and labels"
    path = write(tmp_path / "b.tsv", "a\t\n\n")
    left_out = "(left out 2 of 2 examples: 2 without text)"
    assert complaint(path) == f"{path}: no example {left_out}; give a file of texts and labels"
    path = tsv_of(tmp_path, [("x", "good"), ("y", "good")])
    assert complaint(path).startswith(f"{path}: all 2 examples have the label 'good'; give a file with two")
    for n in (10, 2000):
        message = complaint(tsv_of(tmp_path, [(str(i % 2), f"text {i}") for i in range(n)]))
        assert f"different labels in {min(n, 1001)} examples, such as 'text 0'; are text and label" in message


def test_what_is_no_labelled_corpus_is_refused() -> None:
    for files, columns, problem in (
        (["a", "b"], {}, "a labelled corpus of 2 files; give one file of texts and labels"),
        (["a"], {"text_column": -1}, "a: column -1; columns are counted from 0"),
        (["a"], {"text_column": 0}, "a: column 0 cannot be both text and label"),
        (["no.tsv"], {}, "no.tsv: no such file in "),
        (["phrasebook:reviews-dev"], {}, "phrasebook:reviews-dev: no such split; there are phrasebook:revi"),
    ):
        with pytest.raises(DataError, match=f"^{problem}"):
            open_labelled(files, **columns)


# Columns that nobody named


GUESSED = {
    "text,label": ("text", "label"),
    "id,Review,Sentiment": ("Review", "Sentiment"),
    "label,sentence,idx": ("sentence", "label"),
    "text,label,label_text": ("text", "label"),
    "stars,reviewText,date": ("reviewText", "stars"),
    "tweet,target,user": ("tweet", "target"),
    "category,content": ("content", "category"),
}


def test_columns_are_guessed_by_their_names(tmp_path: Path) -> None:
    for header, found in GUESSED.items():
        csv = write(tmp_path / "a.csv", f"{header}\n")
        tsv = write(tmp_path / "a.tsv", header.replace(",", "\t") + "\n")
        jsonl = jsonl_of(tmp_path, dict.fromkeys(header.split(","), "x"))
        assert {guess_labelled_columns(path) for path in (csv, tsv, jsonl)} == {found}


def test_columns_that_do_not_tell_are_an_error_that_lists_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Klasse;Satz\nja;So ist es.\n")
    assert complaint(path) == (
        f"{path}: cannot tell which columns are text and label among Klasse, Satz; "
        "name them (--text-column and --label-column, or data.text_column and data.label_column)"
    )
    assert guess_labelled_columns(tsv_of(tmp_path, EXAMPLES)) == (1, 0)


# Held-out examples


def numbered(n: int) -> list[tuple[str, str]]:
    """Examples of three labels, of which one is rare; every seventh text occurs twice."""
    labels = ["common", "common", "frequent", "common", "frequent", "rare"]
    return [(f"text {i - (i % 7 == 0)}", labels[(i - (i % 7 == 0)) % 6]) for i in range(1, n + 1)]


def split(path: str, *, n_held_out: int = 60, seed: int = 1) -> tuple[list[Labelled], list[Labelled]]:
    train, held_out = split_held_out(corpus_of(path), n_held_out=n_held_out, seed=seed)
    return list(train.examples()), list(held_out.examples())


def test_parts_are_the_corpus_share_no_text_and_have_their_share_of_every_label(tmp_path: Path) -> None:
    path = tsv_of(tmp_path, numbered(1200))
    train, held_out = split(path)
    assert sorted(train + held_out) == sorted(read(path))
    assert not {text for text, _ in train} & {text for text, _ in held_out}
    part = Counter(label for _, label in held_out)
    for label, n in Counter(label for _, label in numbered(1200)).items():
        assert abs(part[label] - 60 * n / 1200) <= 2


def test_as_many_are_held_out_as_are_asked_for_and_at_most_a_tenth(tmp_path: Path) -> None:
    for n, n_held_out, least, most in ((1200, 60, 55, 60), (200, 10_000, 18, 20), (12, 1, 1, 1)):
        held_out = split(tsv_of(tmp_path, numbered(n)), n_held_out=n_held_out)[1]
        assert least <= len(held_out) <= most
    path = tsv_of(tmp_path, [("one", "a"), ("two", "b")] * 50)
    message = "100 examples are too few, or too alike, to hold some out; give a data.valid file of its own"
    with pytest.raises(DataError, match=f"^{path}: {message}$"):
        split_held_out(corpus_of(path), n_held_out=5, seed=1)


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_lines_or_white_space(tmp_path: Path) -> None:
    examples = [*numbered(600), ("contested", "rare"), ("contested", "common")]
    shuffled = random.Random(1).sample(examples, len(examples))
    paths = [tsv_of(tmp_path, some, name=f"{i}.tsv") for i, some in enumerate((examples, shuffled))]
    assert sorted(split(paths[0])[1]) == sorted(split(paths[1])[1])
    assert split(paths[0], seed=1) == split(paths[0], seed=1) != split(paths[0], seed=2)
    spaced = [(f"text{' ' * (1 + i % 3)}{i // 3}", "ab"[i // 3 % 2]) for i in range(600)]
    parts = split(tsv_of(tmp_path, spaced))
    train, held_out = ({" ".join(text.split()) for text, _ in part} for part in parts)
    assert held_out
    assert not train & held_out


# Packages of extras


def test_labels_of_a_data_set_are_its_names_for_them(offline_hub: Path) -> None:
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    table = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)
    table.to_parquet(offline_hub / "train.parquet")
    name = f"hf:{offline_hub}:train"
    assert read(name) == [("a", "pos"), ("b", "neg")]
    assert notes(name) == ["left out 1 of 3 examples: 1 without label"]


# Several labels


def test_a_cell_is_split_into_its_labels() -> None:
    assert labels_of(" a | b|a||", "|") == ("a", "b")
    assert labels_of("", "|") == ()
    assert labels_of("a|b", "") == ("a|b",)
    assert labels_of("a, b; c", "; ") == ("a, b", "c")
    assert labels_of("a b", " ") == ("a", "b")


def topics(tmp_path: Path, *lines: str, separator: str = "|") -> Corpus:
    (tmp_path / "topics.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return open_labelled([str(tmp_path / "topics.tsv")], separator=separator)


def test_labels_are_counted_and_so_is_a_text_without_any(tmp_path: Path) -> None:
    corpus = topics(tmp_path, "a|b\tone", "\ttwo", "b\tthree")
    assert [example.label for example in corpus.examples()] == ["a|b", "", "b"]
    assert corpus.notes() == [f"{corpus.name}: 1 of 3 examples have none of the labels"]
    cells = Counter(example.label for example in corpus.examples())
    assert corpus.count_labels(cells) == {"a": 1, "b": 2}
    alone = topics(tmp_path, "a|b\tone", "\ttwo", "b\tthree", separator="")
    assert [example.label for example in alone.examples()] == ["a|b", "b"]
    assert alone.fingerprint() != corpus.fingerprint()


def test_what_separates_nothing_is_an_error(tmp_path: Path) -> None:
    corpus = topics(tmp_path, "a|b\tone", "b\ttwo", separator=";")
    with pytest.raises(DataError, match=r"no label has the separator ';', as in 'a\|b'"):
        corpus.count_labels(Counter(example.label for example in corpus.examples()))
    with pytest.raises(DataError, match=r"1 label between separators '\|'"):
        topics(tmp_path).count_labels({"a|": 3})


def test_every_label_stays_in_the_training_part_and_is_held_out(tmp_path: Path) -> None:
    """A text with several counts for its rarest one; nearly all texts have a combination of their own."""
    rng = np.random.default_rng(0)
    rows = (rng.random((600, 8)) < 0.35) @ np.diag(np.arange(1, 9))
    lines = [f"{'|'.join(f'c{c}' for c in row if c)}\ttext {i}" for i, row in enumerate(rows)]
    corpus = topics(tmp_path, *lines, "rare|c1\tthe only one")
    rest, held_out = split_held_out(corpus, n_held_out=60, seed=1)
    found = [
        {label for example in part.examples() for label in labels_of(example.label, part.separator)}
        for part in (rest, held_out)
    ]
    assert found[0] == {"rare", *(f"c{c}" for c in range(1, 9))}
    assert found[1] == {f"c{c}" for c in range(1, 9)}
    assert 50 <= sum(1 for _ in held_out.examples()) <= 60


def test_a_store_of_several_labels_holds_all_of_them(tmp_path: Path) -> None:
    corpus = topics(tmp_path, "a|b\tone", "\ttwo", "b\tthree")
    tokenizer = train_tokenizer((text for text, _ in corpus.examples()), TokenizerConfig(kind="words"))

    def stored(*labels: str) -> list[list[int]]:
        cache = tmp_path / "".join(labels)
        store = LabelledStore.prepare(corpus, tokenizer, labels=labels, max_tokens=0, cache=cache)
        found: list[list[int]] = store.labels.tolist()
        return found

    assert stored("a", "b") == [[1, 1], [0, 0], [0, 1]]
    assert stored("a", "b") == [[1, 1], [0, 0], [0, 1]]  # opened again
    with pytest.raises(DataError, match="the label 'b' is not in the training data"):
        stored("a", "c")
