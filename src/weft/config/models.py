"""The typed models of a configuration. Their descriptions are those of the JSON Schema."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from weft.config.document import from_home, show
from weft.errors import SettingError, did_you_mean
from weft.metrics.names import MetricSpec

if TYPE_CHECKING:
    from weft.data.readers.files import File

PAGES = (".html", ".htm")  # how the name of a report ends
ENGINES = ("ray", "spark")

# --------------------------------------------------------------------------------------------------

_TRUE_FALSE = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _whole(value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        hint = f" Write [{value}] for a list." if isinstance(value, str) and "," in value else ""
        raise ValueError(f"got {show(value)}, expected a whole number from {least} up.{hint}")
    return value


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"got {show(value)}, expected a number.")
    return float(value)


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.casefold() in _TRUE_FALSE:
        return _TRUE_FALSE[value.casefold()]
    if not isinstance(value, bool):
        raise ValueError(f"got {show(value)}, expected true or false.")
    return value


def _text(value: Any, *, what: str = "a text") -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"got {show(value)}, expected {what}.")
    return value


def _separator(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(
            f"got {show(value)}, expected what stands between columns, such as ',' or '\\t'."
        )
    return value.replace("\\t", "\t")  # in single quotes YAML keeps the backslash


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _choice(value: Any, *, allowed: Callable[[], tuple[str, ...]]) -> str:
    options = allowed()
    for option in options:
        if isinstance(value, str) and option.casefold() == value.casefold():
            return option
    raise ValueError(
        f"got {show(value)}, expected one of "
        f"{', '.join(options)}.{did_you_mean(str(value), options)}"
    )


def _profiles() -> tuple[str, ...]:
    from weft.metrics.profiles import PROFILES

    return tuple(PROFILES)


def _tie_rules() -> tuple[str, ...]:
    from weft.ranking import TIE_RULES

    return TIE_RULES


def _empty_users() -> tuple[str, ...]:
    from weft.metrics.base.metric import EMPTY_USERS

    return EMPTY_USERS


def _missing_lists() -> tuple[str, ...]:
    from weft.evaluation.runner import MISSING_LISTS

    return MISSING_LISTS


def _duplicates() -> tuple[str, ...]:
    from weft.evaluation.runner import DUPLICATES

    return DUPLICATES


def _strategies() -> tuple[str, ...]:
    from weft.evaluation.candidates import STRATEGIES

    return STRATEGIES


def _negative_sampling() -> tuple[str, ...]:
    from weft.evaluation.candidates import NEGATIVE_SAMPLING

    return NEGATIVE_SAMPLING


def _corrections_of_samples() -> tuple[str, ...]:
    from weft.ranking.rank_estimator import ESTIMATORS

    return ESTIMATORS


def _formats() -> tuple[str, ...]:
    from weft.data.readers.layouts import FORMATS

    return FORMATS


def _kinds_of_ids() -> tuple[str, ...]:
    from weft.data.readers.files import ID_TYPES

    return ID_TYPES


def _alternatives() -> tuple[str, ...]:
    from weft.statistics.significance_tests import ALTERNATIVES

    return ALTERNATIVES


def _families() -> tuple[str, ...]:
    from weft.statistics.corrections import FAMILIES

    return FAMILIES


def roles() -> tuple[str, ...]:
    """What a column can be."""
    from weft.data.readers.role_assignment import ROLES

    return ROLES


# What can be chosen for a key, where the code that carries it out says so.
CHOICES: dict[str, Callable[[], tuple[str, ...]]] = {
    "profile": _profiles,
    "ties": _tie_rules,
    "empty_users": _empty_users,
    "missing_lists": _missing_lists,
    "duplicates": _duplicates,
    "format": _formats,
    "ids": _kinds_of_ids,
    "strategy": _strategies,
    "negative_sampling": _negative_sampling,
    "correction": _corrections_of_samples,
    "alternative": _alternatives,
    "family": _families,
}


def _role(value: Any) -> str:
    if value not in roles():
        raise ValueError(
            f"there is no role {value!r}.{did_you_mean(str(value), roles())} Roles: "
            f"{', '.join(roles())}."
        )
    return str(value)


def _column(value: Any) -> str | int:
    if (
        isinstance(value, bool)
        or not isinstance(value, (str, int))
        or (isinstance(value, int) and value < 0)
    ):
        raise ValueError(
            f"got {show(value)}, expected the name of a column, or its position from 0."
        )
    return value


def _is_columns(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"got {show(value)}, expected a mapping of roles to columns, such as {{user: visitor, item: sku}}."
        )
    return value


def _share(value: Any) -> float:
    if not 0 < _real(value) < 1:
        raise ValueError(f"got {show(value)}, expected a number between 0 and 1.")
    return float(value)


def _candidates(value: Any) -> str:
    from weft.evaluation.candidates import CANDIDATES

    if isinstance(value, str) and value.casefold() in CANDIDATES:
        return value.casefold()
    hint = (
        did_you_mean(str(value), CANDIDATES)
        or " The candidates of each user come from a file: data.candidates: FILE."
    )
    raise ValueError(f"got {show(value)}, expected one of {', '.join(CANDIDATES)}.{hint}")


def _power(value: Any) -> float:
    if _real(value) < 0:
        raise ValueError(f"got {show(value)}, expected a number from 0 up.")
    return float(value)


def _weight(value: Any) -> float:
    if not 0 < _real(value) <= 1:
        raise ValueError(f"got {show(value)}, expected a number above 0, up to 1.")
    return float(value)


Role = Annotated[str, BeforeValidator(_role)]
Column = Annotated[str | int, BeforeValidator(_column)]
Bool = Annotated[bool, BeforeValidator(_truth)]
Number = Annotated[float, BeforeValidator(_real)]
Text = Annotated[str, BeforeValidator(_text)]
Metric = Annotated[
    str, BeforeValidator(partial(_text, what="the name of a metric, such as nDCG or nDCG@10"))
]
Cutoff = Annotated[
    int, BeforeValidator(partial(_whole, least=1)), Field(json_schema_extra={"minimum": 1})
]
Seed = Annotated[
    int, BeforeValidator(partial(_whole, least=0)), Field(json_schema_extra={"minimum": 0})
]


def _one_of(key: str) -> Any:
    return BeforeValidator(partial(_choice, allowed=CHOICES[key]))


class Section(BaseModel):
    """A mapping of the configuration; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _is_mapping(cls, given: Any) -> Any:
        if not isinstance(given, (Mapping, cls)):
            raise ValueError(f"got {show(given)}, expected {cls._expected()}.")
        return given

    @classmethod
    def _expected(cls) -> str:
        return f"a mapping with {', '.join(cls.model_fields)}"


