"""The engine behind HTTP: one policy on any number of vLLM servers."""
