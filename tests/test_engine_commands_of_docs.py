"""The commands of the docs that evaluate on Ray and Spark run on this machine."""

import pytest

from doc_commands import PAGES, find_commands, run_weft, write_data, write_parquet
from engines import require_ray, require_spark

COMMANDS = [command for page in PAGES for command in find_commands(page) if command.is_for_engine]
FOLDERS = {
    "lists/als/part.parquet": "als.csv",
    "logs/test/part.parquet": "test.csv",
    "logs/train/part.parquet": "train.csv",
    "lake/als/part.parquet": "als.csv",
    "lake/test/part.parquet": "test.csv",
    "lists.parquet": "als.csv",
    "test.parquet": "test.csv",
}


def words_for_this_machine(command):
    """Return the words with folders here, this machine for a cluster, and few partitions."""
    words = [word.replace("/shared/", "") for word in command.words[1:]]
    if "--parts" in words:
        words[words.index("--parts") + 1] = "3"
    if "--address" in words:
        position = words.index("--address")
        words[position : position + 2] = ["--address", "local[2]"] if "spark" in words else []
    return words


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.text)
def test_engine_commands_run(command, tmp_path, monkeypatch):
    (require_spark if "spark" in command.words else require_ray)()
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    write_parquet(tmp_path, FOLDERS)
    words = words_for_this_machine(command)
    completed = run_weft(words)
    assert completed.code == 0 and "nDCG@10" in completed.stdout, completed.output
    if "--out" in words:
        assert (tmp_path / "results" / "als.per_user.parquet").is_dir()


def test_there_are_commands_for_both_engines():
    engines = {command.words[command.words.index("--engine") + 1] for command in COMMANDS}
    assert engines == {"ray", "spark"}
