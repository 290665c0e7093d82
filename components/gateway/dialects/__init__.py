"""The wire formats of agents, read into the inner form and written from it."""
