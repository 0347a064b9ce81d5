from __future__ import annotations

import lzma
import re
from collections import Counter
from itertools import combinations

import pytest

from dragoman.data.phrasebook import LABELS, SPLITS, reviews, unseen_reviews
from dragoman.errors import DataError
from make_phrasebook import FOLDER, reviews_text
from phrasebook import corpus
from phrasebook.review_grammar import HELD_OUT_IN, Review, ReviewGrammar, held_out
from phrasebook.review_text import Adjective, Noun, Words, parse, say


@pytest.fixture(scope="module")
def grammar() -> ReviewGrammar:
    return ReviewGrammar()


def all_reviews() -> list[Review]:
    return [review for split in SPLITS for review in corpus.labelled_reviews(1)[split]]


# The corpus and its splits


def test_splits_have_the_promised_sizes() -> None:
    assert {split: len(reviews(split)) for split in SPLITS} == {"train": 4000, "valid": 500, "test": 1000}


def test_every_split_and_the_unseen_half_are_balanced() -> None:
    for part in [*map(reviews, SPLITS), unseen_reviews()]:
        counts = Counter(label for label, _ in part)
        assert set(counts) == set(LABELS)
        assert len(set(counts.values())) == 1


def test_every_domain_is_as_often_praised_as_condemned(grammar: ReviewGrammar) -> None:
    found = Counter(
        (noun.en, label)
        for label, text in reviews("train")
        for noun in grammar.nouns
        if "subject" in noun.classes and re.search(rf"\b{noun.en}\b", text)
    )
    for (noun, label), n in found.items():
        both = n + found[noun, LABELS[label == "positive"]]
        assert abs(n - both / 2) < 4 * (both / 4) ** 0.5, (noun, label)  # four standard deviations


@pytest.mark.slow
def test_the_embedded_reviews_are_those_that_the_grammar_generates() -> None:
    assert lzma.decompress((FOLDER / "reviews.xz").read_bytes()) == reviews_text()
    for split in SPLITS:
        assert reviews(split) == [(review.label, review.text) for review in corpus.labelled_reviews(1)[split]]


@pytest.mark.slow
def test_another_seed_gives_other_reviews_and_the_same_held_out_combinations() -> None:
    other = corpus.labelled_reviews(2)
    assert {review.text for review in other["test"]} != {text for _, text in reviews("test")}
    assert not any(review.unseen for split in ("train", "valid") for review in other[split])


def test_no_text_is_said_twice() -> None:
    for one, other in combinations(SPLITS, 2):
        assert {text for _, text in reviews(one)}.isdisjoint(text for _, text in reviews(other))
    texts = [text for split in SPLITS for _, text in reviews(split)]
    assert len(texts) == len(set(texts))


def test_unseen_reviews_are_half_of_the_test_and_combine_opinions_in_new_ways() -> None:
    test = corpus.labelled_reviews(1)["test"]
    unseen = [review for review in test if review.unseen]
    assert [(review.label, review.text) for review in unseen] == unseen_reviews()
    assert len(unseen) == len(test) - len(unseen)
    known = {
        each
        for split in ("train", "valid")
        for r in corpus.labelled_reviews(1)[split]
        for each in r.combinations
    }
    for review in unseen:
        by_construction: dict[str, list[str]] = {}
        for each in review.combinations:
            by_construction.setdefault(each.split(" ")[0], []).append(each)
        assert all(not known.issuperset(said) for said in by_construction.values()), review


def test_every_held_out_word_and_construction_is_in_train_apart() -> None:
    def words(combination: str) -> tuple[str, str]:
        construction, _, rest = combination.partition(" ")
        return construction, rest.partition("=")[2]

    train = [words(each) for r in corpus.labelled_reviews(1)["train"] for each in r.combinations]
    constructions, adjectives = ({pair[i] for pair in train} for i in (0, 1))
    for review in corpus.labelled_reviews(1)["test"]:
        for construction, adjective in map(words, review.combinations):
            assert construction in constructions
            assert adjective in adjectives


def test_one_combination_in_eight_is_held_out(grammar: ReviewGrammar) -> None:
    ids = {(each.id, slot) for kind in grammar.constructions.values() for each in kind for slot in each.slots}
    drawn = [f"{construction} {slot}={each.en}" for construction, slot in ids for each in grammar.adjectives]
    share = sum(map(held_out, drawn)) / len(drawn)
    assert share == pytest.approx(1 / HELD_OUT_IN, rel=0.1)


def test_every_word_construction_and_domain_is_used(grammar: ReviewGrammar) -> None:
    combined = {each for review in all_reviews() for each in review.combinations}
    assert {each.split(" ")[0] for each in combined} == {
        construction.id for kind in grammar.constructions.values() for construction in kind
    }
    assert {each.partition("=")[2] for each in combined} == {each.en for each in grammar.adjectives}
    said = " ".join(review.text for review in all_reviews())
    assert not [noun.en for noun in grammar.nouns if not re.search(rf"\b{noun.en}\b", said)]


def test_unknown_splits_are_reported() -> None:
    with pytest.raises(DataError, match=r"phrasebook: no split 'dev'; there are train, valid, test"):
        reviews("dev")


def test_the_embedded_files_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.xz")) < 1_000_000


# What a review looks like


def test_every_review_is_two_to_six_finished_sentences() -> None:
    for review in all_reviews():
        assert re.fullmatch(r"(?:[A-Z][^.!?]*[^\s.!?,][.!?](?: |$)){2,6}", review.text), review


