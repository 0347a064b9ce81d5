"""The ledger of tools/house.py: what it counts, and what it does not let pass."""

from pathlib import Path
from typing import Any

import pytest

import house


@pytest.fixture
def counts(ledger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The lines of each row; other figures are their ceilings, for `make check` measures them, and slowly."""
    figures = {row["name"]: row["allowed"] for row in ledger["figures"]}
    sources = house.python_files(house.PACKAGE).values()
    figures["lines of Python in src/dragoman"] = sum(source.count("\n") for source in sources)
    monkeypatch.setattr(house, "measure", lambda: figures)
    return house.counted(ledger)


@pytest.fixture
def ledger() -> dict[str, Any]:
    return house.tomllib.loads(house.CEILINGS.read_text(encoding="utf-8"))


def test_no_class_name_is_of_two_things() -> None:
    assert house.class_names_defined_twice(house.python_files(house.PACKAGE)) == {}


def test_each_file_is_counted_once_in_all_the_rows(ledger: dict[str, Any], counts: dict[str, int]) -> None:
    assert house.uncounted(ledger) == []
    rows = [row for row in ledger["lines"] if row["name"] != "predict"]
    assert "predict/translator.py" in house.uncounted({**ledger, "lines": rows})
    assert sum(counts[row["name"]] for row in ledger["lines"]) == counts["lines of Python in src/dragoman"]


def test_a_ceiling_that_is_passed_or_raised_fails_and_lowering_only_lowers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    ledger: dict[str, Any], counts: dict[str, int],
) -> None:  # fmt: skip
    monkeypatch.setattr(house, "counted", lambda _: counts)
    changed = house.CEILINGS.read_text(encoding="utf-8")
    for name, allowed in (("predict", 1), ("options", counts["options"] + 100)):
        row = next(row for row in (*ledger["lines"], *ledger["figures"]) if row["name"] == name)
        block = changed[changed.index(f'name = "{name}"') :].split("\n\n")[0]
        changed = changed.replace(block, block.replace(f"allowed = {row['allowed']}", f"allowed = {allowed}"))
    monkeypatch.setattr(house, "CEILINGS", tmp_path / "ceilings.toml")
    house.CEILINGS.write_text(changed, encoding="utf-8")
    assert house.print_ledger() == 1
    assert f"predict: {counts['predict'] - 1:,} over its ceiling; make room" in capsys.readouterr().err
    house.lower_ceilings()
    lowered = house.tomllib.loads(house.CEILINGS.read_text(encoding="utf-8"))
    allowed = {row["name"]: row["allowed"] for row in (*lowered["lines"], *lowered["figures"])}
    assert allowed["predict"] == 1
    assert allowed["options"] == counts["options"]


def test_a_ceiling_that_rises_is_named_unless_the_sum_falls(ledger: dict[str, Any]) -> None:
    earlier = {"HEAD": house.tomllib.loads(house.CEILINGS.read_text(encoding="utf-8"))}
    row = next(row for row in ledger["lines"] if row["name"] == "serving")
    message = f"serving: its ceiling was {row['allowed']:,} in HEAD; it may only fall"
    row["allowed"] += 1000
    assert house.raised(ledger, earlier) == [message]
    next(row for row in ledger["lines"] if row["name"] == "cli")["allowed"] -= 2000
    assert house.raised(ledger, earlier) == []
