"""The in-process engine: continuous batching over any Hugging Face causal language model."""
