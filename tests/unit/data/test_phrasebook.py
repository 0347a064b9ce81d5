from __future__ import annotations

import lzma
import re
from itertools import combinations

import pytest

from dragoman.data.phrasebook import SPLITS, Phrase, pairs, phrases, unseen_phrases
from dragoman.errors import DataError
from make_phrasebook import FOLDER, sentences_text
from phrasebook import corpus
from phrasebook.grammar import Grammar, Sentence
from phrasebook.inflection import inflect, third_person


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return Grammar()


def sentences() -> list[Sentence]:
    return [sentence for split in SPLITS for sentence in corpus.sentences(1)[split]]


def say(grammar: Grammar, lang: str, group: str, **words: str) -> str:
    """The text of a group such as "ein kind thing acc", where kind="adjectives new"."""
    found = []
    for word in words.values():
        table, name = word.split(" ", 1)
        found += [row for row in grammar.tables[table] if row.forms["id"] == name]
    assert len(found) == len(words)
    return inflect(lang, found, [token for token in group.split() if token not in words], grammar.paradigms)


# The corpus and its splits


def test_there_are_at_least_50000_distinct_sentences() -> None:
    for texts in zip(*(phrase for split in SPLITS for phrase in phrases(split)), strict=True):
        assert len(texts) == len(set(texts)) >= 50_000


@pytest.mark.slow
def test_the_embedded_sentences_are_those_that_the_grammar_generates() -> None:
    assert lzma.decompress((FOLDER / "sentences.xz").read_bytes()) == sentences_text()
    for split in SPLITS:
        assert phrases(split) == tuple(sentence.texts for sentence in corpus.sentences(1)[split])


def test_no_sentence_of_one_split_is_in_another_in_any_language() -> None:
    for one, other in combinations(SPLITS, 2):
        for texts, others in zip(
            zip(*phrases(one), strict=True), zip(*phrases(other), strict=True), strict=True
        ):
            assert set(texts).isdisjoint(others)


def test_held_out_combinations_are_in_the_test_and_nowhere_else(grammar: Grammar) -> None:
    def combined(split: str) -> set[tuple[str, str]]:
        return {
            (sentence.construction, f"{slot}={word.forms['id']}")
            for sentence in corpus.sentences(1)[split]
            for slot, word in sentence.words.items()
        }

    held_out = {(name, pair) for name, all_ in grammar.held_out.items() for pair in all_}
    assert len(held_out) >= 50
    assert held_out <= combined("test")
    assert held_out.isdisjoint(combined("train") | combined("valid"))


def test_unseen_phrases_are_the_held_out_half_of_the_test() -> None:
    unseen = unseen_phrases()
    assert set(unseen) < set(phrases("test"))
    assert len(unseen) == len(phrases("test")) - len(unseen) == 500
    assert all(sentence.held_out for sentence in corpus.sentences(1)["test"] if sentence.texts in unseen)


def test_every_word_and_every_construction_occurs_in_train(grammar: Grammar) -> None:
    train = corpus.sentences(1)["train"]
    used = {(word.table, word.forms["id"]) for sentence in train for word in sentence.words.values()}
    assert used == {(name, word.forms["id"]) for name, table in grammar.tables.items() for word in table}
    assert {sentence.construction for sentence in train} == {each.id for each in grammar.constructions}


def test_pairs_are_two_sides_of_the_phrases() -> None:
    assert list(pairs("valid", "pl", "zh")) == [(phrase.pl, phrase.zh) for phrase in phrases("valid")]


def test_unknown_splits_and_languages_are_reported() -> None:
    with pytest.raises(DataError, match=r"phrasebook: no split 'dev'; there are train, valid, test"):
        phrases("dev")
    with pytest.raises(DataError, match=r"phrasebook: no language 'fr'; there are en, de, pl, zh"):
        pairs("test", "en", "fr")


def test_the_issue_topics_are_covered(grammar: Grammar) -> None:
    topics = {construction.topic for construction in grammar.constructions}
    wanted = [
        "people",
        "food",
        "directions",
        "prices",
        "weather",
        "shopping",
        "questions",
        "negation",
        "past",
        "future",
    ]
    assert topics >= {*wanted, "clock times", "days", "travel", "modal verbs", "subordinate clauses"}


# What a sentence looks like


@pytest.mark.slow
def test_every_sentence_is_finished() -> None:
    for sentence in sentences():
        phrase = Phrase(*sentence.texts)
        for text in phrase[:3]:
            assert re.fullmatch(r"[A-ZÄÖÜŁŚŻ][^{}|+]*[^\s{}][.?]", text), (sentence.construction, text)
            assert not re.search(r"  | [.,?]|/|(^| )-( |$)", text), (sentence.construction, text)
        assert re.fullmatch(r"[^\s{}.,?!a-zA-SU-Z-]+[。？]", phrase.zh), (sentence.construction, phrase.zh)


