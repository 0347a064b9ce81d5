"""What is no text is refused in one line, whichever function of the library it is given to."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer

import dragoman
from dragoman import Classifier, Protection, Translator
from dragoman.cli import app
from dragoman.config import SearchConfig
from dragoman.documents import DocumentFile
from dragoman.errors import DataError
from dragoman.metrics.translation import score_all
from dragoman.predict.alignment import word_probabilities
from dragoman.predict.attention import attention_maps
from dragoman.predict.glossary import Glossary
from dragoman.predict.occlusion import word_importance
from dragoman.predict.scoring import score_pairs

CALLS: dict[str, tuple[str, Callable[[Translator, Any], object]]] = {
    "align": ("source", lambda t, texts: dragoman.align(t, texts, texts)),
    "score": ("target", lambda t, texts: score_pairs(t, ["red"], texts)),
    "confidence": ("source", lambda t, texts: word_probabilities(t, texts, texts)),
    "protection": ("sentence", lambda t, texts: dragoman.translate_protected(t, texts, Protection())),
    "evaluate": ("reference", lambda t, texts: score_all(["red"], texts, tgt_lang="de")),
    "tokenize": ("text", lambda t, texts: t.tokenizers.src.encode_batch(texts)),
}


@pytest.mark.parametrize(("what", "call"), CALLS.values(), ids=CALLS)
def test_lists_of_other_things_are_refused(
    translator: Translator, what: str, call: Callable[[Translator, Any], object]
) -> None:
    for text, kind in ((None, "NoneType"), (b"red", "bytes")):
        with pytest.raises(DataError, match=f"^{what} 1: is of type {kind}, and not a string$"):
            call(translator, [text])
    for texts, kind in ((None, "NoneType"), ("red", "str"), (3, "int"), ({}, "dict")):
        with pytest.raises(DataError, match=f"^give a list of {what}s, not a value of type {kind}$"):
            call(translator, texts)


def test_a_classifier_refuses_them(classifier: Classifier) -> None:
    for call in (classifier.classify, classifier.logits, lambda texts: word_importance(classifier, texts)):
        with pytest.raises(DataError, match=r"^text 2: is of type NoneType, and not a string$"):
            call(["good", None])  # type: ignore[list-item]


def test_single_texts_of_other_types_are_refused(translator: Translator) -> None:
    for what, call in {
        "text": lambda value: attention_maps(translator, value, "rot"),
        "document": lambda value: dragoman.translate_document(translator, value),
        "sentence": lambda value: Glossary([("red", "rot")]).required(value),
    }.items():
        with pytest.raises(DataError, match=f"^{what} 1: is of type bytes, and not a string$"):
            call(b"red")
    with pytest.raises(DataError, match=re.escape("a.srt: its content is of type str, and not bytes")):
        DocumentFile.read("a.srt", "text", ("en", "de"))  # type: ignore[arg-type]


def options(group: typer.Typer) -> Iterator[tuple[str, Any]]:
    """The numeric options of all commands that no setting of [search] or [training] checks."""
    for command in group.registered_commands:
        assert command.callback is not None
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            if get_origin(hint) is Annotated and name not in {*SearchConfig.model_fields, "extend_vocab"}:
                kind, info, *_ = get_args(hint)
                if {int, float} & {kind, *get_args(kind)}:
                    yield f"{command.callback.__name__} {name}", info
    for child in group.registered_groups:
        assert child.typer_instance is not None
        yield from options(child.typer_instance)


def test_every_numeric_option_has_bounds() -> None:
    found = list(options(app))
    assert len(found) > 15
    for name, info in found:
        assert info.min is not None, name
        assert info.max is not None, name
