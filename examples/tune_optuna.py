"""Tune a matrix factorization with Optuna and Weft: `python examples/tune_optuna.py`.

The model is implicit ALS (Hu, Koren and Volinsky 2008) on the embedded data set; its test
interactions serve as the validation set. `weft.prepare` reads and checks them once, and each
iteration of a trial costs little more than one pass over the users. A trial that is worse than the
median of the earlier ones at the same iteration is pruned.

It takes a few seconds. `--trials 50` tries more settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import optuna
import polars as pl
from numpy.typing import NDArray

import weft
from weft.cli.demo import demo_data

Matrix = NDArray[np.float64]
METRIC = "nDCG@10"


def read_data() -> tuple[pl.DataFrame, pl.DataFrame, list[str], list[str]]:
    """Return train, validation, and all users and items."""
    data = demo_data.load()
    users = pl.concat([data.train["user"], data.test["user"]]).unique().sort().to_list()
    return data.train, data.test, users, data.items["item"].to_list()


def to_matrix(train: pl.DataFrame, users: list[str], items: list[str]) -> Matrix:
    """Return 1 for each interaction of train, `[users, items]`."""
    rows = {user: number for number, user in enumerate(users)}
    columns = {item: number for number, item in enumerate(items)}
    matrix = np.zeros((len(users), len(items)))
    for user, item in train.select("user", "item").iter_rows():
        matrix[rows[user], columns[item]] = 1
    return matrix


def solve(other: Matrix, seen: Matrix, *, weight: float, penalty: float) -> Matrix:
    """Return the embeddings of one side, given those of the other side and the interactions."""
    size = other.shape[1]
    shared = other.T @ other + penalty * np.eye(size)
    left = shared + weight * np.einsum("ui,id,ie->ude", seen, other, other, optimize=True)
    right = (1 + weight) * seen @ other
    return np.linalg.solve(left, right[..., None])[..., 0]


def train_als(
    seen: Matrix, *, size: int, weight: float, penalty: float, iterations: int
) -> Iterator[weft.Factors]:
    """Yield the factors after each iteration."""
    item_factors = np.random.default_rng(0).normal(scale=0.1, size=(seen.shape[1], size))
    for _ in range(iterations):
        user_factors = solve(item_factors, seen, weight=weight, penalty=penalty)
        item_factors = solve(user_factors, seen.T, weight=weight, penalty=penalty)
        yield weft.Factors(user_factors, item_factors)


def tune(trials: int = 20, iterations: int = 6) -> optuna.Study:
    """Return the study of ALS with several sizes, weights of interactions and penalties."""
    train, validation, users, items = read_data()
    seen = to_matrix(train, users, items)
    prepared = weft.prepare(validation, train=train, users=users, items=items, metrics=METRIC)

    def objective(trial: optuna.Trial) -> float:
        options = {
            "size": trial.suggest_int("size", 4, 32),
            "weight": trial.suggest_float("weight", 0.5, 50, log=True),
            "penalty": trial.suggest_float("penalty", 0.1, 100, log=True),
        }
        value = 0.0
        for step, factors in enumerate(train_als(seen, iterations=iterations, **options)):
            result = prepared.evaluate(factors, name=f"trial {trial.number}")
            value = result[METRIC]
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        trial.set_user_attr("std_error", result.entry(METRIC).std_error)
        return value

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
    )
    study.optimize(objective, n_trials=trials)
    return study


def main() -> None:
    """Tune, and print the best trial."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=6)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = tune(options.trials, options.iterations)
    states = [trial.state.name for trial in study.trials]
    print(f"{states.count('COMPLETE')} trials completed, {states.count('PRUNED')} pruned")
    error = study.best_trial.user_attrs["std_error"]
    print(f"best {METRIC}: {study.best_value:.4f} (standard error {error:.4f})")
    print(study.best_params)


if __name__ == "__main__":
    main()
