"""Corpora: whatever a file is like, its pairs come out, or one line says what is wrong with it."""

import re
from pathlib import Path

import pytest

from corpus_files import complaint, complaint_of, corpus_of, read, write
from dragoman.config import Column, TranslationConfig, parse_config
from dragoman.data.corpora import TableCorpus, open_corpus
from dragoman.data.named import open_direction
from dragoman.data.readers.files import compressed
from dragoman.data.records import Pair, part_of, split_held_out
from dragoman.errors import ConfigError, DataError


def test_aligned_files_give_their_lines_in_pairs(tmp_path: Path) -> None:
    en, de = write(tmp_path / "a.en", "one\n\nthree\n"), write(tmp_path / "a.de.gz", "eins\r\nzwei\r\ndrei")
    assert read(en, de) == [("one", "eins"), ("", "zwei"), ("three", "drei")]
    for n_src, n_tgt in ((3, 5), (5, 3), (0, 2)):
        write(Path(en), "x\n" * n_src)
        write(Path(de), "y\n" * n_tgt)
        assert complaint(en, de) == (
            f"{en} has {n_src} lines and {de} {n_tgt}; parallel files must match line by line "
            "(dragoman data check shows where they cease to)"
        )


def test_columns_of_a_tab_separated_file_are_chosen_and_more_tabs_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv.gz", "1\teins\tone\n2\tzwei\ttwo\textra\n\n")
    corpus = corpus_of(path, columns=(2, 1))
    assert list(corpus.pairs()) == [("one", "eins"), ("two", "zwei"), ("", "")]
    (note,) = corpus.notes()
    assert "1 line has more tabs than the first one, which has 2; what stands behind" in note
    for content in ("a\tb\tx\nc\td\te\n", "a\tb\n"):
        corpus = corpus_of(write(tmp_path / "a.tsv", content))
        list(corpus.pairs())
        assert corpus.notes() == []


def test_the_fingerprint_changes_with_content_and_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "0\t1\nA\tc\n")
    chosen = [corpus_of(path, columns=columns) for columns in ((0, 1), (0, 1), (0, 2), ("0", "1"))]
    chosen.append(open_corpus([[path], [path]], src_lang="en", tgt_lang="de"))
    chosen += [corpus_of(f"phrasebook:{split}") for split in ("valid", "test")]
    seen = {corpus.fingerprint() for corpus in chosen}
    write(Path(path), "0\t1\nA\tb\n")
    assert len(seen | {corpus_of(path).fingerprint()}) == 7


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ({"a.tsv": "one\teins\ntwo zwei\n"}, (0, 1), "{} line 2: no column 1, counted from 0, .*; .*tabs"),
        ({"a.tsv": "a\tb\n"}, (0, -1), "columns are counted from 0"),
        ({"a.tsv": ""}, (0, 1), "empty corpus"),
        ({"a.en": "", "a.de": ""}, (0, 1), r"{} \+ {}: empty corpus; give files with"),
        ({"a.en": "one\n \n", "a.de": "\t\nzwei\n"}, (0, 1), "none of the 2 pairs has text on both sides; "),
        ({}, (0, 1), "a corpus of 0 files; give two aligned files"),
    ],
)
def test_what_is_no_corpus_is_reported(
    tmp_path: Path, content: dict[str, str], columns: tuple[int, int], said: str
) -> None:
    paths = [write(tmp_path / name, text) for name, text in content.items()]
    assert re.search(said.format(*paths), complaint(*paths, columns=columns))
    if said.startswith("{} line 2"):  # in one of several corpora its file is named, too
        several = [[write(tmp_path / "good.tsv", "a\tb\n")], paths]
        corpus = open_corpus(several, src_lang="en", tgt_lang="de")
        assert complaint_of(corpus.pairs).startswith(f"{paths[0]} line 2: no column 1")


def test_several_corpora_are_one_in_their_order(tmp_path: Path) -> None:
    tsv, more = write(tmp_path / "a.tsv", "one\teins\ntwo\tzwei\n"), write(tmp_path / "b.tsv", "six\tsechs\n")
    aligned = [write(tmp_path / "c.en", "ten\n"), write(tmp_path / "c.de", "zehn\n")]
    lists = [[tsv], aligned, [more]]
    corpus = open_corpus(lists, src_lang="en", tgt_lang="de")
    assert list(corpus.pairs()) == [pair for files in lists for pair in read(*files)]
    assert corpus.notes() == [f"{tsv}: 2 pairs", f"{aligned[0]} + {aligned[1]}: 1 pair", f"{more}: 1 pair"]
    reverse = open_corpus(lists[::-1], src_lang="en", tgt_lang="de")
    assert corpus.fingerprint() != reverse.fingerprint()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst", ".tsv"])
def test_what_follows_the_first_pairs_is_the_rest_of_the_corpus(
    tmp_path: Path, suffix: str, end: str
) -> None:
    """Lines are short, and longer than what is looked ahead; the last one has no end."""
    pairs = [
        Pair(f"{i} " * (1 + 37 * i % 90) ** (1 + i % 2), "" if i % 5 == 0 else f"{i}.") for i in range(60)
    ]
    pairs = [Pair(src.strip(), tgt) for src, tgt in pairs]
    if suffix == ".tsv":
        files = [tmp_path / "a.tsv"]
        texts = [end.join("\t".join(pair) for pair in pairs)]
    else:
        files = [tmp_path / f"a.{lang}{suffix}" for lang in ("en", "de")]
        texts = [end.join(side) for side in zip(*pairs, strict=True)]
    for path, text in zip(files, texts, strict=True):
        path.write_bytes(compressed(text.encode(), path.name))
    corpus = corpus_of(*map(str, files))
    assert list(corpus.pairs()) == pairs
    for n in (0, 1, 2, 30, 59, 60, 61, 1000):
        assert list(corpus.records(skip=n)) == pairs[n:], n


