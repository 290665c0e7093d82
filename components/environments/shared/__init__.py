"""Shared by several environments: dataset rows, splits, texts and pictures."""
