"""Every built-in metric by an example name, and whatever they may ask of a run."""

from weft.registry import all_metrics

BUILT_IN = [metric.example or metric.__name__ for metric in all_metrics() if metric.__module__.startswith("weft.")]
ACCURACY = [metric.__name__ for metric in all_metrics() if metric.family == "accuracy"]


def about(num_users, num_items):
    """Labels and features in the order of the ids; some are missing."""
    return {
        "user_groups": [("F", "M", None, "M")[number % 4] for number in range(num_users)],
        "item_clusters": [(1, 2, 3, 2, None)[number % 5] for number in range(num_items)],
        "item_features": [{"drama", number % 3} - {0} if number % 4 else set() for number in range(num_items)],
    }
