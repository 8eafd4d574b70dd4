"""The control groups of this process, which limit its processors and its memory (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def iter_cgroups(controller: str, root: Path = Path("/")) -> Iterator[Path]:
    """Yield the folders of this process's cgroups (version 1 or 2) for a controller.

    `root` is the folder that holds `proc` and `sys`. Limits of all groups apply. A container may
    not see its own path, so that folders may not exist."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            folder = root / "sys/fs/cgroup" / controllers
            folder = folder if folder.exists() else root / "sys/fs/cgroup" / controller
        else:
            continue
        own = folder / path.lstrip("/")
        for group in (own, *own.parents):
            if group == folder.parent:
                break
            yield group
