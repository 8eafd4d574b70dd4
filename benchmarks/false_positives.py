"""False positives of the bootstrap test: pairs of equal models, compared by `weft.compare`.

    python benchmarks/false_positives.py --pairs 1000

Each pair has the same users and truth. Both models score an item by its popularity, the taste of
the user and noise of their own, so that no difference between them is real. The share of pairs with
a p-value of at most 5 % should be 5 %; its standard error is 0.7 % for 1,000 pairs.
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch

import weft

METRICS = [
    "nDCG",
    "Gini",
    "ItemCoverage",
    "ShannonEntropy",
    "Personalization",
    "RSP",
    "ItemMADRanking",
    "EucDistance(metric_names=[nDCG, Gini], utopia_points=[1, 0])",
]


def compare_equal_models(
    seed: int,
    *,
    metrics: list[str],
    users: int,
    items: int,
    exponent: float,
    resamples: int,
) -> dict[str, tuple[str, float]]:
    """Return the form of the test and the p-value of each metric, for one pair of equal models."""
    generator = torch.Generator().manual_seed(seed)
    popularity = -exponent * torch.arange(1, items + 1).log()
    taste = popularity + torch.randn(users, items, generator=generator)
    chance = torch.rand(users, items, generator=generator).clamp(1e-12)
    truth = torch.zeros(users, items, dtype=torch.int64)
    relevant = (taste - (-chance.log()).log()).topk(5, dim=1).indices
    truth.scatter_(1, relevant, 1)
    results = []
    for _ in range(2):
        noise = torch.rand(users, items, generator=generator).clamp(1e-12)
        results.append(
            weft.evaluate(
                taste - (-noise.log()).log(),
                truth,
                metrics=metrics,
                top_k=10,
                item_clusters=[str(item % 3) for item in range(items)],
                bootstrap=resamples,
                seed=seed,
            )
        )
    rows = weft.compare(results, tests="bootstrap").rows
    return {row["metric"]: (row["form"], row["p_value"]) for row in rows}


def main() -> None:
    """Compare pairs of equal models, and print the share of false positives of each metric."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="Seed of the first pair.")
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--exponent", type=float, default=1.0, help="Of popularity; 0 is uniform.")
    parser.add_argument("--resamples", type=int, default=299)
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    arguments = parser.parse_args()
    positives: Counter[str] = Counter()
    forms: dict[str, str] = {}
    for seed in range(arguments.first, arguments.first + arguments.pairs):
        tested = compare_equal_models(
            seed,
            metrics=arguments.metrics,
            users=arguments.users,
            items=arguments.items,
            exponent=arguments.exponent,
            resamples=arguments.resamples,
        )
        for metric, (form, p_value) in tested.items():
            forms.setdefault(metric, form)
            positives[metric] += p_value <= 0.05
    print(f"{arguments.users:,} users, {arguments.items:,} items, exponent {arguments.exponent:g}")
    for metric, form in forms.items():
        share = positives[metric] / arguments.pairs
        print(f"{metric:<62} {form:<11} {100 * share:5.1f} %")


if __name__ == "__main__":
    main()
