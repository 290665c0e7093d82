"""Populations: credits, matches, weights that are coordinated."""
