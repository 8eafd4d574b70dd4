"""Compile the native loops when a wheel is built, if there is a C++ compiler.

Without a compiler, on Windows, and with the environment variable WEFT_WITHOUT_NATIVE=1, the wheel
is pure Python: Weft is complete but slower."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src/weft/_native")
FLAGS = [
    "-O3",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-Wall",
    "-Wextra",
    "-Wno-psabi",
]


def find_compiler() -> list[str] | None:
    """Return the command of the C++ compiler, None if the wheel is to be pure Python."""
    if os.environ.get("WEFT_WITHOUT_NATIVE", "0") != "0" or sys.platform == "win32":
        return None
    if command := os.environ.get("CXX", "").split():
        return command
    names = ("c++", "g++", "clang++")
    return next(([name] for name in names if shutil.which(name)), None)


def architecture_flags() -> list[str]:
    """Return the flags of the processor to compile for, which cibuildwheel sets on macOS."""
    return os.environ.get("ARCHFLAGS", "").split() if sys.platform == "darwin" else []


def platform_tag() -> str:
    """Return the platform tag of a wheel, such as linux_x86_64.

    The library has code for one processor, also if the interpreter is a universal build of macOS.
    """
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return tag.replace("universal2", platform.machine())


class NativeLoops(BuildHookInterface):
    """Adds `_native.so` to the wheel; an editable install gets it in the source folder."""

    PLUGIN_NAME = "custom"
    _folder: tempfile.TemporaryDirectory[str] | None = None  # deleted with the hook

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before the files of a wheel are collected."""
        compiler = find_compiler()
        if compiler is None:
            self.app.display_warning(
                "no C++ compiler: Weft will use NumPy instead of its native loops"
            )
            return
        folder = Path(self.root, NATIVE)
        self._folder = None if version == "editable" else tempfile.TemporaryDirectory()
        library = Path(folder if self._folder is None else self._folder.name, "_native.so")
        # Written under another name first: a library in use keeps its old content.
        compiled = library.with_suffix(".new")
        command = [
            *compiler,
            *FLAGS,
            *architecture_flags(),
            "-o",
            str(compiled),
            *map(str, sorted(folder.glob("*.cpp"))),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            self.app.display_warning(
                f"the native loops do not compile; Weft will use NumPy instead:\n{done.stderr}"
            )
            return
        compiled.replace(library)
        if self._folder is not None:
            build_data["force_include"][str(library)] = f"{NATIVE.relative_to('src')}/_native.so"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
