"""A tester and a coder solve a programming problem; hidden tests decide."""
