"""The progress bar of evaluations."""

import io
import sys

import torch

import weft
from weft.evaluation import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_terminals_show_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "_HIDDEN_SECONDS", -1)
    with progress.progress_bar("partitions") as show:
        show(3, 4)
    assert "partitions" in sys.stderr.getvalue() and "75%" in sys.stderr.getvalue()


def test_evaluations_show_their_users(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "_HIDDEN_SECONDS", -1)
    weft.evaluate(torch.rand(8, 5), {0: [0], 7: [2]}, metrics="nDCG@3", batch_size=2, progress=True)
    assert "evaluating users" in sys.stderr.getvalue() and "100%" in sys.stderr.getvalue()


def test_short_work_and_other_streams_show_nothing(monkeypatch):
    for stream, hidden_seconds in ((Terminal(), 60), (io.StringIO(), -1)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress, "_HIDDEN_SECONDS", hidden_seconds)
        with progress.progress_bar("partitions") as show:
            show(3, 4)
        assert "partitions" not in stream.getvalue()
