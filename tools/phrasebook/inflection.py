"""The regular part of four grammars: endings, agreement and government. Irregular forms are in the tables.

A group such as `{ein kind thing acc}` holds words (a noun, an adjective, a number, a verb, a person) and
features (a determiner, a case, a tense). `inflect` returns the text of one group in one language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PERSONS = ("I", "you", "he", "we", "they")
CASES = ("nom", "acc", "gen", "dat", "ins", "loc")


class Word(NamedTuple):
    """One row of a table: `forms["de"]` is its basic German form, `forms["de_pl"]` another one."""

    table: str
    forms: Mapping[str, str]

    def form(self, lang: str, *features: str) -> str:
        return self.forms["_".join((lang, *features))]

    @property
    def classes(self) -> frozenset[str]:
        return frozenset(self.forms.get("class", "").split())


class Group(NamedTuple):
    """The words of one group by the kind they are, and its features."""

    lang: str
    words: Mapping[str, Word]  # noun, adjective, number, verb, person or phrase
    features: Sequence[str]

    def has(self, feature: str) -> bool:
        return feature in self.features

    @property
    def case(self) -> str:
        return next((case for case in CASES if case in self.features), "nom")


KINDS = {"nouns": "noun", "places": "noun", "adjectives": "adjective", "numbers": "number"}
KINDS |= {"verbs": "verb", "persons": "person"}


def inflect(lang: str, words: Sequence[Word], features: Sequence[str], paradigms: Mapping[str, Any]) -> str:
    """Return the text of a group. KeyError where the tables lack the form it asks for."""
    group = Group(lang, {KINDS.get(word.table, "phrase"): word for word in words}, features)
    rules = paradigms[lang]
    auxiliary = next((name for name in features if name in rules["auxiliaries"]), None)
    if auxiliary is not None:
        subject = group.words["person"] if "person" in group.words else group.words["noun"]
        return _by_person(rules["auxiliaries"][auxiliary], subject)
    if "verb" in group.words and lang in _VERB:
        return _VERB[lang](group)
    if group.has("like"):
        return _like(group, rules)
    if "noun" in group.words and _is_noun_phrase(group):
        return _NOUN_PHRASE[lang](group, rules)
    if "phrase" in group.words and "person" in group.words:
        return group.words["phrase"].form(lang, *features, group.words["person"].forms["gender"])
    (word,) = words
    return word.form(lang, *features)


def _is_noun_phrase(group: Group) -> bool:
    """Return whether the noun is inflected: not if the features name a column of its row (`{place to}`)."""
    column = "_".join((group.lang, *group.features))
    return len(group.words) > 1 or not group.features or column not in group.words["noun"].forms


def _by_person(forms: Sequence[str], subject: Word) -> str:
    """One of the forms for I, you, he, we, they; a noun takes that for he.

    `był/była/było` is masculine/feminine/neuter, `byli/były` virile/other.
    """
    choices = forms[PERSONS.index(subject.forms.get("person", "he"))].split("/")
    gender = subject.forms["gender"] if "gender" in subject.forms else polish_gender(subject)
    return choices[min({"f": 1, "n": 2, "nonvir": 1}.get(gender, 0), len(choices) - 1)]


# English


def _english_verb(group: Group) -> str:
    verb, person = group.words["verb"], group.words.get("person")
    if group.features or person is None:
        return verb.form("en", *(feature for feature in group.features if feature != "inf"))
    return third_person(verb.form("en")) if person.forms["person"] == "he" else verb.form("en")


def third_person(verb: str) -> str:
    """`verb` in the third person singular: watch, watches; carry, carries; buy, buys."""
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def _english_noun_phrase(group: Group, rules: Mapping[str, Any]) -> str:
    noun, adjective, number = (group.words.get(kind) for kind in ("noun", "adjective", "number"))
    assert noun is not None
    parts = [noun.form("en", "pl") if number or group.has("pl") else noun.form("en")]
    if adjective:
        parts.insert(0, adjective.form("en", *(["more"] if group.has("more") else [])))
    if number:
        parts.insert(0, number.form("en"))
    for determiner in group.features:
        if determiner in rules["determiners"]:
            parts.insert(0, article(parts[0]) if determiner == "a" else determiner)
    if group.has("own"):
        parts.insert(0, group.words["person"].form("en", "poss"))
    return " ".join(parts)


def article(word: str) -> str:
    """Return the indefinite article that `word` takes: "a" or "an"."""
    like_you = word.startswith(("uni", "eu", "use")) and not word.startswith("unim")
    return "an" if word[0] in "aeiou" and not like_you else "a"


# German

GERMAN_GENDERS = {"der": "m", "die": "f", "das": "n"}
COLUMNS = {"m": 0, "f": 1, "n": 2, "pl": 3}


def _german_verb(group: Group) -> str:
    """Return a verb such as `auf+machen`, whose prefix is on its own in the present of a main clause.

    `aux`: hat or ist; `pp`: aufgemacht; `prefix`: auf; `joined`: aufmacht, as at the end of a clause.
    """
    verb, person = group.words["verb"], group.words.get("person")
    prefix, _, stem = verb.form("de").rpartition("+")
    if group.has("inf"):
        return prefix + stem
    if group.has("prefix"):
        return prefix
    auxiliary, _, participle = verb.form("de", "pp").partition(" ")
    if group.has("pp"):
        return participle
    if person is None:
        return verb.form("de", *group.features)
    if group.has("aux"):
        forms = {"hat": "habe hast hat haben haben", "ist": "bin bist ist sind sind"}[auxiliary]
        return _by_person(forms.split(), person)
    present = _by_person(verb.form("de", "present").split(), person)
    return prefix + present if group.has("joined") else present


def german_gender(noun: Word) -> str:
    """m, f or n, after the article in `das Brot`."""
    return GERMAN_GENDERS[noun.form("de").split(" ", 1)[0]]


def german_noun(noun: Word, case: str, *, plural: bool) -> str:
    """Return the noun in a case.

    `der Student/Studenten` has its second form in all cases but the nominative.
    """
    if plural:
        form = noun.form("de", "pl")
        return form + "n" if case == "dat" and not form.endswith(("n", "s")) else form
    nominative, _, other = noun.form("de").split(" ", 1)[1].partition("/")
    return other if other and case != "nom" else nominative


def _german_noun_phrase(group: Group, rules: Mapping[str, Any]) -> str:
    noun, adjective, number = (group.words.get(kind) for kind in ("noun", "adjective", "number"))
    assert noun is not None
    plural = number is not None or group.has("pl")
    column = COLUMNS["pl" if plural else german_gender(noun)]
    name = next((feature for feature in group.features if feature in rules["determiners"]), "")
    if group.has("own"):
        name = group.words["person"].form("de", "poss")
    if name in rules["pronouns"]:
        return rules["pronouns"][name][group.case].split()[column]
    parts, declension = [], "strong"
    if name:
        declension = "weak" if name in rules["weak_after"] else "mixed"
        parts.append(_german_determiner(name, group.case, column, rules))
    if number:
        parts.append(number.form("de"))
    if adjective:
        ending = rules["endings"][declension][group.case].split()[column]
        parts.append(_german_adjective(adjective, ending, more=group.has("more")))
    return " ".join([*parts, german_noun(noun, group.case, plural=plural)])


def _german_determiner(name: str, case: str, column: int, rules: Mapping[str, Any]) -> str:
    if name == "der":
        return rules["articles"]["der"][case].split()[column]
    stem = name.removesuffix("er") if name in rules["weak_after"] else name
    model = "dieser" if name in rules["weak_after"] else "kein"
    ending = rules["articles"][model][case].split()[column]
    return stem + ending.removeprefix("-")


def _german_adjective(adjective: Word, ending: str, *, more: bool = False) -> str:
    """`adjective` with an ending; `teuer/teur` takes it at its second form, `lila/=` takes none."""
    plain, _, stem = adjective.form("de", *(["more"] if more else [])).partition("/")
    return (stem or plain) + ending


# Polish


def _polish_verb(group: Group) -> str:
    """present, past (perfective), was (imperfective past), future (perfective), inf, perfective (inf)."""
    verb, person = group.words["verb"], group.words.get("person")
    if group.has("inf"):
        return verb.form("pl")
    if person is None or group.has("perfective"):
        return verb.form("pl", *group.features)
    for tense in ("past", "was"):
        if group.has(tense):
            return polish_past(verb.form("pl", tense).split(), person)
    if group.has("participle"):  # będzie czytał: the imperfective future
        return polish_past(verb.form("pl", "was").split(), person, ending=False)
    return _by_person(verb.form("pl", "future" if group.has("future") else "present").split(), person)


def polish_past(forms: Sequence[str], person: Word, *, ending: bool = True) -> str:
    """kupił, kupiła, kupili and what follows from them; `ending` adds -em and -śmy for I and we."""
    masculine, feminine, virile = forms
    gender = person.forms["gender"]
    form = {"m": masculine, "f": feminine, "vir": virile, "nonvir": feminine[:-1] + "y"}[gender]
    if not ending:
        return form
    suffix = {"I": "em" if gender == "m" else "m", "we": "śmy"}
    assert person.forms["person"] != "you", "the sex of the addressee is left open: no past for `you`"
    if person.forms["person"] == "I" and gender == "m":
        form = form[:-3] + form[-3:].replace("ó", "o")  # przyniósł, przyniosłem
    return form + suffix.get(person.forms["person"], "")


def polish_gender(word: Word) -> str:
    """p, a, i (masculine persons, animals, things), f, n, or o (only plural: drzwi) of a noun."""
    return word.forms["pl_gender"]


def _polish_column(gender: str, *, plural: bool) -> int:
    """Return the column of masculine, feminine, neuter, virile plural, other plural."""
    if plural:
        return 3 if gender == "p" else 4
    return {"f": 1, "n": 2, "o": 4}.get(gender, 0)


def _polish_case(case: str, gender: str, *, plural: bool) -> str:
    """Return the case used for the accusative: genitive for living men, nominative for things."""
    if case != "acc":
        return case
    if plural:
        return "gen" if gender == "p" else "nom"
    return {"p": "gen", "a": "gen", "i": "nom", "f": "acc", "n": "nom", "o": "nom"}[gender]


def polish_noun(noun: Word, case: str, *, plural: bool) -> str:
    """Return the noun in a case.

    The accusative of feminines in -a ends in -ę, of others equals the nominative.
    """
    case = _polish_case(case, polish_gender(noun), plural=plural)
    if plural:
        return noun.form("pl", "pl") if case == "nom" else noun.form("pl", case, "pl")
    nominative = noun.form("pl")
    if case == "nom":
        return nominative
    if case == "acc":
        return nominative[:-1] + "ę" if nominative.endswith("a") else nominative
    return noun.form("pl", case)


def polish_adjective(adjective: str, virile: str, case: str, column: int, rules: Mapping[str, Any]) -> str:
    """Return an adjective given as `nowy` (with its virile plural `nowi`), in one case and column."""
    if column == 3 and case == "nom":
        return virile
    velar = adjective.endswith(("ki", "gi"))
    model = "velar" if velar else "soft" if adjective.endswith("i") else "hard"
    return adjective[:-1] + rules["endings"][model][case].split()[column].strip("-")


def polish_counted(number: Word, noun: Word) -> tuple[str, str]:
    """Return the number in the noun's gender, and the case it governs: nom after 2-4, 22-24 ..., else gen."""
    numeral = number.form("pl", "f") if polish_gender(noun) == "f" else number.form("pl")
    return numeral, number.form("pl", "governs")


