"""The memory that an evaluation may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from weft.data.cgroups import iter_cgroups

_DEFAULT_SHARE = 2  # half of the available memory
_UNKNOWN_BYTES = 4 << 30  # assumed if the system does not report its memory


def memory_budget(requested: int | None = None) -> int:
    """Return the bytes that an evaluation may use: as requested, or half of what is available."""
    return available_memory() // _DEFAULT_SHARE if requested is None else requested


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process can allocate: by the machine and by its cgroups.

    `root` is the folder that holds `proc` and `sys`."""
    amounts = [*_read_machine(root)]
    for group in iter_cgroups("memory", root):
        amounts += _read_group(group)
    return max(0, min(amounts, default=_UNKNOWN_BYTES))


def _read_machine(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        yield from (int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except OSError:  # not Linux
        if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_group(group: Path) -> Iterator[int]:
    """Yield the limit of a cgroup less its use, if it has a limit.

    Files in the page cache that were not used lately are free memory."""
    names = ("memory.max", "memory.current", "inactive_file")
    if not (group / "memory.max").exists():
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    try:
        limit, used = ((group / name).read_text().strip() for name in names[:2])
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        if limit != "max":
            yield int(limit) - int(used) + int(stat.get(names[2], 0))
    except (OSError, ValueError):  # there is none, or none that can be read
        return
