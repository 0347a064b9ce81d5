"""The look at a corpus before training: right ones pass, and copies that are made wrong are found by name."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from corpus_files import Listed
from dragoman.config import parse_config
from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import inspection
from dragoman.data.doctor.inspection import (
    FEW_PAIRS,
    FEW_TEXTS,
    MAX_BLOCKS,
    Inspection,
    inspect_labelled,
    inspect_pairs,
    inspect_text,
)
from dragoman.data.labelled import open_labelled
from dragoman.data.records import JoinedCorpora, Pair
from dragoman.errors import DataError
from dragoman.tasks.training import train
from tiny import TINY, labelled_texts, write_corpus

N_PAIRS = 1500
DATA = os.environ.get("DRAGOMAN_DATA")
REAL = {
    "multi30k/train": "de",
    "iwslt17/train_small": "de",
    "tatoeba-en-de/train": "de",
    "tatoeba-en-pl/train": "pl",
    "tatoeba-en-zh/train": "zh",
}
Pairs = Sequence[tuple[str, str]]


def look(pairs: Pairs, lang: str = "de") -> Inspection:
    return inspect_pairs(Listed(pairs), langs=("en", lang))


def names(pairs: Pairs, lang: str = "de") -> set[str]:
    return {concern.name for concern in look(pairs, lang).concerns}


def refused(found: Inspection) -> list[str]:
    return [concern.name for concern in found.concerns if concern.is_refused]


def shifted(pairs: Pairs, n: int) -> Pairs:
    """Each source beside the target of the source `n` lines above (below where n is negative)."""
    src, tgt = zip(*pairs, strict=True)
    return list(zip(src[n:], tgt, strict=False)) if n > 0 else list(zip(src, tgt[-n:], strict=False))


def shuffled(pairs: Pairs) -> Pairs:
    src, tgt = zip(*pairs, strict=True)
    return list(zip(src, random.Random(1).sample(tgt, len(tgt)), strict=True))


BROKEN: dict[str, tuple[Callable[[Pairs], Pairs], str]] = {
    "the source on both sides": (lambda pairs: [(src, src) for src, _ in pairs], "equal"),
    "the target on both sides, in capitals": (lambda p: [(t, t.upper()) for _, t in p], "equal"),
    "three lines missing from the source": (lambda pairs: shifted(pairs, 3), "shifted"),
    "half of it shifted": (lambda p: [*p[: len(p) // 2], *shifted(p[len(p) // 2 :], 1)], "shifted"),
    "languages swapped": (lambda pairs: [pair[::-1] for pair in pairs], "swapped"),
    "every fifteenth swapped": (lambda p: [p[i][:: 1 if i % 15 else -1] for i in range(len(p))], "swapped"),
    "numbers in place of the source": (lambda p: [(f"{i}", src) for i, (src, _) in enumerate(p)], "numbers"),
    "one side shuffled": (shuffled, "unaligned"),
    "everything twice": (lambda pairs: [*pairs, *pairs], "duplicate"),
    "every sixth a copy": (lambda p: [(s, t if i % 6 else s) for i, (s, t) in enumerate(p)], "identical"),
    "misread": (lambda p: [(s, t.encode().decode("cp1252", "replace")) for s, t in p], "encoding"),
}
REFUSED = {"equal", "shifted"}


@pytest.fixture(scope="module")
def phrases() -> dict[str, list[tuple[str, str]]]:
    """Pairs of the phrasebook in the order of the corpus, which a grammar made, by target language."""
    found = {}
    for lang in ("de", "pl", "zh"):
        pairs = open_corpus(["phrasebook:train"], src_lang="en", tgt_lang=lang).pairs()
        found[lang] = [tuple(pair) for pair, _ in zip(pairs, range(N_PAIRS), strict=False)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["de", "pl", "zh"])
def test_a_right_corpus_raises_no_concern(phrases: dict[str, Pairs], lang: str) -> None:
    assert look(phrases[lang], lang).concerns == ()


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("lang", ["de", "zh"])
def test_what_is_wrong_is_found_by_name(phrases: dict[str, Pairs], lang: str, case: str) -> None:
    spoil, name = BROKEN[case]
    found = look(spoil(phrases[lang]), lang)
    assert name in {concern.name for concern in found.concerns}
    assert refused(found) == [name] * (name in REFUSED)


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="DRAGOMAN_DATA is not set: no real corpora to look at")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if "zh" in name else pytest.mark.nightly) for name in REAL]
)
def test_real_corpora_raise_no_concern_and_their_broken_copies_do(name: str) -> None:
    lang = REAL[name]
    files = [f"{DATA}/{name}.{side}.gz" for side in ("en", lang)]
    pairs = list(open_corpus(files, src_lang="en", tgt_lang=lang).pairs())
    assert look(pairs, lang).concerns == ()
    for case, (spoil, kind) in BROKEN.items():
        found = look(spoil(pairs[:N_PAIRS]), lang)
        assert kind in {concern.name for concern in found.concerns}, case
        assert refused(found) == [kind] * (kind in REFUSED), case


@pytest.mark.slow
@pytest.mark.parametrize("n", [-3, 1, 10])
def test_a_shift_is_named_with_its_direction(phrases: dict[str, Pairs], n: int) -> None:
    (concern,) = look(shifted(phrases["de"], n)).concerns
    lines = "1 line" if abs(n) == 1 else f"{abs(n)} lines"
    assert f"most of them {lines} {'above' if n < 0 else 'below'};" in concern.what


@pytest.mark.slow
def test_the_sample_is_spread_over_the_corpus(phrases: dict[str, Pairs]) -> None:
    pairs = [*phrases["de"] * 4, *shifted(phrases["de"], 3), *shifted(phrases["de"], 3)]
    assert len(pairs) > 3 * MAX_BLOCKS * inspection.BLOCK
    assert refused(look(pairs)) == ["shifted"]


@pytest.mark.slow
def test_no_more_is_read_than_a_limit(phrases: dict[str, Pairs], monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Listed):
        def _read(self) -> Iterator[Pair]:
            yield from super()._read()
            raise AssertionError("this was not to be read")

    monkeypatch.setattr(inspection, "SCANNED", FEW_PAIRS)
    corpora = [Endless(phrases["de"]), Endless(phrases["de"][::-1])]
    assert inspect_pairs(corpora[0], langs=("en", "de")).concerns == ()
    monkeypatch.setattr(inspection, "SCANNED", 2 * FEW_PAIRS)
    assert inspect_pairs(JoinedCorpora(corpora), langs=("en", "de")).concerns == ()


def test_few_pairs_are_counted_and_tiny_corpora_are_few_and_nothing_else(phrases: dict[str, Pairs]) -> None:
    for n in (999, 1000):
        found = inspect_pairs(Listed([*phrases["de"][:n], ("", "")]), langs=("en", "de"), few=1000)
        assert [c.what.startswith(f"only {n:,} pairs") for c in found.concerns] == [True] * (n < 1000)
    for n in (1, 2, 3, 12, 60):
        assert names(phrases["de"][:n]) == {"few"}


def test_thirty_pairs_are_enough_to_see_that_languages_are_swapped(phrases: dict[str, Pairs]) -> None:
    for lang, pairs in phrases.items():
        assert "swapped" in names([pair[::-1] for pair in pairs[:30]], lang)


def test_a_wrong_language_is_not_called_swapped(phrases: dict[str, Pairs]) -> None:
    (concern,) = look(phrases["pl"], "de").concerns
    assert concern.name == "languages"
    assert "the target is declared as de, but its short words are those of pl" in concern.what


# What is said


def report(found: Inspection, *, check: bool = True) -> list[str]:
    lines: list[str] = []
    found.report(lines.append, check=check)
    return lines


@pytest.mark.slow
def test_three_pairs_are_shown_with_their_declared_languages(phrases: dict[str, Pairs]) -> None:
    lines = report(look(phrases["de"]))
    shown = [line.strip() for line in lines[1:]]
    assert lines[0] == "listed, as it is read:"
    assert [line[:4] for line in shown] == ["en: ", "de: "] * 3
    pairs = [(src[4:], tgt[4:]) for src, tgt in zip(shown[::2], shown[1::2], strict=True)]
    assert len(set(pairs)) == 3
    assert set(pairs) <= set(phrases["de"])


def test_a_refusal_says_where_what_and_what_to_do(phrases: dict[str, Pairs]) -> None:
    found = look([(src, src) for src, _ in phrases["de"]])
    with pytest.raises(DataError) as error:
        report(found)
    assert str(error.value) == (
        "listed: both sides are equal in 100 % of the pairs; give the file with the translations; "
        "to train all the same: --no-check (in Python check=False)"
    )
    (warning,) = [line for line in report(found, check=False) if line.startswith("warning")]
    assert warning.startswith("warning (equal): both sides are equal in 100 % of the pairs;")


# Labelled text


def found_in(examples: Sequence[tuple[str, str]]) -> list[str]:
    return [concern.name for concern in inspect_labelled(Listed(examples, "")).concerns]


def test_what_is_wrong_with_labelled_texts_is_found_by_name() -> None:
    right = [(f"{text} {i}", label) for i, (label, text) in enumerate(labelled_texts(300, seed=1))]
    other = {"praise": "blame", "blame": "praise"}
    assert found_in(right) == found_in(right[:FEW_TEXTS]) == []
    assert found_in(right[: FEW_TEXTS - 1]) == ["few"]
    assert found_in([*right, *((text, other[label]) for text, label in right[:30])]) == ["conflict"]
    assert found_in(right * 2) == ["duplicate"]
    assert found_in([(f"id{i}", label) for i, (_, label) in enumerate(right)]) == ["numbers"]
    with pytest.raises(DataError, match="all 300 examples have the label 'praise'"):
        found_in([(text, "praise") for text, _ in right])
    with pytest.raises(DataError, match="are text and label the right columns"):
        found_in([(label, text) for text, label in right])
    reviews = inspect_labelled(open_labelled(["phrasebook:reviews-train"]))
    assert reviews.concerns == ()
    assert [[name for name, _ in example] for example in reviews.examples] == [["label", "text"]] * 3


@pytest.mark.slow
def test_a_training_that_has_begun_is_not_looked_at_again(tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", 60, seed=1)
    data = {"src_lang": "en", "tgt_lang": "de", "train": [str(tmp_path / "train.en")] * 2}
    config = parse_config({"name": "x", "data": data}, overrides=TINY)
    with pytest.raises(DataError, match="both sides are equal"):
        train(config, tmp_path / "run")
    for begun, check in ((False, False), (True, True)):
        listener = Mock()
        train(config, tmp_path / "run", listener=listener, check=check)
        said = [call.args[0] for call in listener.message.call_args_list]
        assert any(text.startswith("warning (equal)") for text in said) == (not begun)
        assert any(text.startswith("  en: ") for text in said) == (not begun)


# Held-out text


def warned_of(valid: str, *changes: str) -> list[str]:
    """What is said of held-out text that is trained on, with the pairs in files called `valid`."""
    settings = {
        "name": "x",
        "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"],
                 "valid": [f"{valid}.en", f"{valid}.de"], "test": {"news": [f"{valid}.en", f"{valid}.de"]}},
    }  # fmt: skip
    found = inspect_text(parse_config(settings, overrides=changes))
    return [concern.what for one in found for concern in one.concerns if concern.name == "overlap"]


@pytest.fixture
def held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(Path(), "train", FEW_PAIRS, seed=1)
    for side in ("en", "de"):
        lines = Path(f"train.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
        Path(f"known.{side}").write_text("".join(lines[:50]), encoding="utf-8")
        Path(f"new.{side}").write_text("".join(f"{i} new\n" for i in range(50)), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("held_out")
def test_held_out_text_that_is_trained_on_is_named() -> None:
    both = warned_of("known")
    assert [what.partition(",")[0] for what in both] == ["100 % of valid", "100 % of test.news"]
    assert all("is in the training text" in what and "data.drop_overlap = true" in what for what in both)
    assert warned_of("known", "data.drop_overlap=true") == warned_of("new") == []


@pytest.mark.usefixtures("held_out")
@pytest.mark.parametrize("part", ["valid", "test.news"])
def test_held_out_files_of_different_lengths_are_found_before_training(part: str) -> None:
    with Path("known.de").open("a", encoding="utf-8") as file:
        file.write("noch eine\n")
    with pytest.raises(DataError, match=r"known.en has 50 lines and known.de 51"):
        warned_of("new", f'data.{part}=["known.en", "known.de"]')
