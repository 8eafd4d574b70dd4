"""The wheel contains what it should, and works alone: with and without a C++ compiler."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(*command, folder, **environment):
    """Run a program that sees nothing of this folder; it must succeed."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=variables | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module", params=["native", "pure"])
def wheel(request, tmp_path_factory):
    """Return a wheel that is built with the native loops or without a compiler."""
    folder = tmp_path_factory.mktemp(request.param)
    environment = {"WEFT_WITHOUT_NATIVE": "0"}
    if request.param == "native":
        if shutil.which("c++") is None:
            pytest.skip("needs a C++ compiler")
    else:
        environment |= {"PATH": str(folder), "CXX": ""}
    build = ("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    output = run(sys.executable, *build, folder=ROOT, **environment)
    assert ("no C++ compiler" in output) == (request.param == "pure")
    (path,) = folder.glob("*.whl")
    return path


def is_native(wheel):
    return wheel.parent.name.startswith("native")


def test_contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"weft-{weft.__version__}.dist-info"
        tags = Parser().parsestr(archive.read(f"{info}/WHEEL").decode())
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert tags.get_all("Tag") == [f"py3-none-{platform if is_native(wheel) else 'any'}"]
    assert tags["Root-Is-Purelib"] == ("false" if is_native(wheel) else "true")
    assert wheel.name == f"weft-{weft.__version__}-{tags['Tag']}.whl"
    assert metadata["Version"] == weft.__version__
    assert metadata["Requires-Python"] == ">=3.11"

    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "weft").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != "_native.so"
    }
    packaged = {name for name in names if name.startswith("weft/")}
    assert {"weft/py.typed", "weft/cli/demo/demo_data.py"} <= files
    assert {f"weft/report/html/assets/page.{kind}" for kind in ("css", "js")} <= files
    assert packaged - {"weft/_native/_native.so"} == files
    assert ("weft/_native/_native.so" in names) == is_native(wheel)
    assert {name.split("/")[0] for name in names} == {"weft", info}
    assert {f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"} <= names


def test_the_demo_runs_from_the_wheel_alone(wheel, tmp_path):
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    install = ("-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index")
    run(sys.executable, *install, str(wheel), folder=tmp_path)
    # The dependencies of this environment, behind the folder into which the wheel was installed.
    (packages,) = home.glob("lib/python*/site-packages")
    folders = [folder for folder in sys.path if Path(folder).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(folders) + "\n")

    script = "import weft, weft._native as n; print(weft.__file__, weft.__version__, n.is_built())"
    expected = f"{packages / 'weft' / '__init__.py'} {weft.__version__} {is_native(wheel)}"
    assert run(str(python), "-c", script, folder=tmp_path).strip() == expected
    output = run(str(home / "bin" / "weft"), "demo", "--out", "demo", folder=tmp_path)
    assert "nDCG@10" in output
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
    assert (tmp_path / "demo" / "train.csv").exists()