# --------------------------------------------------------------------------------------------------


class FileSettings(Section):
    """A file, or a folder of parts, and what cannot be told from it. A path alone will do."""

    path: Path = Field(
        description="A file, a folder of parts, or a pattern such as recs/*.csv; relative to the folder of the YAML file."
    )
    format: Annotated[str, _one_of("format")] | None = Field(
        default=None, description="The format, where the name of the file does not tell."
    )
    separator: Annotated[str, BeforeValidator(_separator)] | None = Field(
        default=None,
        description="What stands between the columns of a text file, such as ',' or '\\t'.",
    )
    header: Bool | None = Field(
        default=None, description="Whether the first row of a text file names the columns."
    )
    columns: Annotated[dict[Role, Column], BeforeValidator(_is_columns)] = Field(
        default_factory=dict,
        description="Which column plays which role, by name or by position from 0: {user: visitor, item: sku}.",
    )
    ids: Annotated[str, _one_of("ids")] = Field(
        default="auto",
        description="What ids are: 'string', 'integer', or 'auto': as they are written.",
    )
    ratings: Bool = Field(
        default=True,
        description="Whether ratings are read; without them every row of truth or train counts 1.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, given: Any) -> Any:
        return {"path": given} if isinstance(given, (str, Path)) else given

    @classmethod
    def _expected(cls) -> str:
        return "a path, or a mapping with path, format, separator, header, columns"

    @field_validator("path", mode="before")
    @classmethod
    def _find(cls, given: Any, info: ValidationInfo) -> Path:
        if isinstance(given, Path):  # not from the file: relative to where we are
            return _existing(given, None)
        text = _text(given, what="the path of a file")
        folder: Path = (info.context or {}).get("folder", Path())
        path = folder / from_home(text)
        if not _is_there(path) and (info.context or {}).get("also_here") and _is_there(Path(text)):
            return Path(text)  # where WarpRec looks
        return _existing(path, Path(text) if folder != Path() else None)

    def file(self) -> File:
        """What the readers understand."""
        from weft.data.readers.files import File

        return File(self.path, self.format, self.separator, self.header, self.columns, self.ids)

    def plain(self) -> dict[str, Any] | str:
        """As it could stand in a YAML file in any folder."""
        rest = self.model_dump(exclude={"path"}, exclude_defaults=True)
        path = str(self.path.absolute())
        return {"path": path, **rest} if rest else path


def _is_there(path: Path) -> bool:
    """Whether there is a file, a folder, or something that fits a pattern."""
    try:
        return path.exists() or (glob.has_magic(str(path)) and bool(glob.glob(str(path))))
    except PermissionError:
        return True  # there it is; whoever reads it says that it cannot
    except (OSError, ValueError):  # no name that a file can have
        return False


def _existing(path: Path, written: Path | None) -> Path:
    """The path, if something is there; `written` is the relative path that led to it from the YAML
    file's folder.
    """
    if _is_there(path):
        return path
    hint = ""
    if written is not None and not written.is_absolute() and _is_there(written):
        hint = (
            f" There is one in the current folder, but paths are relative to the folder of the YAML file: write "
            f"{os.path.relpath(written, _base(path, written))!r}, or an absolute path."
        )
    elif os.path.isdir(path.parent) and os.access(path.parent, os.R_OK):
        hint = did_you_mean(path.name, sorted(os.listdir(path.parent))[:1000])
    raise ValueError(f"there is no file or folder {str(path)!r}.{hint}")


def _base(path: Path, written: Path) -> Path:
    """The folder that `written` was relative to."""
    for _ in written.parts:
        path = path.parent
    return path


class Data(Section):
    """What all models are evaluated on."""

    truth: FileSettings = Field(
        description="What the users really wanted: user, item, and a rating if there is one."
    )
    train: FileSettings | None = Field(
        default=None,
        description="What the models were trained on: for masking, popularity, novelty and train bias.",
    )
    items: FileSettings | None = Field(
        default=None,
        description="The catalogue, if it is not what train, truth and lists mention: a column of item ids.",
    )
    user_groups: FileSettings | None = Field(
        default=None, description="A label per user: user, label."
    )
    item_clusters: FileSettings | None = Field(
        default=None, description="A label per item: item, label."
    )
    item_features: FileSettings | None = Field(
        default=None, description="The features of each item: item, feature; one row per feature."
    )
    candidates: FileSettings | None = Field(
        default=None,
        description="The items that each user can be recommended: user, item. Without it, those of evaluation.candidates.",
    )


# --------------------------------------------------------------------------------------------------


class ComplexMetric(Section):
    """A metric with parameters."""

    name: Metric = Field(description="The name of the metric, such as F1.")
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Its parameters, such as {metric_name_1: nDCG, metric_name_2: MAP, beta: 0.5}.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @field_validator("params", mode="before")
    @classmethod
    def _is_params(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError(
                f"got {show(given)}, expected a mapping of parameters, such as {{beta: 0.5}}."
            )
        return dict(given)

    def spec(self) -> MetricSpec:
        """The metric under the one grammar of names."""
        from weft.metrics.names import parse_name

        named = parse_name(self.name)
        return MetricSpec(
            named.name,
            (*named.params, *((key, _parameter(key, value)) for key, value in self.params.items())),
            named.k,
        )


def _parameter(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        raise SettingError(f"the parameter {key!r} is a mapping, expected a value or a list.")
    return (
        tuple(_parameter(key, one) for one in value) if isinstance(value, (list, tuple)) else value
    )


class Corrections(Section):
    """What many tests at once do to their p-values. Several may be chosen: each gives a comparison."""

    bonferroni: Bool | None = Field(
        default=None, description="Bonferroni: p times the number of tests."
    )
    holm_bonferroni: Bool | None = Field(
        default=None, description="Holm's step-down correction, the default."
    )
    fdr: Bool | None = Field(
        default=None, description="Benjamini and Hochberg's control of the false discovery rate."
    )
    alpha: Annotated[float, BeforeValidator(_share)] = Field(
        default=0.05, description="The level of significance, between 0 and 1."
    )

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names that `weft.compare` knows; Holm if nothing is said, none if all are refused."""
        asked = {"bonferroni": self.bonferroni, "holm": self.holm_bonferroni, "fdr": self.fdr}
        if all(value is None for value in asked.values()):
            return ("holm",)
        return tuple(name for name, value in asked.items() if value) or ("none",)


class Significance(Section):
    """Tests between every two models, user by user."""

    paired_t_test: Bool = Field(default=False, description="The paired t-test.")
    wilcoxon_test: Bool = Field(default=False, description="Wilcoxon's signed-rank test.")
    kruskal_test: Bool = Field(
        default=False,
        description="The Kruskal-Wallis test, which ignores that both models have the same users.",
    )
    whitney_u_test: Bool = Field(
        default=False,
        description="The Mann-Whitney U test, which ignores that both models have the same users.",
    )
    randomization_test: Bool = Field(
        default=False,
        description="The paired randomisation test: signs of the differences, flipped at random.",
    )
    sign_test: Bool = Field(
        default=False, description="The sign test: how many users win, and how many lose."
    )
    corrections: Corrections = Field(
        default_factory=lambda: Corrections(), description="Corrections for many tests at once."
    )
    family: Annotated[str, _one_of("family")] = Field(
        default="test",
        description="Which tests are corrected together: all of one test, of one test and metric, of one test and pair, or all.",
    )
    alternative: Annotated[str, _one_of("alternative")] = Field(
        default="two-sided",
        description="What is tested: a difference, or that the first of two models has greater or less values.",
    )
    resamples: Cutoff = Field(
        default=10_000, description="How many random flips the randomisation test draws."
    )

    @property
    def tests(self) -> tuple[str, ...]:
        """The names that `weft.compare` knows."""
        asked = {
            "paired_t": self.paired_t_test,
            "wilcoxon": self.wilcoxon_test,
            "randomization": self.randomization_test,
            "sign": self.sign_test,
            "kruskal": self.kruskal_test,
            "mann_whitney": self.whitney_u_test,
        }
        return tuple(name for name, value in asked.items() if value)

    @model_validator(mode="after")
    def _has_a_direction(self) -> Significance:
        if self.kruskal_test and self.alternative != "two-sided":
            raise ValueError(
                f"kruskal_test knows no direction, but alternative is {self.alternative}; leave one of the two out."
            )
        return self


class SliceSettings(Section):
    """Groups of users: 'quantiles(4)' or 'bins(5, 20)' of activity or item_popularity, a file of
    labels, or one of numbers.
    """

    of: FileSettings | None = Field(
        default=None, description="A label per user, or with 'by' a number per user: user, label."
    )
    by: Text | None = Field(
        default=None, description="How numbers make groups: 'quantiles(4)' or 'bins(5, 20)'."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_one(cls, given: Any) -> Any:
        if isinstance(given, str) and re.match(r"\s*(quantiles|bins)\b", given, re.IGNORECASE):
            return {"by": given}
        if isinstance(given, (str, Path)) or (isinstance(given, Mapping) and "path" in given):
            return {"of": given}
        return given

    @classmethod
    def _expected(cls) -> str:
        return "'quantiles(4)', 'bins(5, 20)', the path of a file (user, label), or a mapping with of and by"

    def given(self, read: Callable[[FileSettings], Any]) -> Any:
        """As `weft.evaluate` takes it; `read` opens a file."""
        if self.of is None:
            return self.by
        return read(self.of) if self.by is None else {"of": read(self.of), "by": self.by}

    def plain(self) -> Any:
        """As it could stand in a YAML file in any folder."""
        return self.given(lambda file: file.plain())


def _are_slices(given: Any) -> Any:
    if not isinstance(given, Mapping):
        raise ValueError(
            f"got {show(given)}, expected a mapping of slices, such as {{activity: quantiles(4), gender: gender.csv}}."
        )
    return given


class Evaluation(Section):
    """How the models are evaluated."""

    metrics: Annotated[list[Metric], BeforeValidator(_listed)] = Field(
        default_factory=list,
        description="The metrics: one name or a list, in any case, such as nDCG, nDCG@10 or 'F1(beta=0.5)'.",
    )
    complex_metrics: Annotated[list[ComplexMetric], BeforeValidator(_listed)] = Field(
        default_factory=list, description="Metrics with parameters: a list of {name, params}."
    )
    top_k: Annotated[list[Cutoff], BeforeValidator(_listed)] = Field(
        default_factory=list, description="The cut-offs: one number or a list."
    )
    profile: Annotated[str, _one_of("profile")] | None = Field(
        default=None, description="Another tool's definitions, so that its numbers come out."
    )
    candidates: Annotated[str, BeforeValidator(_candidates)] = Field(
        default="all",
        description="What can be recommended: all items, those without (cold) or with (warm) a train interaction, or what each "
        "list holds (listed).",
        json_schema_extra={"enum": ["all", "cold", "warm", "listed"]},
    )
    strategy: Annotated[str, _one_of("strategy")] = Field(
        default="full",
        description="'full' ranks all candidates; 'sampled' ranks each user's relevant items among negatives that are drawn.",
    )
    num_negatives: Cutoff | None = Field(
        default=None,
        description="How many negatives sampled evaluation draws for each user (99); not read under 'full'.",
    )
    negative_sampling: Annotated[str, _one_of("negative_sampling")] | None = Field(
        default=None,
        description="How it draws them: uniform, or by popularity in train; not read under 'full'.",
    )
    neg_alpha: Annotated[float, BeforeValidator(_power)] | None = Field(
        default=None,
        description="The power of popularity that negatives are drawn by (0.75); not read under 'full'.",
    )
    correction: Annotated[str, _one_of("correction")] | None = Field(
        default=None, description="Estimate from sampled ranks what ranking all items would give."
    )
    gamma: Annotated[float, BeforeValidator(_weight)] | None = Field(
        default=None,
        description="How much variance weighs against bias in the correction bias_variance (0.1).",
    )
    relevance_threshold: Number | None = Field(
        default=None, description="From which rating on an item is relevant; without it, above 0."
    )
    mask_seen: bool | Literal["auto"] = Field(
        default="auto",
        description="Whether items of train are removed from their user's list: true, false, or auto (keep, count and warn).",
    )
    ties: Annotated[str, _one_of("ties")] | None = Field(
        default=None, description="Who comes first among equal scores."
    )
    seed: Seed = Field(default=0, description="The seed of everything random.")
    empty_users: Annotated[str, _one_of("empty_users")] | None = Field(
        default=None,
        description="Users of the truth without a relevant item: leave them out, or count 0.",
    )
    missing_lists: Annotated[str, _one_of("missing_lists")] | None = Field(
        default=None, description="Users of the truth without a list: count 0, or leave them out."
    )
    duplicates: Annotated[str, _one_of("duplicates")] = Field(
        default="error",
        description="An item that stands twice in a user's list: an error, or the best place counts.",
    )
    save_per_user: Bool = Field(
        default=False, description="Keep and write a value per user, metric and cut-off."
    )
    exposure: Bool = Field(
        default=False,
        description="Keep how often items are recommended at each cut-off; a report asks for it by itself.",
    )
    bootstrap: Cutoff | None = Field(
        default=None,
        description="Intervals of every metric from so many resamples of the users, such as 1000.",
    )
    slices: Annotated[dict[str, SliceSettings], BeforeValidator(_are_slices)] = Field(
        default_factory=dict,
        description="Metrics by groups of users: {activity: quantiles(4), gender: gender.csv}.",
    )
    gates: Annotated[list[Text], BeforeValidator(_listed)] = Field(
        default_factory=list,
        description="Conditions that fail the command, such as 'nDCG@10 >= 0.31'.",
    )
    stat_significance: Significance | None = Field(
        default=None, description="Tests between every two models."
    )
    custom_modules: Annotated[list[Text], BeforeValidator(_listed)] = Field(
        default_factory=list,
        description="Python modules, or .py files, with metrics of your own; they are run when the configuration is loaded.",
    )
    batch_size: Cutoff | None = Field(
        default=None, description="Users at once; never changes what comes out."
    )
    device: Text | None = Field(
        default=None,
        description="Where to compute, such as cpu or cuda:0; never changes what comes out.",
    )

    @field_validator("mask_seen", mode="before")
    @classmethod
    def _masking(cls, given: Any) -> Any:
        if isinstance(given, str) and given.casefold() == "auto":
            return "auto"
        try:
            return _truth(given)
        except ValueError:
            raise ValueError(f"got {show(given)}, expected true, false or auto.") from None

    @property
    def all_metrics(self) -> list[str]:
        """Every metric that is asked for, by name."""
        return list(
            dict.fromkeys([*self.metrics, *(str(metric.spec()) for metric in self.complex_metrics)])
        )

    @property
    def tests(self) -> tuple[str, ...]:
        """The significance tests that are asked for."""
        return () if self.stat_significance is None else self.stat_significance.tests

    def settings(self, *, read: bool = True) -> dict[str, Any]:
        """The keyword arguments of `weft.evaluate` that this section sets: `weft.evaluate(scores,
        truth, **section.settings())`.

        `read`: whether files of slices are read here, rather than named.
        """
        same = (
            "profile",
            "relevance_threshold",
            "mask_seen",
            "ties",
            "seed",
            "empty_users",
            "missing_lists",
            "duplicates",
        )
        sampling: tuple[str, ...] = (
            ("num_negatives", "negative_sampling") if self.strategy == "sampled" else ()
        )
        sampling += ("neg_alpha",) if sampling and self.negative_sampling == "popularity" else ()
        offered = ("candidates", "strategy", *sampling, "correction", "gamma")
        given = self.model_dump(
            include={*same, *offered, "exposure", "bootstrap", "batch_size", "device"},
            exclude_defaults=True,
        )
        if self.save_per_user or self.tests:
            given["per_user"] = True
        if self.slices:
            given["slices"] = {
                name: one.given(_reader(f"slices.{name}") if read else FileSettings.file)
                for name, one in self.slices.items()
            }
        return {
            "metrics": self.all_metrics,
            **({"top_k": self.top_k} if self.top_k else {}),
            **given,
        }


def _reader(where: str) -> Callable[[FileSettings], Any]:
    """Reads a file of labels; `where` says what it is, for messages."""

    def read(file: FileSettings) -> Any:
        from weft.data.readers.files import read_table

        return read_table(file.file(), where, use="user_groups")

    return read


class Engine(Section):
    """What the users are shared out on, if not on this process alone. Its name will do."""

    name: Annotated[str, BeforeValidator(partial(_choice, allowed=lambda: ENGINES))] = Field(
        description="The engine: ray or spark."
    )
    address: Text | None = Field(
        default=None,
        description="Of a running cluster, such as ray://head:10001 or spark://head:7077; without it, one on this machine.",
    )
    parts: Cutoff | None = Field(
        default=None,
        description="Into how many parts users are shared out; never changes what comes out.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        if (
            isinstance(given, Mapping)
            and "name" not in given
            and given.keys() <= cls.model_fields.keys()
        ):
            raise ValueError(
                f"no engine is named, but its {' and '.join(given)}; add the name (--engine), {' or '.join(ENGINES)}."
            )
        return {"name": given} if isinstance(given, str) else given

    @classmethod
    def _expected(cls) -> str:
        return f"{' or '.join(ENGINES)}, or a mapping with {', '.join(cls.model_fields)}"


def _placed(written: str, info: ValidationInfo) -> Path:
    """A path as it stands in a file: relative to the folder of the file."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / from_home(written)


class Configuration(Section):
    """A whole run: data, models, and how they are evaluated."""

    evaluation: Evaluation = Field(
        default_factory=lambda: Evaluation(),
        description="How the models are evaluated: metrics, cut-offs, who counts how.",
    )
    data: Data | None = Field(default=None, description="What all models are evaluated on.")
    models: dict[str, FileSettings] = Field(
        default_factory=dict,
        description="The recommendation lists of each model, by its name: {als: als.parquet, pop: pop.csv}.",
    )
    output: Path | None = Field(
        default=None,
        description="The folder for the results; relative to the folder of the YAML file.",
    )
    report: Path | None = Field(
        default=None,
        description="The file for the report, an HTML page; relative to the folder of the YAML file.",
    )
    engine: Engine | None = Field(
        default=None,
        description="Ray or Spark, to share the users out on; never changes what comes out. 'none': this process.",
    )
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know: keys that have no meaning here, and what was read in their
        place.
        """
        return self._warnings

    @field_validator("models", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError(
                f"got {show(given)}, expected a name and a file for each model, such as {{als: als.parquet}}."
            )
        return given

    @field_validator("engine", mode="before")
    @classmethod
    def _no_engine(cls, given: Any) -> Any:
        named = given["name"] if isinstance(given, Mapping) and given.keys() == {"name"} else given
        return None if isinstance(named, str) and named.casefold() == "none" else given

    @field_validator("output", mode="before")
    @classmethod
    def _folder(cls, given: Any, info: ValidationInfo) -> Path:
        if isinstance(given, Path):
            return given
        return _placed(_text(given, what="the path of a folder"), info)

    @field_validator("report", mode="before")
    @classmethod
    def _page(cls, given: Any, info: ValidationInfo) -> Path:
        what = f"the path of a file that ends in {' or '.join(PAGES)}"
        path = given if isinstance(given, Path) else _placed(_text(given, what=what), info)
        if path.suffix.lower() not in PAGES:
            raise ValueError(f"got {show(str(given))}, expected {what}.")
        return path

    def plain(self, *models: str) -> dict[str, Any]:
        """Plain JSON from which `from_mapping` makes this configuration again, of some models or
        all of them.
        """
        evaluation = self.evaluation.model_dump(
            mode="json", exclude_defaults=True, exclude={"custom_modules"}
        )
        if self.evaluation.custom_modules:
            evaluation["custom_modules"] = list(self.evaluation.custom_modules)
        if self.evaluation.slices:
            evaluation["slices"] = {
                name: one.plain() for name, one in self.evaluation.slices.items()
            }
        plain: dict[str, Any] = {"evaluation": evaluation}
        if self.data is not None:
            files = {name: getattr(self.data, name) for name in type(self.data).model_fields}
            plain["data"] = {name: file.plain() for name, file in files.items() if file is not None}
        chosen = models or tuple(self.models)
        return plain | {"models": {name: self.models[name].plain() for name in chosen}}
