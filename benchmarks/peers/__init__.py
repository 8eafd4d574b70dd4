"""Other tools on the same data: their values are compared with Weft's, then their time with Weft's
and with `torch.topk`.

    pip install --no-deps -r benchmarks/requirements-peers.txt
    python -m benchmarks.peers S M --tools warprec,ranx

`tools` says what is timed of each tool. Weft is timed from the same scores, truth and train, all of
its reading included."""

from benchmarks.peers.comparison import DifferenceError, Row, compare
from benchmarks.peers.tools import PEERS

__all__ = ["PEERS", "DifferenceError", "Row", "compare"]
