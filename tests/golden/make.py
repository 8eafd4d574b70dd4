"""Make the golden input and the golden values.

    python make.py input           write the input files (needs Weft)
    python make.py <tool> ...      write values/<tool>.json (needs the tool, not Weft)

Each section imports its tool only when it runs and reads nothing but the input files. The tools do
not fit into one environment; these groups do (Python 3.11, the versions that pip chooses):

    pip install numpy pytrec_eval-terrier ir_measures ranx cwl-eval pyndeval
    pip install numpy scikit-learn torch torchmetrics torcheval torch_geometric
    pip install numpy pandas <tool>     where <tool> is one of rectools, recbole (with torch),
                                        replay-rec, lenskit, recommenders, cornac, implicit,
                                        recpack, evidently (with pandas below 3)

WarpRec needs Python 3.12 and many packages; for its metrics these are enough:

    pip install torch torchmetrics scipy pandas narwhals polars pyyaml pydantic joblib loguru \\
        tabulate tqdm lightning coolname scikit-learn optuna "ray[tune]"
    pip install --no-deps warprec

Each file of values records the versions of the tool, of Python and of NumPy. A section yields
`(case, call, value)`: README.md describes the cases; a call is the tool's own metric name with its
parameters; a value is a number, or a dictionary with a number per user.
"""

import json
import platform
import sys
import warnings
from importlib import import_module
from importlib.metadata import version

import numpy as np
from inputs import HERE, make_input

SECTIONS = {
    "tools_retrieval": ("pytrec_eval", "ir_measures", "ranx", "pyndeval"),
    "tools_learning": ("sklearn", "torchmetrics", "torcheval", "pyg"),
    "tools_recommendation": (
        *("rectools", "recbole", "replay", "lenskit", "recommenders", "cornac", "implicit"),
        *("recpack", "evidently"),
    ),
    "tools_warprec": ("warprec",),
}
PACKAGES = {
    "pytrec_eval": "pytrec-eval-terrier",
    "ir_measures": "ir-measures",
    "sklearn": "scikit-learn",
    "replay": "replay-rec",
    "rectools": "RecTools",
    "pyg": "torch_geometric",
}
FLOAT32 = ("torchmetrics", "torcheval", "warprec", "pyg")  # stored with nine digits


def make_values(tool):
    """Write `values/<tool>.json`."""
    cases = {}
    module = next(name for name, tools in SECTIONS.items() if tool in tools)
    for case, call, value in getattr(import_module(module), f"make_{tool}")():
        kind = "users" if isinstance(value, dict) else "means"
        known = cases.setdefault(case, {}).setdefault(kind, {})
        assert call not in known, (case, call)
        known[call] = float(f"{value:.9g}") if tool in FLOAT32 else value
    values = {
        "tool": tool,
        "package": PACKAGES.get(tool, tool),
        "version": version(PACKAGES.get(tool, tool)),
        "precision": "float32" if tool in FLOAT32 else "float64",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    (HERE / "values").mkdir(exist_ok=True)
    (HERE / "values" / f"{tool}.json").write_text(_print(values, cases))
    print(tool, values["version"])


def _print(values, cases):
    """Return the JSON text of a file, with a line per call."""
    blocks = []
    for case, kinds in cases.items():
        for kind, known in kinds.items():
            lines = (
                f"{json.dumps(call)}: {json.dumps(value, allow_nan=False)}"
                for call, value in known.items()
            )
            blocks.append((case, f'"{kind}": {{\n' + ",\n".join(lines) + "\n}"))
    texts = (
        f"{json.dumps(case)}: {{" + ",\n".join(text for of, text in blocks if of == case) + "}"
        for case in cases
    )
    head = json.dumps(values, indent=0).removesuffix("\n}")
    return head + ',\n"cases": {\n' + ",\n".join(texts) + "\n}\n}\n"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:]:
        make_input() if part == "input" else make_values(part)