def test_questions_are_questions_in_every_language() -> None:
    for sentence in sentences():
        asked = [text[-1] in "?？" for text in sentence.texts]
        assert len(set(asked)) == 1, sentence.texts


def test_every_table_is_found_beside_the_package(grammar: Grammar) -> None:
    assert all(grammar.tables.values())
    assert grammar.constructions
    assert grammar.paradigms


def test_a_row_is_known_by_its_id(grammar: Grammar) -> None:
    for table in grammar.tables.values():
        ids = [word.forms["id"] for word in table]
        assert len(ids) == len(set(ids))


# English

PLURALS = {"knife": "knives", "scarf": "scarves", "bus": "buses", "watch": "watches", "tomato": "tomatoes"}


@pytest.mark.parametrize(
    ("verb", "form"),
    [("wash", "washes"), ("go", "goes"), ("tidy", "tidies"), ("play", "plays"), ("eat", "eats")],
)
def test_english_third_person(verb: str, form: str) -> None:
    assert third_person(verb) == form


@pytest.mark.parametrize(
    ("noun", "phrase"), [("apple", "an apple"), ("umbrella", "an umbrella"), ("bag", "a bag")]
)
def test_english_article(grammar: Grammar, noun: str, phrase: str) -> None:
    assert say(grammar, "en", "a thing", thing=f"nouns {noun}") == phrase


def test_english_article_follows_the_adjective(grammar: Grammar) -> None:
    assert say(grammar, "en", "a kind thing", kind="adjectives old", thing="nouns bag") == "an old bag"


# German: the paradigm of every textbook

GERMAN = """
der  nom der neue Tisch    die neue Lampe    das neue Bett     die neuen Stühle
der  acc den neuen Tisch   die neue Lampe    das neue Bett     die neuen Stühle
der  dat dem neuen Tisch   der neuen Lampe   dem neuen Bett    den neuen Stühlen
kein nom kein neuer Tisch  keine neue Lampe  kein neues Bett   keine neuen Stühle
kein acc keinen neuen Tisch keine neue Lampe kein neues Bett   keine neuen Stühle
kein dat keinem neuen Tisch keiner neuen Lampe keinem neuen Bett keinen neuen Stühlen
-    nom neuer Tisch       neue Lampe        neues Bett        neue Stühle
-    acc neuen Tisch       neue Lampe        neues Bett        neue Stühle
-    dat neuem Tisch       neuer Lampe       neuem Bett        neuen Stühlen
dieser nom dieser neue Tisch diese neue Lampe dieses neue Bett diese neuen Stühle
dieser acc diesen neuen Tisch diese neue Lampe dieses neue Bett diese neuen Stühle
dieser dat diesem neuen Tisch dieser neuen Lampe diesem neuen Bett diesen neuen Stühlen
""".strip().splitlines()


@pytest.mark.parametrize("line", GERMAN)
def test_german_adjectives_and_articles(grammar: Grammar, line: str) -> None:
    determiner, case, *expected = line.split()
    nouns = ["nouns table", "nouns lamp", "nouns bed", "nouns chair"]
    group = f"{determiner.strip('-')} kind thing {case}"
    said = [
        say(grammar, "de", group + (" pl" if noun == nouns[3] else ""), kind="adjectives new", thing=noun)
        for noun in nouns
    ]
    assert " ".join(said) == " ".join(expected)


def test_german_verbs_send_their_prefix_to_the_end_of_a_main_clause_only(grammar: Grammar) -> None:
    verb, who = "verbs watch TV", "persons she"
    assert say(grammar, "de", "verb who", verb=verb, who=who) == "sieht"
    assert say(grammar, "de", "verb prefix", verb=verb) == "fern"
    assert say(grammar, "de", "verb who joined", verb=verb, who=who) == "fernsieht"
    assert say(grammar, "de", "verb pp", verb=verb) == "ferngesehen"


def test_german_subordinate_clauses_end_in_their_verb(grammar: Grammar) -> None:
    ends = re.compile(
        r"(?:bin|bist|ist|sind|war|waren|werde|wirst|wird|werden|regnet|schneit|habe|hast|hat|haben)[.?]"
    )
    for sentence in sentences():
        clause = re.search(r", (?:weil|dass|ob) (.*)", sentence.texts[1])
        if clause:
            assert ends.fullmatch(clause[1].split()[-1]), sentence.texts[1]


def test_german_prepositions_are_contracted() -> None:
    assert not any(re.search(r"\b(zu de[mr]|von dem|bei dem|in dem) ", s.texts[1]) for s in sentences())


# Polish


