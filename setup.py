"""The part of the build that pyproject.toml cannot say: a library, recipes, and reproducible sdists.

The library is native.c, compiled once for each variant of processors. Without GCC or Clang there is none, and
the wheel is pure.

Recipes stand in recipes/, where people look for them. A wheel has what `dragoman reproduce` needs of them, as
dragoman/recipes: settings, expected scores and reference histories. See docs/decisions.md.
"""

import gzip
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from setuptools import Command, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

PACKAGE = Path(__file__).resolve().parent / "src" / "dragoman"
LIBRARY = f"libdragoman.{'dll' if sys.platform == 'win32' else 'so'}"
COMPILERS = ("clang",) if sys.platform == "win32" else ("cc", "gcc", "clang")
"""In the order in which they are looked for, without the variable CC; MSVC has no vectors of its own."""
FLAGS = [
    *("-O3", "-fno-math-errno", *(() if sys.platform == "win32" else ("-fPIC",))),
    *shlex.split(os.environ.get("DRAGOMAN_NATIVE_FLAGS", "")),  # of tests: warnings, sanitizers
]
AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni")
VARIANTS = {
    "any": (),
    "avx2": AVX2,
    "avx2_vnni": (*AVX2, "-mavxvnni"),
    "avx512": AVX512,
    "avx512_bf16": (*AVX512, "-mavx512bf16"),
    "dotprod": ("-march=armv8.2-a+dotprod",),
}
"""The flags of each; those that a compiler does not know are for other processors, or younger than it."""

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


class BuildNative(Command):
    """The compiled library: in the package that is built, or in src/dragoman."""

    description = "compile native.c for all processors of this kind"
    user_options: ClassVar = [
        ("build-lib=", "d", "folder of the package"),
        ("inplace", "i", "into src/dragoman"),
    ]
    boolean_options: ClassVar = ["inplace"]

    def initialize_options(self) -> None:
        self.build_lib: str | None = None
        self.inplace = self.editable_mode = False

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    def run(self) -> None:
        folder = PACKAGE if self.inplace or self.editable_mode else Path(str(self.build_lib), "dragoman")
        compiler = (
            shlex.split(os.environ.get("CC", "")) or list(filter(None, map(shutil.which, COMPILERS)))[:1]
        )
        try:
            if not compiler:
                raise FileNotFoundError(f"none of {', '.join(COMPILERS)}")
            architecture = shlex.split(os.environ.get("ARCHFLAGS", ""))  # of macOS: -arch x86_64
            compile_library([*compiler, *architecture], folder / LIBRARY)
        except (OSError, subprocess.CalledProcessError) as error:
            if self.inplace and compiler:
                raise
            self.warn(f"no compiled library, searches will be slower: {error}")
            (folder / LIBRARY).unlink(missing_ok=True)  # of an earlier build in this folder


def compile_library(compiler: list[str], library: Path) -> None:
    """Compile and link all variants whose flags `compiler` knows, and put the whole library in its place."""

    def knows(name: str) -> bool:
        command = [*compiler, *VARIANTS[name], "-E", "-x", "c", os.devnull]
        return name == "any" or subprocess.run(command, capture_output=True, check=False).returncode == 0

    def compile_variant(name: str) -> str:
        made = str(Path(folder, f"{name}.o"))
        command = [*compiler, *VARIANTS[name], *FLAGS, f"-DVARIANT={name}"]
        subprocess.run([*command, "-c", str(PACKAGE / "native.c"), "-o", made], check=True)
        return made

    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        made = Path(folder, LIBRARY)
        objects = pool.map(compile_variant, filter(knows, VARIANTS))
        link = [*compiler, *FLAGS, "-shared", str(PACKAGE / "native_variants.c"), *objects, "-o", str(made)]
        subprocess.run([*link, *([] if sys.platform == "win32" else ["-lm"])], check=True)
        part = library.with_name(f".{os.getpid()}-{LIBRARY}")  # who has loaded the library keeps the old one
        shutil.copy(made, part)
        part.replace(library)


class WheelForAnyPython(bdist_wheel):
    """The wheel of one system if the package holds a library, which needs no header of Python; else pure."""

    def run(self) -> None:
        self.run_command("build")
        package = Path(self.get_finalized_command("build").build_lib, "dragoman")
        self.root_is_pure = not (package / LIBRARY).exists()
        self.distribution.has_ext_modules = lambda: (
            not self.root_is_pure
        )  # says where a wheel has its package
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        tag = super().get_tag()
        return tag if self.root_is_pure else ("py3", "none", tag[2])


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


build.sub_commands.append(("build_native", None))
setup(
    cmdclass={
        "bdist_wheel": WheelForAnyPython,
        "build_native": BuildNative,
        "build_py": BuildWithRecipes,
        "sdist": ReproducibleSdist,
    }
)
