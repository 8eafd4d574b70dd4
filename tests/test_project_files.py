"""Files of the project besides its code: workflows, templates, metadata and the changelog."""

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import weft
from weft.metrics.declarations import required_inputs
from weft.metrics.profiles import PROFILES
from weft.metrics.registry import built_in_metrics

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
WORKFLOWS = ("ci", "docs", "wheels")
FORMS = ("bug", "feature", "wrong-number")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def load_yaml(path):
    return YAML(typ="safe", pure=True).load(read(path))


def load_workflow(name):
    return load_yaml(f".github/workflows/{name}.yml")


def find_steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def declared_pythons():
    """Return the versions of Python in the classifiers, such as "3.11"."""
    prefix = "Programming Language :: Python :: "
    classifiers = (name.removeprefix(prefix) for name in PROJECT["classifiers"])
    return [name for name in classifiers if re.fullmatch(r"3\.\d+", name)]


@pytest.mark.parametrize(
    "path",
    [
        *("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"),
        *("SECURITY.md", "CITATION.cff", "constraints.txt", "docs/develop/release.md"),
        ".github/PULL_REQUEST_TEMPLATE.md",
    ],
)
def test_files_that_people_look_for_exist(path):
    assert (ROOT / path).stat().st_size > 200


def test_versions_agree():
    citation = load_yaml("CITATION.cff")
    assert str(citation["version"]) == PROJECT["version"] == weft.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["cff-version"] == "1.2.0"


def test_the_citation_has_fields_of_its_format():
    """Of the Citation File Format 1.2.0; the release adds `date-released`."""
    citation = load_yaml("CITATION.cff")
    required = {"cff-version", "message", "title", "authors"}
    optional = {
        *("abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords"),
        *("license", "license-url", "preferred-citation", "references", "repository"),
        *("repository-artifact", "repository-code", "type", "url", "version"),
    }
    assert required <= citation.keys() <= required | optional
    assert citation["type"] == "software"
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]


