"""Results and comparisons as people read them."""
