"""Every public name has one entry in the API reference, and an example."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest
import typer

import weft
from weft import cli
from weft.evaluation import argument_types
from weft.evaluation.metric_value import MetricValue
from weft.metrics.registry import built_in_metrics

ROOT = Path(__file__).parents[1]
MODULES = (
    "weft",
    "weft.config",
    "weft.config.run",
    "weft.engines.distributed",
    "weft.engines.ray",
    "weft.engines.spark",
    "weft.errors",
    "weft.integrations.huggingface",
    "weft.integrations.lightning",
    "weft.integrations.mlflow",
    "weft.integrations.tensorboard",
    "weft.integrations.wandb",
    "weft.metrics",
    "weft.sampling",
    "weft.testing",
)
ENTRY = re.compile(r"^\.\. (?:auto|py:)(?:class|function|exception|data):: ([\w.]+)$", re.M)


def resolve(path):
    """Return the object of a dotted name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_names():
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            path = f"{module}.{name}"
            found = resolve(path)
            is_of_a_test = not getattr(found, "__module__", "weft").startswith("weft")
            if not inspect.ismodule(found) and not is_of_a_test:
                yield path


ENTRIES = [
    entry
    for page in sorted((ROOT / "docs/reference/api").glob("*.md"))
    for entry in ENTRY.findall(page.read_text(encoding="utf-8"))
]
PUBLIC = sorted(public_names())


def test_public_modules_are_tested():
    """Engines and integrations with `__all__`."""
    packages = ("engines", "integrations")
    files = [file for name in packages for file in (ROOT / "src/weft" / name).glob("**/*.py")]
    with_names = {
        ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for file in files
        if re.search(r"^__all__ = ", file.read_text(encoding="utf-8"), re.M)
    }
    assert with_names == {name for name in MODULES if _package(name) in packages}


def _package(module):
    return module.split(".")[1] if "." in module else ""


def test_entries_are_names_of_objects():
    assert len(ENTRIES) > 90
    assert [entry for entry, number in Counter(ENTRIES).items() if number > 1] == []
    for entry in ENTRIES:
        resolve(entry)


def test_metrics_are_listed():
    page = (ROOT / "docs/reference/api/metrics.md").read_text(encoding="utf-8")
    assert page.count("<!-- generated: metric classes -->") == 1


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_one_entry(name):
    value = resolve(name)
    if value in built_in_metrics():
        return  # the generated index has all of them
    entries = [entry for entry in ENTRIES if resolve(entry) is value]
    assert len(entries) == 1, f"{name} needs one entry in docs/reference/api, has {entries}"


def is_exception(value):
    return isinstance(value, type) and issubclass(value, Exception)


def test_types_of_signatures_have_entries():
    page = (ROOT / "docs/reference/api/types.md").read_text(encoding="utf-8")
    assert page.count("<!-- generated: choice types -->") == 1
    entries = re.findall(r"^```\{py:type\} (\w+)$", page, re.M)
    aliases = re.findall(r"^(\w+): TypeAlias", inspect.getsource(argument_types), re.M)
    written = " ".join(
        str(parameter.annotation)
        for name in PUBLIC
        if callable(resolve(name)) and not is_exception(resolve(name))
        for parameter in inspect.signature(resolve(name)).parameters.values()
    )
    used = {name for name in aliases if re.search(rf"\b{name}\b", written)}
    parts = {"Array", "Moment", "Table"}  # of other types, and in options of weft.split
    assert set(entries) == used | parts <= set(aliases)


# Names without an example in their docstring: errors other than their base, of which the messages
# are the documentation; constants; and functions that need a running service or another framework,
# which have examples in the guide.
WITHOUT_EXAMPLE = {
    "weft.engines.ray.cluster",
    "weft.engines.ray.evaluate",
    "weft.engines.spark.SparkResult",
    "weft.engines.spark.evaluate",
    "weft.engines.spark.session",
    "weft.integrations.lightning.EvaluationCallback",
    "weft.integrations.mlflow.log",
    "weft.integrations.tensorboard.log",
    "weft.integrations.wandb.log",
    "weft.testing.CHECKS",
    "weft.testing.TOLERANCE",
}


