"""False positives of the hierarchical test of `weft.Experiment`: pairs of equal models.

    python benchmarks/seed_false_positives.py --pairs 1000

The value of a user is the sum of a part that both models share, one of the model, one of the seed
and noise, so that no difference between two models is real. The share of pairs with a p-value below
5 % should be 5 %; its standard error is 0.7 % for 1,000 pairs.
"""

from __future__ import annotations

import argparse

import numpy as np

from weft.statistics.experiment.run_tests import FoldValues, hierarchical

RESAMPLES = 400
# Users, seeds and folds; standard deviations between seeds, and between models for one user.
CASES = [
    (200, 3, 1, 0.0, 0.5),
    (200, 3, 1, 0.1, 0.5),
    (200, 3, 1, 0.1, 0.05),
    (200, 5, 1, 0.1, 0.5),
    (200, 5, 1, 0.1, 0.05),
    (200, 2, 1, 0.1, 0.5),
    (100, 3, 3, 0.1, 0.5),
    (100, 1, 5, 0.0, 0.5),
]


def draw_fold(
    generator: np.random.Generator, first_user: int, shape: tuple[int, int], deviations: list[float]
) -> FoldValues:
    """Return the values of two equal models on a fold of `(seeds, users)`."""
    seeds, users = shape
    between_seeds, between_models = deviations
    shared = generator.normal(0, 1, users)
    first, second = (
        shared
        + generator.normal(0, between_models, users)
        + generator.normal(0, between_seeds, (seeds, 1))
        + generator.normal(0, 0.3, shape)
        for _ in range(2)
    )
    return FoldValues(np.arange(first_user, first_user + users), first, second)


def main() -> None:
    """Print the share of false positives in every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    pairs = parser.parse_args().pairs
    print("users  seeds  folds  between seeds  between models  false positives")
    for users, seeds, folds, *deviations in CASES:
        generator = np.random.default_rng(1)
        rejected = 0
        for number in range(pairs):
            values = [
                draw_fold(generator, fold * users, (seeds, users), deviations)
                for fold in range(folds)
            ]
            rejected += hierarchical(values, resamples=RESAMPLES, seed=number).p_value < 0.05
        row = f"{users:5}  {seeds:5}  {folds:5}  {deviations[0]:13}  {deviations[1]:14}"
        print(f"{row}  {rejected / pairs:15.1%}", flush=True)


if __name__ == "__main__":
    main()
