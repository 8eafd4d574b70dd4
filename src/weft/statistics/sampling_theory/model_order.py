"""The result of an identification: pairs of models, and whether their order is identified."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class ModelPair:
    """Two models and whether their order is identified.

    The full metric of each is between its `low` and `high`, which are equal if full ranks are
    known. `sampled_a` and `sampled_b` are the sampled metrics, expected (from full ranks) or
    observed. `probability` is the chance that one sampled evaluation shows the right order; NaN if
    only sampled ranks are known.
    """

    model_a: str
    model_b: str
    identified: bool
    low_a: float
    high_a: float
    low_b: float
    high_b: float
    sampled_a: float
    sampled_b: float
    probability: float
    why: str


@dataclass(frozen=True)
class Identification:
    """The answer whether a sampled evaluation identifies the order of models by a metric.

    True if the order of every pair of models is identified. `print` explains each pair.

    Attributes
    ----------
    metric, num_negatives
        The metric, and the number of sampled negatives.
    pairs
        The pairs of models; `to_frame` describes their attributes.

    Examples
    --------
    >>> import weft
    >>> positions = {"als": [1] * 300, "random": [*range(1, 101)] * 3}
    >>> found = weft.sampling.is_identified_from_sample(
    ...     positions, metric="nDCG@10", num_items=1000, num_negatives=99
    ... )
    >>> [(pair.model_a, pair.model_b, pair.identified) for pair in found.pairs]
    [('als', 'random', True)]
    """

    metric: str
    num_negatives: int
    pairs: tuple[ModelPair, ...]

    def __bool__(self) -> bool:
        return all(pair.identified for pair in self.pairs)

    def __str__(self) -> str:
        verdict = "is identified" if self else "is not identified"
        lines = [
            f"The order by {self.metric} {verdict} with {self.num_negatives:,} sampled negatives:"
        ]
        lines += [
            f"{'  yes' if pair.identified else '  no '}  {pair.model_a}, {pair.model_b}: {pair.why}"
            for pair in self.pairs
        ]
        return "\n".join(lines)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row per pair of models.

        Returns
        -------
        polars.DataFrame
            The columns:

            - `model_a`, `model_b`: the models.
            - `identified`: whether their order is identified.
            - `low_a`, `high_a`, `low_b`, `high_b`: the bounds of the full metric of each model,
              which are equal if full ranks are known.
            - `sampled_a`, `sampled_b`: the sampled metric of each model, expected (from full ranks)
              or observed.
            - `probability`: the probability that one sampled evaluation shows the right order; NaN
              if only sampled ranks are known.
            - `why`: the reason as text.
        """
        import polars as pl

        names = [field.name for field in fields(ModelPair)]
        return pl.DataFrame(
            [[getattr(pair, name) for pair in self.pairs] for name in names], schema=names
        )
