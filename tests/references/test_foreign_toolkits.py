"""Models that other toolkits trained and wrote translate here as there.

tools/make_foreign_fixtures.py of 9f7fc7c3 made them.
"""

from pathlib import Path

import pytest

from dragoman.interop.foreign import ImportOptions
from dragoman.interop.importing import import_model
from dragoman.predict.translator import Translator

FOLDER = Path(__file__).parents[1] / "fixtures" / "foreign"
LANGUAGES = ImportOptions(src_lang="en", tgt_lang="de")
GREEDY = {"beam_size": 1, "max_length_factor": 1e-9, "max_length_extra": 30}
"""The search by which output.de was made."""


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_a_run_translates_as_the_toolkit_that_trained_it(tmp_path: Path, name: str) -> None:
    run = import_model(FOLDER / name, tmp_path / "run", options=LANGUAGES)
    sources, expected = (
        (FOLDER / name / file).read_text(encoding="utf-8").splitlines() for file in ("input.en", "output.de")
    )
    translator = Translator.load(run.path, device="cpu", precision="fp32")
    assert [found.text for found in translator.translate(sources, **GREEDY)] == expected
    assert len(set(expected)) > 10
