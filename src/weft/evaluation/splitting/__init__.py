"""Splits of interactions into train, validation and test, and the manifests that record them."""
