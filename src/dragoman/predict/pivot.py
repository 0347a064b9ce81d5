"""Two translators, one after the other: a pair of languages for which there is no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.predict.alignment import Link, align
from dragoman.predict.translator import Translation, Translator


class PivotTranslator(Translator):
    """A translator from the source of `first` into the target of `second`, through a language of both."""

    def __init__(self, first: Translator, second: Translator) -> None:
        """Take translators towards one direction each, the second from the language that the first writes."""
        (src, _), (_, tgt) = first.config.languages, second.config.languages
        data = second.config.data.model_copy(
            update={"src_lang": src, "tgt_lang": tgt, "directions": (f"{src}-{tgt}",)}
        )
        super().__init__(second.model, second.tokenizers, second.config.model_copy(update={"data": data}))
        self.first, self.second = first, second
        self.engine = second.engine

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        required: Sequence[Sequence[str]] | None = None,
        to: str | None = None,
        first_number: int = 1,
        progress: Callable[[int], None] | None = None,
        **settings: Any,
    ) -> list[Translation]:
        """Return one translation per text, with its text in the pivot language as `through`.

        The first model searches as its run says; all settings are for the second.

        ConfigError: `to` is another direction, or a setting is wrong. DataError: as `Translator.translate`.
        """
        self.config.direction(to)
        between = [translation.text for translation in self.first.translate(texts, first_number=first_number)]
        translations = self.second.translate(
            between, prefixes=prefixes, required=required, first_number=first_number, progress=progress,
            **settings,
        )  # fmt: skip
        return [
            translation._replace(source=source, through=through, parts=())
            for source, through, translation in zip(texts, between, translations, strict=True)
        ]

    def align(self, translations: Sequence[Translation]) -> list[list[Link]]:
        """Return the links of each translation with its source: those of both steps, joined."""
        sources, through, texts = (
            [getattr(translation, name) for translation in translations]
            for name in ("source", "through", "text")
        )
        steps = align(self.first, sources, through), align(self.second, through, texts)
        return [joined(before, after) for before, after in zip(*steps, strict=True)]


def joined(before: Sequence[Link], after: Sequence[Link]) -> list[Link]:
    """Return links from source to target, from those to and from a text between: where both meet a word.

    Each word of the target has one link, with the product of the weights.
    """
    links = []
    for link in after:
        meeting = [
            one for one in before if one.target_start < link.source_end and link.source_start < one.target_end
        ]
        if meeting:
            best = max(meeting, key=lambda one: one.weight)
            links.append(
                link._replace(
                    source_start=best.source_start,
                    source_end=best.source_end,
                    weight=best.weight * link.weight,
                )
            )
    return links
