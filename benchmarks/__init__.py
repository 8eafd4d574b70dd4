"""Benchmarks as ratios: `python -m benchmarks`. docs/develop/benchmarks.md explains them."""

import os

# One thread, everywhere, so that CPU time is the time of the work: before NumPy and polars are
# imported, which make their threads then. Threads that wait by spinning would count as work.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(name, "1")
