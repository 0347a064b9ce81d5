"""Requests and answers of the service's own interface, with examples."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf, StrictInt, WithJsonSchema
from starlette.datastructures import UploadFile

Number = float | None
"""A number; null = not finite."""

Term: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


class Message(BaseModel):
    """A request or a response. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


def examples(*values: dict[str, Any]) -> ConfigDict:
    """Return the configuration that adds these examples to a message."""
    return ConfigDict(json_schema_extra={"examples": list(values)})


class Problem(Message):
    """The response to a failed request."""

    model_config = examples({"error": "text: is empty; send what is to be translated"})

    error: str
    """One line: what is wrong, where, and what to do."""


class TranslateRequest(Message):
    """Texts to translate, with search settings."""

    model_config = examples(
        {"text": "A man is riding a bike.", "source": "en", "target": "de"},
        {"text": ["Two dogs play.", "A child sleeps."], "n_best": 3, "align": True, "confidence": True},
        {"text": "Two dogs play.", "glossary": [["dogs", "Hund"]], "inflect": True, "protect": True},
    )

    text: str | list[str] = Field(description="A text of any number of sentences, or several texts.")
    model: str | None = Field(default=None, description="The model's name; null: the first of the direction.")
    source: str | None = Field(default=None, description='The language of the text, or "auto" to detect it.')
    target: str | None = Field(default=None, description="The language of the translation.")
    split: bool = Field(default=True, description="Whether sentences of a text are told apart.")
    n_best: int = Field(default=1, ge=1, description="Alternatives of each sentence, best first.")
    beam_size: int | None = Field(default=None, ge=1, description="Hypotheses kept; 1 is greedy.")
    length_penalty: float | None = Field(default=None, ge=0.0, le=10.0)
    no_repeat_ngram: int | None = Field(default=None, ge=0, le=100)
    method: Literal["beam", "sampling"] | None = None
    temperature: float | None = Field(default=None, ge=0.001, le=1000.0)
    top_k: int | None = Field(default=None, ge=0, le=1_000_000)
    top_p: float | None = Field(default=None, ge=1e-6, le=1.0)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    prefix: str | None = Field(
        default=None, description="What the translation begins with; for one text with split = false."
    )
    required: list[str] = Field(
        default_factory=list, description="Phrases that it holds; for one text with split = false."
    )
    glossary: list[Annotated[list[Term], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list,
        description="Terms and their required translations: [source, target], one for each source.",
    )
    inflect: bool = Field(
        default=False, description="Whether inflected forms of `glossary` and `required` will do."
    )
    protect: bool | list[Literal["numbers", "urls", "emails", "tags", "placeholders"]] = Field(
        default=False, description="What is copied unchanged; true: all of these kinds."
    )
    align: bool = Field(default=False, description="Add the links between words.")
    confidence: bool = Field(default=False, description="Add the probability of each word.")
    stream: bool = Field(
        default=False, description="Answer with server-sent events: begin, sentence, done, error."
    )


class AlternativeMessage(Message):
    """A candidate with its score: log-probability over the length penalty."""

    text: str
    score: Number


class LinkMessage(Message):
    """An aligned pair of words: half-open character spans of source and translation, and a weight."""

    source: tuple[int, int]
    target: tuple[int, int]
    weight: float


class WordMessage(Message):
    """A word of the translation with its probability, given the words before it."""

    start: int
    end: int
    probability: float


class SentenceMessage(Message):
    """The translation of a sentence, and its place in the translation of the text."""

    source_start: int = Field(description="Where the sentence stands in its text.")
    source_end: int
    source: str
    text: str
    score: Number
    alternatives: list[AlternativeMessage] = Field(description="n_best of them; the first is `text`.")
    links: list[LinkMessage] | None = Field(description="Within `source` and `text`.")
    words: list[WordMessage] | None = Field(description="Within `text`.")
    start: int = Field(description="Where its translation stands in the text's translation.")
    end: int


class TranslationMessage(Message):
    """The translation of a text."""

    text: str
    sentences: list[SentenceMessage]


class TranslateResponse(Message):
    """A translation for each text; with `stream`, the data of the event "done"."""

    model: str
    source: str
    target: str
    pivot: str | None = Field(
        default=None, description="The language that was translated through, where no model has this pair."
    )
    translations: list[TranslationMessage]


class ClassifyRequest(Message):
    """Texts to classify."""

    model_config = examples({"text": "A lovely film."})

    text: str | list[str]
    model: str | None = None


class ClassificationMessage(Message):
    """The labels of a text, with the probability of each label."""

    label: str | None = Field(description="The most likely label; null for an empty text.")
    labels: list[str] = Field(
        description="The labels given: one, or, where texts have several, those above the threshold."
    )
    probabilities: dict[str, float] = Field(description="The most likely first.")
    n_cut: int = Field(description="Tokens at the end of the text that were not read.")


class ClassifyResponse(Message):
    """A result for each text."""

    model: str
    results: list[ClassificationMessage]


class DetectRequest(Message):
    """A text whose language is to be detected."""

    model_config = examples({"text": "Wo ist der Bahnhof?"})

    text: str


class LanguageMessage(Message):
    """A language with its confidence, 0 to 1."""

    language: str
    confidence: float


class DetectResponse(Message):
    """Languages, most likely first."""

    languages: list[LanguageMessage]


class ModelMessage(Message):
    """A model: a translator has languages, a classifier has labels."""

    name: str
    task: Literal["translation", "classification"]
    parameters: int
    precision: str
    source: str | None = None
    target: str | None = None
    pivot: str | None = None
    beam_size: int | None = None
    max_n_best: int | None = None
    labels: list[str] | None = None


class LimitsMessage(Message):
    """Limits of a request."""

    characters: int
    glossary_entries: int
    file_bytes: int
    file_characters: int


class ModelsResponse(Message):
    """The models and limits of the service."""

    models: list[ModelMessage]
    limits: LimitsMessage
    needs_key: bool
    formats: list[str] = Field(description="Endings of documents that are translated.")


def whole(text: str) -> str:
    """Return a text. ValueError: it holds half of a surrogate pair."""
    text.encode()
    return text


Text: TypeAlias = Annotated[str, AfterValidator(whole)]


class LibreTranslate(BaseModel):
    """Texts to translate, in LibreTranslate's format."""

    model_config = examples(
        {"q": "A man is riding a bike.", "source": "en", "target": "de"},
        {"q": "<p>Two <b>dogs</b> play.</p>", "source": "auto", "target": "de", "format": "html"},
    )

    q: Text | list[Text] = Field(description="A text or, in JSON, several.")
    source: str = Field(description='The language of the text, or "auto".')
    target: str = Field(description="The language of the translation.")
    format: Literal["text", "html", ""] | None = "text"
    alternatives: StrictInt | Annotated[str, Field(pattern="^-?[0-9]{1,9}$")] | None = Field(
        default=0, description="More translations of each text, at most."
    )
    api_key: str | None = None


class LibreDetect(BaseModel):
    """A text whose language is to be detected."""

    model_config = examples({"q": "Wo ist der Bahnhof?"})

    q: Annotated[Text | list[Text], WithJsonSchema({"type": "string"})]
    api_key: str | None = None


class LibreTranslateFile(BaseModel):
    """A document to translate."""

    file: Annotated[InstanceOf[UploadFile], WithJsonSchema({"type": "string", "format": "binary"})]
    source: str = Field(description='The language of the document, or "auto".', examples=["en"])
    target: str = Field(description="The language of the translation.", examples=["de"])
    api_key: str | None = None


class LibreDetection(Message):
    """A language with its confidence, 0 to 100."""

    confidence: float
    language: str


class LibreTranslation(Message):
    """A translation; every field is a list if the request has a list of texts."""

    translatedText: str | list[str]  # noqa: N815
    detectedLanguage: LibreDetection | list[LibreDetection] | None = Field(  # noqa: N815
        default=None, description='With source = "auto".'
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        default=None, description="Where they were asked for."
    )


class LibreLanguage(Message):
    """A language with its target languages."""

    code: str
    name: str
    targets: list[str]


class LibreFile(Message):
    """The address of a translated document."""

    translatedFileUrl: str  # noqa: N815


class NamedLanguage(Message):
    """A language with its name."""

    code: str
    name: str


class LibreDirection(Message):
    """The languages that a page selects first."""

    source: NamedLanguage
    target: NamedLanguage


class LibreSettings(Message):
    """Settings for a web page that uses the service."""

    apiKeys: bool  # noqa: N815
    charLimit: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    frontendTimeout: int  # noqa: N815
    keyRequired: bool  # noqa: N815
    language: LibreDirection
    suggestions: bool
    supportedFilesFormat: list[str]  # noqa: N815


class LibreInfo(Message):
    """The name of an interface."""

    title: str


class LibreSpec(Message):
    """What LibreTranslate's interface is called."""

    info: LibreInfo
