"""A batch of users, its top k at some cut-offs, and the public metric blocks."""
