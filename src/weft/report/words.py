"""A report in words: a stand-in with the signatures that the page reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.report.subject import Subject


@dataclass(frozen=True)
class Verdict:
    """Who leads on a metric."""

    metric: str
    sentence: str
    leader: str | None = None
    significant: bool | None = None


@dataclass(frozen=True)
class Definition:
    """What a metric is."""

    name: str
    summary: str
    definition: str = ""
    better: str = ""
    range: str = ""
    parameters: list[tuple[str, str]] = field(default_factory=list)
    reference: str = ""


def facts(subject: Subject) -> list[tuple[str, str]]:
    """The models and the data."""
    counts = next(iter(subject.results.values())).counts
    told = [(name.replace("_", " "), f"{counts[name]:,}") for name in ("users", "items", "relevant_items") if name in counts]
    return [("models", ", ".join(subject.models)), *told]


def verdicts(subject: Subject) -> list[Verdict]:
    """Who leads on each headline."""
    return [Verdict(name, f"{leader} leads.", leader) for name in subject.headlines if (leader := subject.leader(name))]


def notes(subject: Subject) -> list[str]:
    """What to know about the numbers."""
    return [f"{model}: {note}" for model, result in subject.results.items() for note in result.notes]


def definitions(subject: Subject) -> list[Definition]:
    """The metrics shown."""
    from weft.errors import WeftError
    from weft.names import parse
    from weft.registry import find
    from weft.report.definitions import better, value_range, words

    found: dict[str, Definition] = {}
    for line in subject.lines:
        value = next(value for value in line.values if value is not None)
        try:
            metric = find(parse(value.metric).name)
        except WeftError:
            continue
        said = words(metric)
        found[value.metric] = Definition(
            value.metric, said.summary, said.definition, better(metric), value_range(metric), [], metric.reference or ""
        )
    return list(found.values())


def provenance(subject: Subject) -> list[tuple[str, str]]:
    """Where the numbers came from."""
    return [(name, str(value)) for name, value in next(iter(subject.results.values())).provenance.items()]


def rerun(subject: Subject) -> list[tuple[str, str]]:
    """How to get the same numbers again."""
    return [("Settings", "\n".join(f"{name}: {value}" for name, value in next(iter(subject.results.values())).settings.items()))]
