"""The trainer, and the managers of language models."""
