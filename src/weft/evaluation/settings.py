"""`EvaluationSettings`: every option of an evaluation, with its default, help text and rules.

The signature of `weft.evaluate`, the command-line options, the YAML section `evaluation`, the JSON
Schema and `Result.settings` are derived from this model. It holds settings, not data: interactions,
labels and the candidates of each user are inputs. `setting_rules` has the rules between options.

Importing this module loads neither torch nor polars.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Self

from pydantic import (
    PrivateAttr,
    ValidationError,
)
from pydantic_core import PydanticUndefined

from weft._choices import choices
from weft.errors import WeftError
from weft.evaluation.input_rules import input_conflicts, target_conflicts
from weft.evaluation.sampling_settings import empty_position_conflicts, sampling_conflicts
from weft.evaluation.setting_defaults import find_updates
from weft.evaluation.setting_fields import SettingFields
from weft.evaluation.setting_rules import (
    Option,
    SettingField,
    estimator_conflicts,
    setting_error,
    threshold_conflict,
)


class EvaluationSettings(SettingFields):
    """Every option of an evaluation, validated and frozen.

    Use `from_options`, which raises `SettingError` for a value that is not allowed, and `resolve`,
    which checks the rules between options and fills the defaults.
    """

    _orders_ties_by_id: bool = PrivateAttr(default=False)

    # ----------------------------------------------------------------------------------------------

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Return validated settings. Raises `SettingError` for the first value not allowed."""
        defaults = cls.model_fields
        given = {
            name: value
            for name, value in options.items()
            if name not in defaults or value is not defaults[name].default
        }
        try:
            return cls(**given)
        except ValidationError as error:
            raise setting_error(error, defaults) from None

    @classmethod
    @cache
    def fields(cls) -> tuple[SettingField, ...]:
        """Return every option with type, default, description and spelling on other interfaces."""
        return tuple(
            SettingField(
                name,
                field.annotation,
                None if field.default is PydanticUndefined else field.default,
                field.description or "",
                choices(field.annotation),
                next(entry for entry in field.metadata if isinstance(entry, Option)).named(name),
            )
            for name, field in cls.model_fields.items()
        )

    # ----------------------------------------------------------------------------------------------

    @property
    def draws_negatives(self) -> bool:
        """True if Weft samples negatives for each user."""
        return self.strategy == "sampled" and self.candidates != "given"

    @property
    def orders_ties_by_id(self) -> bool:
        """True if a profile ranks equally scored items of lists by id, descending as text."""
        return self._orders_ties_by_id

    def resolve(self, available: Collection[str]) -> Self:
        """Return the settings with the profile applied and every default filled in.

        `available` are the inputs of the run: names such as "train", and "lists" if the source has
        recommendation lists. `mask_seen` stays "auto" if lists keep and count items of train.
        Raises the first error of `conflicts`.
        """
        for error in self.conflicts(available):
            raise error
        profile = None
        if self.profile is not None:
            from weft.metrics.profiles import find_profile

            profile = find_profile(self.profile)
        resolved = self.model_copy(update=find_updates(self, profile, available))
        if profile is not None and self.ties is None:
            resolved._orders_ties_by_id = profile.orders_ties_by_descending_id
        return resolved

    def record(self, *, of_run: bool) -> dict[str, Any]:
        """Return the resolved settings that `Result.settings` holds by value."""
        record: dict[str, Any] = {}
        for field in self.fields():
            value, when = getattr(self, field.name), field.option.recorded
            is_given = when == "if given" and value not in (None, False, "all")
            is_given |= when == "if changed" and value != field.default
            if when == "always" or is_given or (when == "of a run" and of_run):
                record[field.name] = value
        return {**record, "mask_seen": self.mask_seen is True}

    def conflicts(self, available: Collection[str] | None = None) -> Iterator[WeftError]:
        """Yield an error for every rule between options that is broken.

        `available` are the inputs of the run, as in `resolve`; None skips the rules about inputs.
        """
        if self.implicit and self.relevance_threshold is not None:
            yield threshold_conflict(self.relevance_threshold)
        yield from sampling_conflicts(self)
        yield from empty_position_conflicts(self)
        if self.estimator is not None or self.gamma is not None:
            yield from estimator_conflicts(self)
        if self.targets != "all" or self.item_slices:
            yield from target_conflicts(self, available)
        if available is not None:
            yield from input_conflicts(self, available)
