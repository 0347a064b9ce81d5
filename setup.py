"""The part of the build that pyproject.toml cannot say: the recipes travel with the package.

They stand in recipes/, where people look for them. A wheel gets what `dragoman reproduce` needs of them, as
dragoman/recipes: settings, expected scores and reference histories. See docs/decisions.md.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

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


setup(cmdclass={"build_py": BuildWithRecipes})
