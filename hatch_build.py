"""Compile the native loops when a wheel is built, if there is a C++ compiler.

Without one, Weft is complete but slower."""

from __future__ import annotations

import os
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


class NativeLoops(BuildHookInterface):
    """Adds `_native.so` to the wheel; an editable install gets it in the source folder."""

    PLUGIN_NAME = "custom"
    _folder: tempfile.TemporaryDirectory[str] | None = None  # deleted with the hook

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before the files of a wheel are collected."""
        compiler = (
            os.environ.get("CXX")
            or shutil.which("c++")
            or shutil.which("g++")
            or shutil.which("clang++")
        )
        if compiler is None or sys.platform == "win32":
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
            *compiler.split(),
            *FLAGS,
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
        build_data["tag"] = (
            f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        )
