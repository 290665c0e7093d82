"""Word and contest problems: a tool agent's program runs in the sandbox, a reasoner gives the team's answer."""
