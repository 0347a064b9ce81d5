"""`dragoman export` from the command line."""

from pathlib import Path

from commands import error_of, succeed
from dragoman.interop import REPORT
from tiny import damaged_run


def test_the_command_writes_an_export_and_prints_how_near_it_is(tiny_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    for _ in range(2):  # the second in place of the first
        result = succeed("export", tiny_run, "--to", "onnx", "--out", out, "--sentences", "4")
        lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if "same" not in line)
        assert lines["format"] == "onnx, float32"
        assert lines["sentences"].startswith("4 (")
        assert "nats a token" in lines["largest"]
        assert "same, greedy                              100.0%" in result.stdout
        assert result.stderr == f"next: see {out / 'README.md'}\n"
        assert (out / REPORT).exists()


def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(tiny_run: Path, tmp_path: Path) -> None:
    run = damaged_run(tiny_run, tmp_path / "run")
    assert "is damaged or cut short" in error_of("export", run, "--to", "onnx", "--out", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    (tmp_path / "file").touch()
    to_onnx = ("--to", "onnx", "--out", tmp_path / "file" / "out")
    assert "no such folder" in error_of("export", tmp_path / "none", *to_onnx)
    assert "cannot be written" in error_of("export", tiny_run, *to_onnx)
    assert "--to marian: is not a format" in error_of("export", tiny_run, "--to", "marian", *to_onnx[2:])
