"""A configuration, carried out: every model evaluated on the same data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.config import Configuration
from weft.data.files import read_table
from weft.result import Result
from weft.run import evaluate


def run(
    configuration: Configuration, begin: Callable[[str], None] = lambda what: None, *, progress: bool = False
) -> Iterator[Result]:
    """The result of each model, as soon as it is there. `begin` is told what starts."""
    begin("reading the data")
    data = {
        name: read_table(settings.file(), name)
        for name in type(configuration.data).model_fields
        if (settings := getattr(configuration.data, name)) is not None
    }
    truth = data.pop("truth")
    settings = configuration.evaluation.model_dump(exclude={"save_per_user", "duplicates", "gates"})
    for name, file in configuration.models.items():
        begin(f"evaluating {name}")
        yield evaluate(
            read_table(file.file(), name),
            truth,
            **data,
            **settings,
            per_user=configuration.evaluation.save_per_user,
            progress=progress,
            name=name,
        )
