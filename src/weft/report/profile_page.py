"""The docs page of the profiles, generated from their declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.metrics.profiles import PROFILES, Profile
from weft.report.markdown import join_lines, table
from weft.report.math_symbols import set_symbols

_INTRODUCTION = """\
# Profiles

A profile reproduces the numbers of another tool. It is a named set of metric parameters and of \
settings of the run: `weft.evaluate(..., profile="trec_eval")`, `--profile trec_eval` on the \
command line, or `profile: trec_eval` in a configuration file.

```python
import torch
import weft

scores, truth = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 2]])
result = weft.evaluate(scores, truth, metrics=["nDCG", "MAP"], top_k=2, profile="trec_eval")
assert list(result) == ["nDCG(gain=linear)@2", "MAP(normalizer=relevant)@2"]
assert result["MAP@2"] == 0.5
```

- In the result, each metric has its full name, with the parameters of the profile. The short name \
finds it, too. If a run also has Weft's own definition of the metric, its parameters are written \
out, as in `nDCG(gain=exponential)`.
- Parameters in a name, such as `nDCG(gain=linear)`, take precedence over the profile. So do the \
settings `ties`, `empty_users`, `missing_lists`, `extra_users` and `relevance_threshold`, if they \
are given.
- A metric that the tool does not have, or that the profile excludes, is an error that states the \
reason. Metrics are excluded if the tool computes them incorrectly, or computes a different metric \
under the same name.
- `weft metrics MAP --profiles` compares the definitions of one metric in all tools.

Each profile was compared with the output of the tool in the given version: the first eight on \
MovieLens 100K, the others on a part of the data set of `weft demo` (`tests/golden`), and most of \
these on MovieLens 100K as well.
"""


def profiles_page() -> str:
    """Return the page of all profiles."""
    lines = [_INTRODUCTION]
    for profile in PROFILES.values():
        lines += _profile_section(profile)
    return join_lines(lines)


def _profile_section(profile: Profile) -> Iterator[str]:
    """Yield the settings, metrics, exclusions and notes of a profile."""
    yield from (f"## {profile.tool} {profile.version}", "")
    settings = [f"`{name}={value!r}`" for name, value in profile.settings.items()]
    yield from (f"Settings: {', '.join(settings) or 'the defaults of Weft'}.", "")
    defaults = [_link(name) for name, params in profile.covers.items() if not params]
    yield from (f"Metrics with the default parameters of Weft: {', '.join(defaults)}.", "")
    changed = {
        name: ", ".join(f"`{key}={value}`" for key, value in params.items())
        for name, params in profile.covers.items()
    }
    yield from _linked_table(("metric", "parameters"), changed)
    yield from _linked_table(("excluded metric", "reason"), profile.excluded)
    if profile.notes:
        yield from ("Notes:", "", *(f"- {note}" for note in profile.notes), "")


def _linked_table(head: tuple[str, str], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of metrics with a text, if there are any."""
    rows = [(_link(name), set_symbols(text)) for name, text in texts.items() if text]
    if rows:
        yield from (*table(head, rows), "")


def _link(metric: str) -> str:
    return f"[{metric}](../metrics/{metric}.md)"
