"""The site has every page, its links lead to pages, and what it shows is what the repository holds."""

import json
import re
import runpy
import subprocess
from pathlib import Path

import pytest

import dragoman

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "stage_site.py"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
MENU = re.findall(r"(\S+\.md)$", NAVIGATION, re.MULTILINE)
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site") / "pages"
    assert SCRIPT["stage"](folder) == []
    return folder


@pytest.mark.nightly
def test_the_menu_has_every_page_once_and_no_other(pages: Path) -> None:
    source = pages / "source"
    staged = {p.relative_to(pages).as_posix() for p in pages.rglob("*.md") if source not in p.parents}
    assert sorted(MENU) == sorted(staged)
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= staged


@pytest.mark.parametrize(
    ("page", "link", "becomes"),
    [
        ("docs/data.md", "[a](hub.md#x)", "[a](hub.md#x)"),
        ("docs/data.md", "[a](../README.md)", "[a](overview.md)"),
        ("docs/data.md", "[a](../src/dragoman/config.py#L9)", "[a](source/src/dragoman/config.py.md#L9)"),
        ("docs/data.md", "[a](../deploy)", "[a](source/deploy/index.md)"),
        ("docs/data.md", "[a](../notebooks/train.ipynb)", "[a](notebooks/train.md)"),
        ("README_zh.md", "[a](docs/data.md)", "[a](data.md)"),
        ("recipes/imdb/README.md", "[a](../../docs/data.md#y)", "[a](../../data.md#y)"),
        ("recipes/imdb/README.md", "[a](recipe.toml)", "[a](../../source/recipes/imdb/recipe.toml.md)"),
        ("docs/data.md", "[a](https://example.org/b.md)", "[a](https://example.org/b.md)"),
        ("docs/data.md", "```md\n[a](../no.md)\n```", "```md\n[a](../no.md)\n```"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(page: str, link: str, becomes: str) -> None:
    text, _, missing = SCRIPT["with_site_links"](link, ROOT / page)
    assert (text, missing) == (becomes, [])


@pytest.mark.parametrize("target", ["no.md", "../no.py#L3", "../../outside.md"])
def test_a_link_to_no_file_is_named_with_its_page(target: str) -> None:
    _, _, missing = SCRIPT["with_site_links"](f"[a]({target})", ROOT / "docs" / "data.md")
    assert missing == [f"docs/data.md: {target} leads to no file of the repository"]


@pytest.mark.nightly
def test_a_line_of_source_code_has_the_anchor_of_its_number(pages: Path) -> None:
    name = "src/dragoman/model/layers.py"
    page = (pages / "source" / f"{name}.md").read_text(encoding="utf-8")
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    shown = re.findall(r'<span id="L(\d+)">(.*)</span>', page)
    assert [int(number) for number, _ in shown] == list(range(1, len(lines) + 1))
    number = next(n for n, line in enumerate(lines) if line.startswith("class MultiHeadAttention"))
    assert "MultiHeadAttention" in shown[number][1]


@pytest.mark.nightly
def test_a_notebook_is_shown_with_its_outputs_and_the_api_page_has_every_name(pages: Path) -> None:
    cells = json.loads((ROOT / "notebooks" / "translate.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    page = (pages / "notebooks" / "translate.md").read_text(encoding="utf-8")
    n_pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    assert page.count("](data:image/png;base64,") == n_pictures > 0
    assert all("".join(o["text"]).strip() in page for o in outputs if o["output_type"] == "stream")
    page = (pages / "api.md").read_text(encoding="utf-8")
    assert re.findall(r"^::: dragoman\.(\w+)$", page, re.MULTILINE) == dragoman.__all__


def test_the_menu_of_versions_has_the_newest_first(tmp_path: Path) -> None:
    for old in ("0.0.9", "0.0.10"):
        (tmp_path / old).mkdir()
        (tmp_path / old / "objects.inv").touch()
    (tmp_path / "notes").mkdir()
    SCRIPT["list_versions"](tmp_path)
    menu = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [entry["version"] for entry in menu] == [dragoman.__version__, "0.0.10", "0.0.9"]
    assert f"url={dragoman.__version__}/" in (tmp_path / "index.html").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(pages: Path, tmp_path: Path) -> None:
    if not MKDOCS.exists():
        pytest.skip("needs MkDocs in .venv-docs: make docs")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("build/pages", str(pages))
    (tmp_path / "mkdocs.yml").write_text(config.replace("[src]", f"[{ROOT / 'src'}]"), encoding="utf-8")
    command = [MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)\b[^>]*?(?:src|href)="?([^"\s>]+)', page.read_text("utf-8"))
        assert not [address for address in loaded if re.match(r"(?:https?:)?//", address)], page
