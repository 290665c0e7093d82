"""Held-out play and its statistics."""
