"""The inputs of a metric: those that its class declares, and those that it was built with."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Set
from typing import Any, ClassVar

from weft._input_kinds import InputKind
from weft.data import Train
from weft.metrics.declarations import declared_inputs, required_inputs


class MetricInputs(ABC):
    """Declared and given inputs, for `BaseMetric`."""

    # What the metric reads besides scores and truth, by name: inputs of a run, or arguments.
    needs: ClassVar[Mapping[str, InputKind]] = {}
    inputs: Mapping[str, Any]  # the declared inputs that were given, encoded

    def needed_inputs(self) -> Set[str]:
        """Return the names of the inputs of the run that the metric requires."""
        return required_inputs(type(self))

    def missing_inputs(self, available: Set[str]) -> Set[str]:
        """Return the names of the inputs that a run with `available` ones lacks for the metric."""
        return self.needed_inputs() - available

    def declared_inputs(self) -> Mapping[str, InputKind]:
        """Return the kinds of all inputs that the metric may read, by name."""
        return declared_inputs(type(self))

    def own_inputs(self) -> dict[str, Any]:
        """Return the inputs that the metric was built with, by their names in a run."""
        return dict(self.inputs)

    def known_item_counts(self) -> set[int]:
        """Return the catalogue sizes of the metric's inputs: one unless they contradict each other,
        none if there are no inputs."""
        kinds = self.declared_inputs()
        counts = {
            value.num_items if isinstance(value, Train) else value.size
            for name, value in self.own_inputs().items()
            if kinds[name].axis != "user"
        }
        own: int | None = getattr(self, "num_items", None)
        return counts if own is None else counts | {own}
