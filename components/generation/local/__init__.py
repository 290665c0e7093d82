"""The engine in this process: continuous batching over any Hugging Face causal language model."""
