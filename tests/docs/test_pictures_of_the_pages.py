"""The pictures of docs/ are those that its scripts draw, are small, and ask for nothing from elsewhere."""

import ast
import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "draw_pictures.py"))
HOUSE = runpy.run_path(str(ROOT / "docs" / "draw_house.py"))
FOLDER = ROOT / "docs" / "pictures"
DRAWN = sorted(FOLDER.glob("*.svg"))
NAMESPACES = re.compile(r'xmlns(?::\w+)?="[^"]*"|<!DOCTYPE.*?>|<metadata>.*?</metadata>', re.DOTALL)


def test_every_picture_of_the_script_is_there(tiny_run: Path, tiny_classifier_run: Path) -> None:
    drawn = {path.stem for path in DRAWN}
    assert drawn >= {*SCRIPT["of_a_translator"](tiny_run), *SCRIPT["of_a_classifier"](tiny_classifier_run)}
    assert drawn >= SCRIPT["without_training"]().keys()


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_a_picture_is_whole_small_and_asks_for_nothing(path: Path) -> None:
    ElementTree.parse(path)
    content = path.read_text("utf-8")
    assert len(content) < 200_000
    assert "http" not in NAMESPACES.sub("", content)


def test_every_page_that_is_pictured_is_there_and_in_the_gallery() -> None:
    script = (ROOT / "docs" / "draw_pages.py").read_text(encoding="utf-8")
    (names,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(script).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NAMES"
    )
    gallery = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name in names:
        assert (FOLDER / f"{name}.png").stat().st_size < 200_000
        assert f"](pictures/{name}.png)" in gallery


def test_the_pictures_that_need_no_model_can_be_drawn(tmp_path: Path) -> None:
    for name, draw in SCRIPT["without_training"]().items():
        draw(tmp_path / f"{name}.svg")
        ElementTree.parse(tmp_path / f"{name}.svg")


def test_the_house_is_drawn_as_it_stands() -> None:
    kept, drawn = (FOLDER / "house.svg").read_text(encoding="utf-8"), HOUSE["draw"]()
    parts = re.compile(r' d="(M.+?)"|>(\w+)</text>')
    assert parts.findall(kept) == parts.findall(drawn), "python docs/draw_house.py draws it again"
    ways = HOUSE["direct"]({("a", "b"): 1, ("b", "c"): 2, ("a", "c"): 3, ("a", "d"): 1}, ["a", "b", "c", "d"])
    assert ways == {("a", "b"): 1, ("a", "d"): 1, ("b", "c"): 2}
