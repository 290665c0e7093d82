"""Grid and number puzzles in which a tool agent proposes, a simulator reports and a plan agent decides."""