def test_nothing_is_left_unfilled_or_doubled() -> None:
    for review in all_reviews():
        assert not re.search(r"[{}\[\]|_=]| {2}| [.,!?]|^ | $", review.text), review
        assert not re.search(r"\b(\w+) \1\b", review.text.lower()), review


def test_articles_fit_the_word_after_them() -> None:
    said = {pair for review in all_reviews() for pair in re.findall(r"\b(an?) (\w+)", review.text.lower())}
    for determiner, word in said:
        vowel = (word[0] in "aeiou" and not word.startswith("use")) or word == "hour"
        assert determiner == ("an" if vowel else "a"), (determiner, word)


def test_verbs_agree_with_their_noun(grammar: ReviewGrammar) -> None:
    number = {noun.en: noun.number for noun in grammar.nouns}
    names = "|".join(sorted(number, key=len, reverse=True))
    for review in all_reviews():
        for noun, verb in re.findall(rf"\b[Tt]he ({names}) (is|are|was|were)\b", review.text):
            assert (verb in ("are", "were")) == (number[noun] == "many") or "If only" in review.text, review


def test_reviews_are_told_in_the_tense_of_their_domain(grammar: ReviewGrammar) -> None:
    for domain, table in grammar.domains.items():
        parts = [noun.en for noun in grammar.nouns if noun.domains == {domain}]
        wrong = {"present": "was|were", "past": "is|are"}[table["tense"]]
        said = re.compile(rf"\b[Tt]he (?:{'|'.join(parts)}) (?:{wrong}) (?!ten minutes|five minutes)")
        for review in all_reviews():
            assert not said.search(review.text) or "If only" in review.text, review


@pytest.mark.parametrize(
    ("group", "english"),
    [
        ("the noun", "the plot"),
        ("a for more noun", "a duller plot"),
        ("for most", "dullest"),
        ("against more", "more original"),
        ("a against noun", "an original plot"),
        ("be", "is"),
        ("be other", "are"),
        ("be there other", "is"),
        ("inf", "be"),
        ("it other", "they"),
    ],
)
def test_what_a_group_says(group: str, english: str, grammar: ReviewGrammar) -> None:
    nouns = {noun.en: noun for noun in grammar.nouns}
    adjectives = {each.en: each for each in grammar.adjectives}
    words = Words(
        {"noun": nouns["plot"], "other": nouns["costumes"]},
        {"for": adjectives["dull"], "against": adjectives["original"]},
    )
    ((_, parsed, _),) = parse(f"{{{group}}}")
    assert not isinstance(parsed, str)
    assert say(parsed, words, "present") == english


def test_mass_nouns_and_plurals_take_no_article() -> None:
    adjective = Adjective("dull", frozenset(), frozenset(), "duller", "dullest")
    for number in ("mass", "many"):
        noun = Noun("acting", frozenset(), frozenset(), number, "it")
        ((_, group, _),) = parse("{a for more noun}")
        assert not isinstance(group, str)
        assert say(group, Words({"noun": noun}, {"for": adjective}), "past") == "duller acting"


def test_a_choice_makes_two_texts() -> None:
    assert list(parse("I [must|have to] go.")) == [("I must go.",), ("I have to go.",)]


# What decides the label


@pytest.mark.slow
def test_the_label_is_that_of_the_last_word_after_a_turn(grammar: ReviewGrammar) -> None:
    """A turned opinion without negation or report says an adjective of its review's own label."""
    label_of = {each.en: label for each in grammar.adjectives for label in LABELS if label in each.classes}
    turn = "|".join(re.escape(opening) for opening in grammar.openings["turned"])
    names = "|".join(sorted(label_of, key=len, reverse=True))
    plain = re.compile(rf"(?:{turn})the [\w ]+ (?:is|was|were|are)(?: really| truly)? ({names})\.")
    found = [(review, match[1]) for review in all_reviews() if (match := plain.search(review.text))]
    assert len(found) > 50
    assert all(label_of[adjective] == review.label for review, adjective in found)


def test_after_but_comes_what_decides(grammar: ReviewGrammar) -> None:
    label_of = {each.en: label for each in grammar.adjectives for label in LABELS if label in each.classes}
    contrast = re.compile(
        r"[Tt]he [\w ]+ (?:is|was|were|are) ([\w-]+), but the [\w ]+ (?:is|was|were|are) ([\w-]+)\."
    )
    found = [(review, match) for review in all_reviews() if (match := contrast.search(review.text))]
    assert len(found) > 10
    for review, match in found:
        assert label_of[match[2]] == review.label != label_of[match[1]], review


def test_words_alone_mislead_often_and_are_right_mostly(grammar: ReviewGrammar) -> None:
    """Counting praise and blame is better than chance and far from perfect: the rest is in the order."""
    label_of = {each.en: label for each in grammar.adjectives for label in LABELS if label in each.classes}
    names = re.compile(r"\b(?:" + "|".join(sorted(label_of, key=len, reverse=True)) + r")\b")
    right = wrong = 0
    for label, text in reviews("test"):
        counts = Counter(label_of[word] for word in names.findall(text))
        if counts["positive"] != counts["negative"]:
            right += (more := max(counts, key=counts.__getitem__)) == label
            wrong += more != label
    assert 0.6 < right / (right + wrong) < 0.95