@pytest.mark.parametrize(
    ("number", "noun", "counted"),
    [
        ("two", "book", "dwie książki"),
        ("two", "car", "dwa samochody"),
        ("two", "apple", "dwa jabłka"),
        ("four", "dog", "cztery psy"),
        ("five", "book", "pięć książek"),
        ("five", "dog", "pięć psów"),
        ("twelve", "zloty", "dwanaście złotych"),
        ("twenty-two", "zloty", "dwadzieścia dwa złote"),
        ("twenty-two", "minute", "dwadzieścia dwie minuty"),
        ("twenty-five", "year", "dwadzieścia pięć lat"),
        ("thirty-four", "year", "trzydzieści cztery lata"),
    ],
)
def test_polish_numerals_govern_the_noun(grammar: Grammar, number: str, noun: str, counted: str) -> None:
    assert say(grammar, "pl", "n thing", n=f"numbers {number}", thing=f"nouns {noun}") == counted


POLISH = """
new   nom nowy kot      nowy dom      nowa lampa    nowe łóżko     nowe stoły    nowe drzwi
new   acc nowego kota   nowy dom      nową lampę    nowe łóżko     nowe stoły    nowe drzwi
new   gen nowego kota   nowego domu   nowej lampy   nowego łóżka   nowych stołów nowych drzwi
expensive nom drogi kot drogi dom     droga lampa   drogie łóżko   drogie stoły  drogie drzwi
expensive acc drogiego kota drogi dom drogą lampę   drogie łóżko   drogie stoły  drogie drzwi
expensive gen drogiego kota drogiego domu drogiej lampy drogiego łóżka drogich stołów drogich drzwi
cheap nom tani kot      tani dom      tania lampa   tanie łóżko    tanie stoły   tanie drzwi
cheap acc taniego kota  tani dom      tanią lampę   tanie łóżko    tanie stoły   tanie drzwi
cheap gen taniego kota  taniego domu  taniej lampy  taniego łóżka  tanich stołów tanich drzwi
""".strip().splitlines()


@pytest.mark.parametrize("line", POLISH)
def test_polish_adjectives_agree_with_the_noun(grammar: Grammar, line: str) -> None:
    kind, case, *expected = line.split()
    nouns = {"cat": "", "house": "", "lamp": "", "bed": "", "table": " pl", "door": ""}
    said = [
        say(grammar, "pl", f"kind thing {case}{number}", kind=f"adjectives {kind}", thing=f"nouns {noun}")
        for noun, number in nouns.items()
    ]
    assert " ".join(said) == " ".join(expected)


@pytest.mark.parametrize(
    ("who", "past"),
    [
        ("I", "przyniosłem"),
        ("he", "przyniósł"),
        ("she", "przyniosła"),
        ("we", "przynieśliśmy"),
        ("they", "przynieśli"),
        ("the children", "przyniosły"),
    ],
)
def test_polish_past_agrees_in_gender(grammar: Grammar, who: str, past: str) -> None:
    assert say(grammar, "pl", "verb who past", verb="verbs bring", who=f"persons {who}") == past


def test_polish_adjectives_agree_with_persons(grammar: Grammar) -> None:
    people = ["persons he", "persons she", "persons they", "persons the children"]
    said = [say(grammar, "pl", "kind like who", kind="adjectives tired", who=who) for who in people]
    assert said == ["zmęczony", "zmęczona", "zmęczeni", "zmęczone"]


def test_a_negated_polish_verb_takes_the_genitive() -> None:
    drinks = [s for s in sentences() if s.construction == "drink-never"]
    assert drinks
    for sentence in drinks:
        assert sentence.texts[2].endswith(f" {sentence.words['thing'].forms['pl_gen']}.")


def test_polish_is_perfective_for_what_is_done_and_imperfective_for_what_goes_on(grammar: Grammar) -> None:
    verb, who = "verbs read", "persons she"
    assert say(grammar, "pl", "verb who past", verb=verb, who=who) == "przeczytała"
    assert say(grammar, "pl", "verb who was", verb=verb, who=who) == "czytała"
    assert say(grammar, "pl", "verb who future", verb=verb, who=who) == "przeczyta"


# Chinese


def test_every_counted_chinese_noun_has_its_own_measure_word(grammar: Grammar) -> None:
    measures = {noun.forms["zh"]: noun.forms["zh_measure"] for noun in grammar.tables["nouns"]}
    for sentence in sentences():
        thing = sentence.words.get("thing")
        if thing is not None and "n" in sentence.words and sentence.construction == "buy-n":
            counted = sentence.words["n"].forms["zh"] + measures[thing.forms["zh"]] + thing.forms["zh"]
            assert counted in sentence.texts[3]
    assert len({measure for measure in measures.values() if measure}) >= 20


@pytest.mark.parametrize(
    ("noun", "phrase"),
    [("book", "一本旧书"), ("shirt", "一件旧衬衫"), ("car", "一辆旧汽车"), ("bed", "一张旧床")],
)
def test_the_measure_word_comes_before_the_adjective(grammar: Grammar, noun: str, phrase: str) -> None:
    assert say(grammar, "zh", "a kind thing", kind="adjectives old", thing=f"nouns {noun}") == phrase


def test_two_of_something_is_liang(grammar: Grammar) -> None:
    assert say(grammar, "zh", "n thing", n="numbers two", thing="nouns dog") == "两只狗"
