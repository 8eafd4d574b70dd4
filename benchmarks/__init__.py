"""What an evaluation costs, measured: `python -m benchmarks`. README.md tells how to read it."""