def test_an_unknown_split_or_language_of_the_phrasebook_is_reported() -> None:
    assert complaint("phrasebook:dev") == "phrasebook:dev: no such split; there are train, valid, test"
    with pytest.raises(DataError, match="no language 'xx' in the phrasebook; there are "):
        open_corpus(["phrasebook:train"], src_lang="en", tgt_lang="xx")


def numbered(tmp_path: Path, n: int) -> str:
    return write(tmp_path / "n.tsv", "".join(f"source {i % 300}\ttarget {i}\n" for i in range(n)))


def test_held_out_pairs_and_the_rest_are_the_corpus_and_share_no_source(tmp_path: Path) -> None:
    corpus = open_corpus([numbered(tmp_path, 1000)], src_lang="en", tgt_lang="de")
    train, held_out = split_held_out(corpus, n_held_out=50, seed=1)
    kept, out = list(train.pairs()), list(held_out.pairs())
    assert sorted(kept + out) == sorted(corpus.pairs())
    assert 45 <= len(out) <= 50
    assert not {pair.src for pair in kept} & {pair.src for pair in out}
    assert list(held_out.pairs()) == out
    assert len({corpus.fingerprint(), train.fingerprint(), held_out.fingerprint()}) == 3
    other, most = (split_held_out(corpus, n_held_out=n, seed=seed)[1] for n, seed in ((50, 2), (1000, 1)))
    assert list(other.pairs()) != out
    assert len(list(most.pairs())) == 100, "at most a tenth"


GUESSED: dict[str, tuple[Column, Column]] = {
    "de,en": ("en", "de"),
    "id,EN_us,de-DE,domain": ("EN_us", "de-DE"),
    "English,German,score": ("English", "German"),
    "deutsch,english": ("english", "deutsch"),
    "text_en,text_de,id": ("text_en", "text_de"),
    "en,en_id,de,de_id": ("en", "de"),
    "tgt,src,id": ("src", "tgt"),
    "source_text,targetText,id": ("source_text", "targetText"),
    "source,translation,id": ("source", "translation"),
    "x,y": (0, 1),
}


def test_columns_are_guessed_from_languages_and_then_from_roles(tmp_path: Path) -> None:
    for header, columns in GUESSED.items():
        corpus = corpus_of(write(tmp_path / "a.csv", header + "\n"))
        assert isinstance(corpus, TableCorpus)
        assert corpus.columns == columns


@pytest.mark.parametrize("header", ["a,b,c", "en_1,en_2,de", "token,seen,made"])
def test_columns_that_do_not_tell_are_an_error_that_lists_them(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.csv", header + "\n")
    with pytest.raises(DataError) as error:
        open_corpus([path], src_lang="en", tgt_lang="de")
    assert f"which columns are en and de among {header.replace(',', ', ')}; name them" in str(error.value)


def part_config(file: str, *part: float, seed: int = 1) -> TranslationConfig:
    data = {"src_lang": "en", "tgt_lang": "de", "train": [file], "n_held_out": 50, "split_seed": 3}
    config = parse_config({"name": "part", "seed": seed, "data": {**data, "part": part}})
    assert isinstance(config, TranslationConfig)
    return config


def test_parts_are_nested_and_hold_none_of_the_validation_pairs_which_all_share(tmp_path: Path) -> None:
    file = write(tmp_path / "n.tsv", "".join(f"source {i}\ttarget {i}\n" for i in range(1200)))
    whole, held_out = (list(corpus.pairs()) for corpus in open_direction(part_config(file, 0, 1)))
    parts = []
    for seed, part in enumerate([(0, 0.25), (0.25, 0.5), (0, 0.5)]):
        train, valid = open_direction(part_config(file, *part, seed=seed))
        parts.append(list(train.pairs()))
        assert list(valid.pairs()) == held_out, "the same pairs whatever part and seed"
        assert len(parts[-1]) == pytest.approx((part[1] - part[0]) * len(whole), rel=0.3)
    first, second, half = map(set, parts)
    assert first | second == half < set(whole)
    assert not first & second
    assert not set(whole) & set(held_out)


def test_a_part_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no pair; take a larger part \(data.part\)"):
        list(part_of(corpus_of(numbered(tmp_path, 300)), (0.0, 1e-9), seed=1).pairs())
    for part, message in (((0.5, 0.5), "holds nothing"), ((0.5, 1.5), "data.part")):
        with pytest.raises(ConfigError, match=message):
            part_config("a.tsv", *part)
    corpora_of = [{"name": "a", "files": ["a.tsv"], "langs": ["en", "de"]}]
    with pytest.raises(ConfigError, match="part is for one corpus"):
        parse_config({"name": "many", "data": {"corpora": corpora_of, "part": [0.0, 0.5]}})
