"""Importing and running Weft opens no connection."""

import subprocess
import sys

import pytest

# Audit events come from every socket of Python; only those inside of the machine are let through.
DENY = """
import socket, sys

def deny(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        raise PermissionError(f"network: {event} {arguments}")
    if event in ("socket.connect", "socket.sendto", "socket.bind"):
        family, address = arguments[0].family, arguments[1]
        is_local = family == socket.AF_UNIX or str(address[0]) in ("127.0.0.1", "::1")
        if not is_local:
            raise PermissionError(f"network: {event} {address}")

sys.addaudithook(deny)
"""
RUNS = {
    "import": "import weft; [getattr(weft, name) for name in weft.__all__]",
    "evaluate": """
import numpy as np, weft
scores, truth = np.random.default_rng(0).random((9, 20)), np.eye(9, 20)
result = weft.evaluate(scores, truth, metrics=["nDCG", "Gini"], top_k=5, bootstrap=5)
print(result)
""",
    "demo and report": """
from weft.cli import main
sys.argv = ["weft", "demo", "--out", sys.argv[1]]
main()
""",
}
CONNECT = "socket.create_connection(('192.0.2.1', 80), timeout=1)"


def run(body, *arguments):
    return subprocess.run(
        [sys.executable, "-c", DENY + body, *map(str, arguments)], capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_no_connection_is_opened(name, tmp_path):
    done = run(RUNS[name], tmp_path / "out")
    assert done.returncode == 0 and "network:" not in done.stderr, done.stderr[-3000:]


def test_connections_are_denied():
    done = run(CONNECT)
    assert done.returncode != 0 and "network: socket" in done.stderr
