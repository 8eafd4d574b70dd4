"""The embedded demo: a synthetic data set and three small recommenders to evaluate on it."""
