"""Examples in docstrings do not see the names of other docstrings."""

import pytest

pytest_plugins = ["pytester"]

MODULE = '''
"""A module.

>>> first = 1
"""

def double(value):
    """Return twice the value.

    >>> double(2)
    4
    >>> first
    1
    """
    return 2 * value
'''


@pytest.mark.slow
def test_docstrings_have_separate_namespaces(pytester, request, monkeypatch):
    conftest = (request.config.rootpath / "conftest.py").read_text()
    pytester.makeconftest(conftest)
    package = pytester.mkdir("src") / "package"
    package.mkdir()
    (package / "example.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(package))
    outcome = pytester.runpytest_subprocess("-p", "no:doctest", "-p", "no:cacheprovider", "src")
    outcome.assert_outcomes(passed=2, failed=1)
    outcome.stdout.fnmatch_lines(["*NameError: name 'first' is not defined*"])
