"""The part of the build that pyproject.toml cannot say: recipes in the package, and reproducible sdists.

They stand in recipes/, where people look for them. A wheel gets what `dragoman reproduce` needs of them, as
dragoman/recipes: settings, expected scores and reference histories. See docs/decisions.md.
"""

import gzip
import os
import shutil
import tarfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

RECIPES = Path(__file__).resolve().parent / "recipes"
PATTERNS = ("*/*.toml", "*/expected.json", "*/results/history.jsonl", "*/results/*/history.jsonl")


class BuildWithRecipes(build_py):
    """The modules, and beside them the recipes. An editable install finds those in the repository."""

    def run(self) -> None:
        super().run()
        if getattr(self, "editable_mode", False):
            return
        for pattern in PATTERNS:
            for source in sorted(RECIPES.glob(pattern)):
                target = Path(self.build_lib, "dragoman", "recipes", source.relative_to(RECIPES))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


class ReproducibleSdist(sdist):
    """A source distribution with the same bytes each time, if SOURCE_DATE_EPOCH is the time of its files."""

    def make_archive(self, base_name: str, format: str, *args: object, **options: object) -> str:  # noqa: A002
        time = os.environ.get("SOURCE_DATE_EPOCH")
        if time is None or format != "gztar":
            return str(super().make_archive(base_name, format, *args, **options))

        def without_builder(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = int(time), 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        path = Path(f"{base_name}.tar.gz")
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(time)) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(Path(base_name).name, filter=without_builder)  # files of a folder in order
        return str(path)


setup(cmdclass={"build_py": BuildWithRecipes, "sdist": ReproducibleSdist})
