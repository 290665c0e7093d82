"""Engines that turn prompt tokens into completions."""
