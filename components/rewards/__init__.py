"""Rewards as pure functions of recorded outcomes."""
