"""`weft metrics`: search, filters and aliases."""

import pytest
from typer.testing import CliRunner

from weft import cli
from weft.metrics import aliases
from weft.metrics.registry import built_in_metrics
from weft.report import definitions

NAMES = {metric.__name__ for metric in built_in_metrics()}


def listed(*arguments):
    """The names of the metrics that the command lists."""
    done = CliRunner().invoke(cli.app, ["metrics", *arguments])
    assert done.exit_code == 0, done.output
    first = (line.partition("│")[0].strip().removesuffix("@k") for line in done.stdout.splitlines())
    return {name for name in first if name in NAMES}


def test_all_metrics_are_listed_by_family():
    assert listed() == NAMES


@pytest.mark.parametrize(
    ("alias", "metrics"),
    [
        ("HR", {"HitRate"}),
        ("hit", {"HitRate"}),
        ("Success", {"HitRate"}),
        ("coverage", {"ItemCoverage", "UserCoverage"}),
        ("Correlation", {"Pearson", "Spearman", "Kendall"}),
        ("bce", {"LogLoss"}),
    ],
)
def test_aliases_are_found(alias, metrics):
    assert listed(alias) == metrics


def test_novelty_and_diversity_are_found():
    assert {"EPC", "EFD", "MIUF"} <= listed("Novelty")
    assert {"Gini", "ShannonEntropy"} <= listed("Diversity")


def test_texts_are_searched_in_names_and_summaries():
    assert {"MAE", "MAPE", "SMAPE"} <= listed("absolute")
    assert listed("recip") >= {"MRR", "NCRR"}
    assert "nDCG@k" in CliRunner().invoke(cli.app, ["metrics", "ndcg@10"]).stdout.splitlines()


def test_every_alias_stands_for_a_metric_and_is_none():
    folded = {name.casefold() for name in NAMES}
    for alias in aliases._ALIASES:
        assert alias == alias.casefold() and alias not in folded
        assert aliases.aliased_metrics(alias, NAMES), alias


def test_filters():
    rating = {metric.__name__ for metric in built_in_metrics() if metric.family == "rating"}
    assert listed("--family", "Rating") == rating
    train = {m.__name__ for m in built_in_metrics() if "train" in definitions.needed_inputs(m)}
    assert listed("--needs", "train") == train and "ARP" in train
    assert listed("--needs", "train", "--family", "novelty") >= {"EPC", "EFD"}
    assert listed("error", "--family", "rating") >= {"MAE", "ECE"}


def test_metrics_that_can_run_with_the_inputs_at_hand():
    bare = {m.__name__ for m in built_in_metrics() if not definitions.needed_inputs(m)}
    assert listed("--have", "truth") == listed("--have", "scores") == bare
    of_lists = listed("--have", "lists")
    assert bare - of_lists >= {"AUC", "GAUC", "MeanRank"} and "LAUC" in of_lists
    with_train = listed("--have", "lists, train")
    assert {"ARP", "EPC"} <= with_train and "REO" not in with_train
    assert listed("--have", "truth", "--needs", "train") == set()
    # Of train and propensities one is enough.
    assert listed("--have", "propensities") - bare == {
        "IPSRecall",
        "SNIPSRecall",
        "IPSDCG",
        "SNIPSDCG",
    }
    assert "IPSRecall" in with_train and "IPSRecall" not in bare


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "acuracy"], "Did you mean 'accuracy'?"),
        (["--needs", "trian"], "Did you mean 'train'?"),
        (["--have", "lists,trian"], "Did you mean 'train'?"),
        (["xyzzy"], "there is no metric named 'xyzzy'"),
    ],
)
def test_wrong_filters_are_errors(arguments, message):
    done = CliRunner().invoke(cli.app, ["metrics", *arguments])
    assert done.exit_code == 2 and message in " ".join(done.output.split())
