"""Weft inside other frameworks, each an extra: `weft.integrations.lightning`."""