def is_exempt(name):
    value = resolve(name)
    return name in WITHOUT_EXAMPLE or (is_exception(value) and value is not weft.WeftError)


@pytest.mark.parametrize("name", [name for name in PUBLIC if not is_exempt(name)])
def test_public_names_have_an_example(name):
    assert ">>> " in (inspect.getdoc(resolve(name)) or ""), f"add an example to {name}"


def test_exceptions_are_public_names_without_an_example():
    assert set(PUBLIC) >= WITHOUT_EXAMPLE
    for name in WITHOUT_EXAMPLE:
        assert ">>> " not in (inspect.getdoc(resolve(name)) or ""), f"{name} has an example"


@pytest.fixture
def command_reference(monkeypatch):
    """The generated reference of commands, without the rest of the site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    return importlib.import_module("command_reference").render()


def test_the_command_reference_shows_examples_line_by_line(command_reference):
    blocks = re.findall(r"^```bash\n(.*?)^```$", command_reference, re.M | re.S)
    shown = [line for block in blocks for line in block.splitlines()]
    assert "weft split ratings.csv --method folds --folds 5 --out parts -f parquet" in shown
    commands = {line.split()[1] for line in shown if line.startswith("weft ")}
    assert commands == set(typer.main.get_command(cli.app).commands)


def test_the_command_reference_shows_defaults(command_reference):
    entries = re.findall(r"^````\{option\} (\S+)(.*?)^````$", command_reference, re.M | re.S)
    defaults = {name: re.findall(r"Default: .*", text) for name, text in entries}
    assert defaults["--folds"] == ["Default: 5."]  # stated in the text of the option
    assert defaults["--format"][0] and defaults["INTERACTIONS"] == []


def test_options_have_a_help_text_and_show_their_default():
    group = typer.main.get_command(cli.app)
    commands = {"weft": group, **{f"weft {name}": one for name, one in group.commands.items()}}
    for command, parameters in ((name, one.params) for name, one in commands.items()):
        for one in parameters:
            assert one.help, f"{command}: {one.opts[0]} has no help text"
            has_value = one.default not in (None, (), []) and not isinstance(one.default, bool)
            if has_value and not callable(one.default):
                assert one.show_default, f"{command}: {one.opts[0]} hides its default"


def test_each_generated_part_is_on_one_page():
    """Without its mark, a part would be missing on the site."""
    docs = ROOT / "docs"
    extension = (docs / "_extensions" / "generated.py").read_text(encoding="utf-8")
    parts = re.findall(r'^    "([\w ]+)": \w+\.render,$', extension, re.M)
    pages = [path.read_text(encoding="utf-8") for path in docs.rglob("*.md")]
    marks = [
        name for page in pages for name in re.findall(r"^<!-- generated: (.+) -->$", page, re.M)
    ]
    assert len(parts) >= 4 and sorted(marks) == sorted(parts)


def test_the_command_reference_quotes_commands_as_typed(command_reference):
    assert "`weft demo`" in command_reference and "'weft demo'" not in command_reference
    assert "`pip install 'weft[report]'`" in command_reference


def test_no_attribute_has_its_description_as_type():
    """Sphinx reads the words before a colon as the type of an attribute or property."""
    kinds = (weft.Result, weft.Comparison, weft.RankedLists, MetricValue)
    lines = {
        f"{kind.__name__}.{name}": inspect.getdoc(member).splitlines()[0]
        for kind in kinds
        for name, member in inspect.getmembers(kind, lambda one: isinstance(one, property))
        if not name.startswith("_")
    }
    lines |= {line: line for line in re.findall("#: (.*)", inspect.getsource(weft.MetricBlock))}
    assert len(lines) > 20
    assert [name for name, line in lines.items() if ": " in re.sub("`[^`]*`", "", line)] == []
