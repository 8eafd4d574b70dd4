"""One evaluation: settings, the pass over batches of users, its state and its result."""
