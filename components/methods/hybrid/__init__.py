"""Hybrid players: games, the learner, decisions."""
