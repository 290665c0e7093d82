"""An engine over vLLM servers."""
