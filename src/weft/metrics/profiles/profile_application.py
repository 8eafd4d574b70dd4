"""Apply a profile to metrics, and write out what it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.errors import SettingError, setting_ref
from weft.metrics.declarations import metric_parameters
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.profiles.declaration import Profile
from weft.metrics.registry import canonical_name, find_metric, is_metric_class


def apply_profile(metric: Any, profile: Profile) -> Any:
    """Return a metric (name, spec or class) with the profile's parameters added.

    Parameters in the name take precedence. Metric objects, which have all parameters, and
    metrics that are not Weft's own are returned unchanged. Raises `SettingError` for a metric that
    the profile excludes or does not cover."""
    if is_metric_class(metric):
        metric_class, spec = metric, MetricSpec(metric.__name__)
    elif isinstance(metric, (str, MetricSpec)):
        spec = parse_name(metric) if isinstance(metric, str) else metric
        metric_class = find_metric(spec.name)
    else:
        return metric
    if not metric_class.__module__.startswith("weft."):
        return metric
    name = metric_class.__name__
    _check_covered(name, profile)
    folded = {key.casefold() for key, _ in spec.params}
    written = folded | {metric_class.parameter_aliases.get(key, "") for key in folded}
    added = ((key, value) for key, value in profile.covers[name].items() if key not in written)
    params = _map_components(spec, lambda component: apply_profile(component, profile))
    return MetricSpec(name, (*params.items(), *added), spec.k)


def _check_covered(name: str, profile: Profile) -> None:
    """Raise `SettingError` for a metric that the profile excludes or does not cover."""
    if name in profile.excluded:
        raise SettingError(
            f"{setting_ref('profile', profile.tool)} excludes {name}: {profile.excluded[name]}."
        )
    if name not in profile.covers:
        meaning = " (arithmetic on metrics)" if name == "Composite" else ""
        raise SettingError(
            f"{setting_ref('profile', profile.tool)} does not cover {name}{meaning}. It covers: "
            f"{', '.join(sorted(profile.covers))}."
        )


def _map_components(spec: MetricSpec, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the parameters of a metric with the metrics that they name changed."""

    def change_value(key: str, value: Any) -> Any:
        if key == "metric_names" and isinstance(value, tuple):
            return tuple(change(name) for name in value)
        is_component = key.startswith("metric_") and isinstance(value, (str, MetricSpec))
        return change(value) if is_component else value

    return {key: change_value(key.casefold(), value) for key, value in spec.params}


def spell_out(metric: str | MetricSpec, profile: Profile | None) -> MetricSpec:
    """Return a canonical metric with Weft's defaults written out where the profile sets others.

    Under ranx, `nDCG` is `nDCG(gain=linear)`, and Weft's own is `nDCG(gain=exponential)`. Metrics
    that the profile does not cover are returned unchanged."""
    spec = parse_name(metric) if isinstance(metric, str) else metric
    if profile is None:
        return spec
    try:
        name_under_profile = canonical_name(str(apply_profile(spec, profile)))
    except SettingError:
        return spec
    if name_under_profile == canonical_name(str(spec)):
        return spec
    params = _map_components(spec, lambda component: spell_out(component, profile))
    known = metric_parameters(find_metric(spec.name))
    for key in profile.covers[spec.name]:
        params.setdefault(key, known[key].default)
    return MetricSpec(
        spec.name, tuple((key, params[key]) for key in known if key in params), spec.k
    )
