"""What a state of a game means."""

from components.hybrid.game_analysis import GameStateAnalysis as GameStateAnalysis
