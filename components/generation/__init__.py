"""Engines that turn prompt tokens into completions, behind one protocol."""
