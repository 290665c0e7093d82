"""Games of several players: own ones with known equilibria, and any of OpenSpiel and PettingZoo, by name."""