def test_the_readme_is_short_and_counts_correctly():
    text = read("README.md")
    metrics = built_in_metrics()
    words = {15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen"}
    without_lists = [metric for metric in metrics if "reference" not in required_inputs(metric)]
    assert len(text.splitlines()) <= 150
    for page in (text, read("docs/index.md")):
        assert f"[{len(metrics)} metrics](" in page
    assert f"numbers of {words[len(PROFILES)]} other tools" in text
    assert f"All {len(without_lists)} metrics that need no lists of another model" in text


def test_the_command_that_builds_the_site_is_the_same_everywhere():
    command = "sphinx-build -W -b html docs build/site"
    install = "pip install -c constraints.txt '.[docs]'"
    for path in ("README.md", "CONTRIBUTING.md", "docs/conf.py", ".github/workflows/docs.yml"):
        assert command in read(path) and install in read(path), path


def test_ci_calls_the_script_that_developers_run():
    jobs = load_workflow("ci")["jobs"]
    assert any(step.get("run") == ".ci/run" for step in jobs["complete"]["steps"])
    assert any('pytest -m "not slow"' in step.get("run", "") for step in jobs["fast"]["steps"])


def test_ci_covers_the_declared_versions_and_systems():
    matrix = load_workflow("ci")["jobs"]["fast"]["strategy"]["matrix"]
    wheels = PYPROJECT["tool"]["cibuildwheel"]["build"]
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert matrix["python"] == declared_pythons()
    assert wheels == [f"cp{version.replace('.', '')}-*" for version in declared_pythons()]
    assert declared_pythons()[0] == oldest == PYPROJECT["tool"]["mypy"]["python_version"]
    assert {system.split("-")[0] for system in matrix["system"]} == {"ubuntu", "macos", "windows"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_have_few_permissions_and_pinned_actions(name):
    workflow = load_workflow(name)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for job_name, job in workflow["jobs"].items():
        assert job_name == "publish" or "permissions" not in job
        assert job["timeout-minutes"] <= 60
    for step in find_steps(workflow):
        if "uses" in step:
            action, _, version = step["uses"].partition("@")
            assert re.fullmatch(r"v\d+(\.\d+)*|release/v1", version), step
            if action == "actions/checkout":
                assert step["with"] == {"persist-credentials": False}


def test_the_site_is_built_with_warnings_as_errors():
    commands = [step.get("run") for step in find_steps(load_workflow("docs"))]
    assert "sphinx-build -W -b html docs build/site" in commands


def test_every_distribution_is_built_before_one_is_published():
    jobs = load_workflow("wheels")["jobs"]
    publish = jobs["publish"]
    assert set(publish["needs"]) == jobs.keys() - {"publish"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"


@pytest.mark.parametrize("name", FORMS)
def test_issue_forms(name):
    form = load_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    fields = [field["id"] for field in form["body"]]
    assert len(set(fields)) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in form["body"])
    assert all(field["attributes"]["label"] for field in form["body"])


def test_reports_of_wrong_numbers_have_definition_and_example():
    form = load_yaml(".github/ISSUE_TEMPLATE/wrong-number.yml")
    required = {
        field["id"] for field in form["body"] if field.get("validations", {}).get("required")
    }
    assert {"metric", "definition", "example", "got", "expected"} <= required
    (example,) = (field for field in form["body"] if field["id"] == "example")
    exec(example["attributes"]["placeholder"], {})  # the example that the form shows


def test_paths_that_the_contributing_guide_names_exist():
    text = read("CONTRIBUTING.md") + read(".github/PULL_REQUEST_TEMPLATE.md")
    paths = re.findall(r"`((?:src|docs|tests|\.ci)/[\w./*-]*)`", text)
    assert len(paths) > 3
    for path in paths:
        assert list(ROOT.glob(path)), path


def test_source_distributions_contain_all_of_the_repository():
    """A stray file in the root would be missing in them, and is an error."""
    if not (ROOT / ".git").exists():
        pytest.skip("the tests do not run in a clone of the repository")
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    entries = {path.partition("/")[0] for path in listed.splitlines()}
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    patterns = [path.removeprefix("/") for path in included]
    always = {".gitattributes", ".gitignore", "LICENSE", "pyproject.toml"}
    others = {
        entry
        for entry in entries - always
        if not any(fnmatch.fnmatch(entry, pattern) for pattern in patterns)
    }
    assert others == set()


def public_modules():
    """Return the modules that need a label: those of `weft`, its engines and integrations."""
    source = ROOT / "src" / "weft"
    nested = ("engines", "integrations")
    for folder in (source, *(source / name for name in nested)):
        for path in folder.iterdir():
            name = path.relative_to(source).with_suffix("").as_posix().replace("/", ".")
            is_module = path.suffix == ".py" or (path / "__init__.py").exists()
            if is_module and not path.name.startswith("_") and name not in nested:
                yield name


def test_every_public_name_has_a_stability_label():
    assert weft._STABILITY.keys() == {*weft.__all__, *public_modules()}
    assert set(weft._STABILITY.values()) == {"stable", "provisional", "internal"}
    assert not [name for name in weft.__all__ if weft._STABILITY[name] == "internal"]


@pytest.mark.parametrize("label", ["stable", "provisional", "internal"])
def test_the_stability_page_lists_the_labels(label):
    text = read("docs/develop/stability.md")
    section = re.search(rf"^### {label.capitalize()}\n\n(.+?)\n\n", text, re.M | re.S)[1]
    names = re.findall(r"`weft\.([\w.]+)`", section)
    assert names == sorted(name for name in weft._STABILITY if weft._STABILITY[name] == label)


def test_the_stability_page_names_the_supported_versions():
    text = read("docs/develop/stability.md")
    assert f"| Python | {', '.join(declared_pythons())} |" in text
    (torch,) = (name for name in PROJECT["dependencies"] if name.startswith("torch>="))
    assert f"| torch | {torch.removeprefix('torch>=')} or later |" in text


def changelog_versions():
    """Return the text of each version in the changelog, the newest first."""
    parts = re.split(r"^## \[(.+?)\]", read("CHANGELOG.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def test_the_changelog_keeps_its_form():
    versions = changelog_versions()
    assert next(iter(versions)) in ("Unreleased", PROJECT["version"])
    known = ["Added", "Changed", "Changed numbers", "Deprecated", "Removed", "Fixed"]
    for version, text in versions.items():
        sections = re.findall(r"^### (.+)$", text, re.M)
        assert sections == [name for name in known if name in sections], version
        assert sections, version


def test_changed_numbers_have_values_before_and_after():
    for text in changelog_versions().values():
        for section in re.findall(r"^### Changed numbers\n(.+?)^###", text, re.M | re.S):
            rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
            assert rows[0] == ["| what", "example", "before", "after |"]
            assert all(len(row) == 4 and all(map(str.strip, row)) for row in rows)


def test_pages_that_the_changelog_names_exist():
    paths = set(re.findall(r"docs/[\w./-]+\.md", changelog_versions()["Unreleased"]))
    assert len(paths) > 20
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]
