"""tests/durations.py: what a report of pytest comes to, and which folders take longer than they may."""

from pathlib import Path

import durations

REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.text.test_slots" name="test_one[a.b]" time="1.25"/>
<testcase classname="tests.unit.text.test_slots" name="test_two" time="0.5"><failure message="no"/></testcase>
<testcase classname="tests.unit.tasks.translation.test_depth" name="test_one" time="2"/>
<testcase classname="tests.unit.test_runs" name="test_one" time="4"/>
<testcase classname="tests.docs.test_house" name="test_one" time="0.125"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_becomes_seconds_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    seconds = durations.seconds_of([tmp_path / "report.xml"] * 2)
    assert seconds == {
        "unit/text/test_slots.py": 3.5, "unit/tasks/translation/test_depth.py": 4, "unit/test_runs.py": 8,
        "docs/test_house.py": 0.25,
    }  # fmt: skip
    folders = durations.by_folder(seconds)
    assert folders == {"unit": 8, "unit/tasks": 4, "unit/text": 3.5, "docs": 0.2}
    budgets = {"unit": 8, "unit/tasks": 3, "unit/text": 4, "gone": 1}
    assert durations.over_budget(folders, budgets) == [
        "tests/unit/tasks: 4 s, and 3 s are its budget; make it cheaper",
        "tests/docs: has no budget; give it one in tests/budgets.toml",
        "tests/gone: was not timed; run make durations",
    ]


def test_every_folder_of_tests_has_a_budget() -> None:
    files = {path.relative_to(durations.TESTS).as_posix(): 1.0 for path in durations.TESTS.rglob("test_*.py")}
    budgets = durations.tomllib.loads(durations.BUDGETS.read_text(encoding="utf-8"))["seconds"]
    assert budgets.keys() == durations.by_folder(files).keys()
