"""`weft metrics`: search, filters and aliases."""

import pytest
from typer.testing import CliRunner

from weft import cli
from weft.errors import UnknownMetric
from weft.metrics import aliases
from weft.metrics.profiles import PROFILES
from weft.metrics.registry import built_in_metrics, find_metric
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


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        (
            "ir_measures",
            "P:Precision R:Recall AP:MAP RR:MRR Success:HitRate Rprec:RPrecision SetP:Precision "
            "SetR:Recall SetF:F1 StRecall:SRecall nERR_IA:ERR_IA",
        ),
        (
            "recommenders",
            "precision_at_k:Precision recall_at_k:Recall map_at_k:MAP ndcg_at_k:nDCG "
            "r_precision_at_k:RPrecision catalog_coverage:ItemCoverage rsquared:R2 "
            "distributional_coverage:ShannonEntropy exp_var:ExplainedVariance",
        ),
        (
            "pyg",
            "LinkPredMAP:MAP LinkPredNDCG:nDCG LinkPredHitRatio:HitRate LinkPredMRR:MRR "
            "LinkPredAveragePopularity:ARP LinkPredDiversity:ILD LinkPredF1:F1",
        ),
        (
            "recpack",
            "NDCGK:nDCG DCGK:DCG PrecisionK:Precision CalibratedRecallK:Recall HitK:HitRate "
            "ReciprocalRankK:MRR CoverageK:ItemCoverage IntraListDiversityK:ILD "
            "PercentileRanking:PercentileRank IPSHitRateK:IPSRecall",
        ),
        (
            "lenskit",
            "Hit:HitRate RecipRank:MRR AveragePrecision:MAP ListGini:Gini ExposureGini:Gini "
            "MeanPopRank:PopularityQuantile",
        ),
        ("evidently", "PrecisionTopK:Precision FBetaTopK:F1 PopularityBiasMetric:ARP"),
        ("replay", "CategoricalDiversity:CategoryDiversity RocAuc:GAUC Coverage:ItemCoverage"),
        ("cornac", "FMeasure:F1 HitRatio:HitRate"),
        ("torchmetrics", "RetrievalMAP:MAP RetrievalNormalizedDCG:nDCG RetrievalFallOut:FallOut"),
        ("sklearn", "ndcg_score:nDCG roc_auc_score:AUC average_precision_score:MAP"),
        ("trec_eval", "map_cut:MAP ndcg_cut:nDCG recip_rank:MRR 11pt_avg:IPrec set_F:F1"),
        ("rectools", "F1Beta:F1 CoveredUsers:UserCoverage AvgRecPopularity:ARP"),
        ("ranx", "hit_rate:HitRate r-precision:RPrecision ndcg_burges:nDCG"),
    ],
)
def test_names_of_other_tools_are_found_and_suggested(tool, names):
    assert tool in PROFILES
    for theirs, ours in (each.split(":") for each in names.split()):
        found = [metric.__name__ for metric in definitions.search_metrics(theirs)]
        assert ours in found, theirs
        assert len(found) == 1 or ours in aliases.aliased_metrics(theirs, NAMES)
        with pytest.raises(UnknownMetric, match=f"Did you mean .*{ours!r}"):
            find_metric(theirs)


def test_affixes_alone_are_no_alias():
    for text in ("k", "at_k", "score", "mean", "linkpred", "metric", "Retrieval"):
        assert aliases.aliased_metrics(text, NAMES) == []


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
        assert alias.casefold() not in folded
        assert aliases.aliased_metrics(alias, NAMES), alias


def test_aliases_may_be_written_with_spaces_and_hyphens():
    assert listed("hit ratio") == listed("hit-ratio") == listed("HitRatio") == {"HitRate"}
    assert len(aliases._BY_FOLDED) == len(aliases._ALIASES)


def test_aliases_of_a_metric():
    assert aliases.metric_aliases("MAP") == (
        ["AP", "average precision", "mean average precision"],
        [],
    )
    assert aliases.metric_aliases("PercentileRank") == (
        ["MPR", "percentile ranking"],
        ["MR", "average rank", "rank"],
    )
    assert aliases.metric_aliases("Precision") == (["P", "Prec", "TopHit"], ["SetP"])
    assert aliases.metric_aliases("Judged") == ([], [])


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
        "IPS",
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
