"""What several environments share: where rows come from, how problems are divided, texts and pictures."""
