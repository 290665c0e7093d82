"""Where metrics and checkpoints are shown to people."""