def _polish_noun_phrase(group: Group, rules: Mapping[str, Any]) -> str:
    noun, adjective, number = (group.words.get(kind) for kind in ("noun", "adjective", "number"))
    assert noun is not None
    plural, case, parts = group.has("pl"), group.case, []
    gender = polish_gender(noun)
    if number:
        assert gender != "p", "numerals of men are left out"
        assert case in ("nom", "acc"), "oblique numerals are left out"
        numeral, case = polish_counted(number, noun)
        plural = True
        parts.append(numeral)
    agreement, column = _polish_case(case, gender, plural=plural), _polish_column(gender, plural=plural)
    for name in group.features:
        if name in rules["determiners"]:
            form = rules["articles"][name][agreement].split()[column]
            if group.has("alone"):  # a relative pronoun
                return form
            parts.append(form)
    if group.has("own"):
        name = group.words["person"].form("pl", "poss")  # jego, jej and ich are the same everywhere
        parts.append(
            rules["articles"][name][agreement].split()[column] if name in rules["articles"] else name
        )
    if adjective:
        parts.append(_polish_described(adjective, agreement, column, group, rules))
    return " ".join([*parts, polish_noun(noun, case, plural=plural)])


def _polish_described(adjective: Word, case: str, column: int, group: Group, rules: Mapping[str, Any]) -> str:
    more = ["more"] if group.has("more") else []
    virile = adjective.form("pl", "virile") if not more else ""
    return polish_adjective(adjective.form("pl", *more), virile, case, column, rules)


