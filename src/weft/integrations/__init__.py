"""Integrations with other frameworks, each an extra: `weft.integrations.lightning`."""
