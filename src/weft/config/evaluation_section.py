"""The section `evaluation` of a configuration: settings of an evaluation and keys of YAML alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from weft._choices import Alternative, CorrectionFamily
from weft._input_kinds import split_column
from weft.config.document import show
from weft.config.sections import (
    Bool,
    FileSettings,
    PositiveInt,
    Section,
    Text,
    as_list,
    expect,
    expect_mapping,
    is_text,
    locate,
    read_bool,
)
from weft.errors import SettingError, check_float, setting_ref
from weft.evaluation.setting_rules import one_of, split_candidates
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.names import MetricSpec

# Settings with slices, and the use of their files.
SLICES = {"slices": "user_groups", "item_slices": "item_clusters"}
# The name of a rule or of an input, with or without arguments: no path, which has a suffix.
ITEM_RULE = re.compile(r"\s*\w+\s*(?:\([^()]*\)\s*)?")
# A rule with arguments, also if it is misspelled: the error names the rules.
_USER_RULE = re.compile(r"\s*(?:(?:quantiles|bins)\b.*|\w+\s*\([^()]*\)\s*)", re.IGNORECASE)
_TESTS = {
    "paired_t_test": "paired_t",
    "wilcoxon_test": "wilcoxon",
    "randomization_test": "randomization",
    "sign_test": "sign",
    "kruskal_test": "kruskal",
    "whitney_u_test": "mann_whitney",
    "bootstrap_test": "bootstrap",
}


class ComplexMetric(Section):
    """A metric with parameters."""

    name: Annotated[str, expect(is_text, "a metric name, such as nDCG or nDCG@10")] = Field(
        description="Name of the metric, such as F1 or F1@10."
    )
    params: Annotated[
        dict[str, Any], expect_mapping("a mapping of parameters, such as {beta: 0.5}")
    ] = Field(
        default_factory=dict,
        description="Parameters of the metric, such as "
        "{metric_name_1: nDCG, metric_name_2: MAP, beta: 0.5}.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def spec(self) -> MetricSpec:
        """Return the metric as a parsed name."""
        from weft.metrics.names import parse_name

        spec = parse_name(self.name)
        params = ((key, _parameter(key, value)) for key, value in self.params.items())
        return MetricSpec(spec.name, (*spec.params, *params), spec.k)


def _parameter(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        raise SettingError(f"got a mapping for the parameter {key!r}, expected a value or a list.")
    if isinstance(value, (list, tuple)):
        return tuple(_parameter(key, part) for part in value)
    return value


# --------------------------------------------------------------------------------------------------


class CorrectionSettings(Section):
    """Corrections of p-values for multiple tests. Each selected correction gives a comparison."""

    bonferroni: Bool | None = Field(
        default=None,
        description="Bonferroni correction: each p-value is multiplied by the number of tests.",
    )
    holm_bonferroni: Bool | None = Field(
        default=None,
        description="Holm's step-down correction, which is used if no correction is chosen.",
    )
    fdr: Bool | None = Field(
        default=None,
        description="Correction of Benjamini and Hochberg, which controls the false "
        "discovery rate.",
    )
    alpha: float = Field(
        default=0.05, description="Significance level of the tests, between 0 and 1."
    )

    @field_validator("alpha", mode="before")
    @classmethod
    def _check_alpha(cls, value: Any) -> float:
        if not 0 < check_float("alpha", value, more=" between 0 and 1") < 1:
            raise SettingError(f"{setting_ref('alpha', value)}; it must be between 0 and 1.")
        return float(value)

    @property
    def names(self) -> tuple[str, ...]:
        """The corrections as `weft.compare` names them: Holm by default, none if all are false."""
        choices = {"bonferroni": self.bonferroni, "holm": self.holm_bonferroni, "fdr": self.fdr}
        if all(value is None for value in choices.values()):
            return ("holm",)
        return tuple(name for name, value in choices.items() if value) or ("none",)


class SignificanceSettings(Section):
    """Significance tests of every pair of models, on the values of each user."""

    paired_t_test: Bool = Field(default=False, description="Paired t-test.")
    wilcoxon_test: Bool = Field(default=False, description="Wilcoxon signed-rank test.")
    kruskal_test: Bool = Field(
        default=False,
        description="Kruskal-Wallis test, which ignores that both models are evaluated on the "
        "same users.",
    )
    whitney_u_test: Bool = Field(
        default=False,
        description="Mann-Whitney U test, which ignores that both models are evaluated on the "
        "same users.",
    )
    randomization_test: Bool = Field(
        default=False,
        description="Paired randomization test, which flips the signs of the differences at "
        "random.",
    )
    sign_test: Bool = Field(
        default=False,
        description="Sign test, which counts the users for whom the first or the "
        "second model is better.",
    )
    bootstrap_test: Bool = Field(
        default=False,
        description="Paired bootstrap test of every metric, which needs the setting bootstrap.",
    )
    corrections: CorrectionSettings = Field(
        default_factory=CorrectionSettings,
        description="Correction of the p-values for multiple tests.",
    )
    family: Annotated[CorrectionFamily, one_of(CorrectionFamily, is_required=True)] = Field(
        default="metric",
        description="Group of tests with jointly adjusted p-values: those with the same test "
        "(test), test and metric (metric), or test and pair of models (pair), or all of them "
        "(all).",
    )
    alternative: Annotated[Alternative, one_of(Alternative, is_required=True)] = Field(
        default="two-sided",
        description="Alternative hypothesis: the models differ (two-sided), or the first of two "
        "models has greater values (greater) or smaller ones (less).",
    )
    resamples: PositiveInt = Field(
        default=10_000, description="Number of resamples in the randomization test."
    )

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests as `weft.compare` names them."""
        return tuple(name for key, name in _TESTS.items() if getattr(self, key))

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        if self.kruskal_test and self.alternative != "two-sided":
            raise ValueError(
                f"kruskal_test is always two-sided, but alternative is {self.alternative}; remove "
                "one of the two."
            )
        return self