# Chinese


def _chinese_noun_phrase(group: Group, rules: Mapping[str, Any]) -> str:
    """一本新书: determiner or number, the measure word of the noun, adjective, noun."""
    noun, adjective, number = (group.words.get(kind) for kind in ("noun", "adjective", "number"))
    assert noun is not None
    described = adjective.form("zh") if adjective else ""
    if described.endswith("色") and len(noun.form("zh")) == 1:
        described += "的"  # 黄色桌子, but 黄色的灯
    parts = [described, noun.form("zh")]
    counted = number.form("zh") if number else ""
    for determiner in group.features:
        if determiner in rules["determiners"]:
            counted = rules["determiners"][determiner]
    if counted:
        parts.insert(0, counted + noun.form("zh", "measure"))
    return "".join(parts)


def _like(group: Group, rules: Mapping[str, Any]) -> str:
    """Return a predicate adjective, which agrees with its subject in Polish and does not in the others."""
    adjective = group.words["adjective"]
    more = ["more"] if group.has("more") else []
    if group.lang != "pl":
        return adjective.form(group.lang, *more).partition("/")[0]
    if "person" in group.words:
        column = {"m": 0, "f": 1, "n": 2, "vir": 3, "nonvir": 4}[group.words["person"].forms["gender"]]
    else:
        column = _polish_column(polish_gender(group.words["noun"]), plural=group.has("pl"))
    return _polish_described(adjective, "nom", column, group, rules)


_VERB = {"en": _english_verb, "de": _german_verb, "pl": _polish_verb}
_NOUN_PHRASE = {
    "en": _english_noun_phrase,
    "de": _german_noun_phrase,
    "pl": _polish_noun_phrase,
    "zh": _chinese_noun_phrase,
}
