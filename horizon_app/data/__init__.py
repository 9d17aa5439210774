"""From the files that people bring to batches of tokens, labels and positions. Knows nothing of the engine."""