class SliceSettings(Section):
    """Groups of users: 'quantiles(4)' or 'bins(5, 20)' of activity or item_popularity, a file of
    labels, or a file of numbers.
    """

    expected = (
        "'quantiles(4)', 'bins(5, 20)', a file (user, label), a column of a file such as "
        "users.csv:gender, or a mapping with of and by"
    )
    of: FileSettings | None = Field(
        default=None,
        description="File with a label per user, or with a number per user if 'by' is given.",
    )
    by: Text | None = Field(
        default=None, description="Groups of the numbers: 'quantiles(4)' or 'bins(5, 20)'."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_short_form(cls, value: Any) -> Any:
        if isinstance(value, str) and _USER_RULE.fullmatch(value):
            return {"by": value}
        if isinstance(value, (str, Path)) or (isinstance(value, Mapping) and "path" in value):
            value = {"of": value}
        if isinstance(value, Mapping) and isinstance(value.get("of"), str):
            path, column = split_column(value["of"])
            if column is not None:
                return {**value, "of": {"path": path, "columns": {"label": column}}}
        return value

    def argument(self, read: Callable[[FileSettings], Any]) -> Any:
        """Return the slice as `weft.evaluate` takes it; `read` opens its file."""
        if self.of is None:
            return self.by
        return read(self.of) if self.by is None else {"of": read(self.of), "by": self.by}

    def plain(self) -> Any:
        """Return plain values that mean the same in a YAML file in any folder."""
        return self.argument(FileSettings.plain)


class ItemSliceSettings(SliceSettings):
    """Groups of relevant items: 'head_tail', 'targets', 'time(month)', 'quantiles(4)' or 'bins(5,
    20)' of popularity, the name of an input, a file of labels, or a file of numbers.
    """

    expected = (
        "'head_tail', 'targets', 'time(month)', 'quantiles(4)', 'bins(5, 20)', 'item_features', "
        "the path of a file (item, label), or a mapping with of and by"
    )
    of: FileSettings | None = Field(
        default=None,
        description="File with a label per item, or with a number per item if 'by' is given.",
    )
    by: Text | None = Field(
        default=None,
        description="Rule of the groups, such as 'head_tail'; with 'of', groups of the numbers: "
        "'quantiles(4)' or 'bins(5, 20)'.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_rule(cls, value: Any) -> Any:
        is_rule = isinstance(value, str) and ITEM_RULE.fullmatch(value)
        return {"by": value} if is_rule else value


# --------------------------------------------------------------------------------------------------


class EvaluationSection(EvaluationSettings):
    """Settings of an evaluation: metrics, cut-offs, gates, significance tests and others.

    The keys are the settings of `weft.evaluate`; `save_per_user` is another spelling of `per_user`.
    Settings that exist only in Python have no key.

    >>> from weft.config import EvaluationSection
    >>> EvaluationSection(metrics="nDCG", top_k=[5, 10]).top_k
    (5, 10)
    """

    complex_metrics: Annotated[list[ComplexMetric], BeforeValidator(as_list)] = Field(
        default_factory=list, description="Metrics with parameters, as a list of {name, params}."
    )
    slices: Annotated[
        dict[str, SliceSettings],
        expect_mapping("a mapping of slices, such as {activity: quantiles(4), gender: gender.csv}"),
    ] = Field(
        default_factory=dict,
        description="Groups of users for which metrics are also computed, such as "
        "{activity: quantiles(4), gender: users.csv:gender}.",
    )
    item_slices: Annotated[
        dict[str, ItemSliceSettings],
        expect_mapping("a mapping of item slices, such as {tail: head_tail, genre: genres.csv}"),
    ] = Field(
        default_factory=dict,
        description="Groups of relevant items for which metrics are also computed, such as "
        "{tail: head_tail, genre: genres.csv}.",
    )
    gates: Annotated[list[Text], BeforeValidator(as_list)] = Field(
        default_factory=list,
        description="Conditions that must hold, such as 'nDCG@10 >= 0.31'; otherwise the exit "
        "code of weft evaluate is 1.",
    )
    stat_significance: SignificanceSettings | None = Field(
        default=None, description="Significance tests for every pair of models."
    )
    custom_modules: Annotated[list[Text], BeforeValidator(as_list)] = Field(
        default_factory=list,
        description="Python modules or .py files that register metrics. They are imported when "
        "the configuration is loaded.",
    )

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Return the field of each key that YAML offers."""
        names = {field.option.key: field.name for field in EvaluationSettings.fields()}
        own = cls.model_fields.keys() - EvaluationSettings.model_fields.keys()
        return {key: name for key, name in names.items() if key} | {
            name: name for name in sorted(own)
        }

    @model_validator(mode="before")
    @classmethod
    def _check_mapping(cls, value: Any) -> Any:
        if not isinstance(value, (Mapping, cls)):
            raise ValueError(f"got {show(value)}, expected a mapping with {', '.join(cls.keys())}.")
        return value

    @field_validator("mask_seen", "per_user", "exposure", mode="before")
    @classmethod
    def _read_bool(cls, value: Any) -> Any:
        return read_bool(value)

    @field_validator("checkpoint", mode="before")
    @classmethod
    def _locate_checkpoint(cls, value: Any, info: ValidationInfo) -> Path | None:
        return None if value is None else locate(value, info, expected="the path of a file")

    @field_validator("candidates", mode="before")
    @classmethod
    def _check_pool(cls, value: Any) -> str:
        pool, file = split_candidates(value)
        if file is not None:
            raise SettingError(
                f"{setting_ref('candidates', value)} is not known; give a file with the "
                "candidates of each user as data.candidates."
            )
        return pool

    @property
    def all_metrics(self) -> list[str]:
        """The names of all metrics, with complex metrics written as names."""
        names = (*self.metrics, *(str(metric.spec()) for metric in self.complex_metrics))
        return list(dict.fromkeys(names))

    @property
    def tests(self) -> tuple[str, ...]:
        """The significance tests as `weft.compare` names them."""
        return () if self.stat_significance is None else self.stat_significance.tests

    def settings(self, *, reads_files: bool = True) -> dict[str, Any]:
        """Return the keyword arguments of `weft.evaluate` that the section sets.

        `reads_files`: whether files of slices are read here, or passed on to be read.
        """
        names = EvaluationSettings.model_fields.keys() - {"metrics", *SLICES}
        arguments = self.model_dump(include=set(names), exclude_defaults=True)
        if self.tests:
            arguments["per_user"] = True
        for setting, name, one in self._iter_slices():
            read = (
                _reader(f"{setting}.{name}", SLICES[setting]) if reads_files else FileSettings.file
            )
            arguments.setdefault(setting, {})[name] = one.argument(read)
        return {"metrics": self.all_metrics, **arguments}

    def plain_slices(self) -> dict[str, dict[str, Any]]:
        """Return the slices by setting, as plain values that mean the same in any folder."""
        plain: dict[str, dict[str, Any]] = {}
        for setting, name, one in self._iter_slices():
            plain.setdefault(setting, {})[name] = one.plain()
        return plain

    def _iter_slices(self) -> Iterator[tuple[str, str, SliceSettings]]:
        for setting in SLICES:
            for name, one in getattr(self, setting).items():
                yield setting, name, one


def _reader(argument: str, use: str) -> Callable[[FileSettings], Any]:
    """Return a function that reads a file of labels; `argument` names it in messages."""

    def read(file: FileSettings) -> Any:
        from weft.data.readers.files import read_table

        return read_table(file.file(), argument, use=use)

    return read
