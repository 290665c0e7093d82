"""Agent, strategies, history, environment, goals and errors, a module each."""
