"""A worker extension for vLLM: a reload that leaves no old tensor behind.

The server's worker process imports this file (`--worker-extension-cls troupe_worker.TroupeWorker`, with this folder on
PYTHONPATH), so it imports nothing else of the repository.
"""

from typing import Any

_HEADS = ("VocabParallelEmbedding", "ParallelLMHead")


class TroupeWorker:
    """Methods that vLLM adds to its worker, for /collective_rpc."""

    def troupe_reload(self: Any, folder: str) -> dict[str, int]:
        """Load the weights of the model folder `folder` in place."""
        self.reload_weights(weights_path=folder)
        return {"num_repaired_heads": self.troupe_repair_heads()}

    def troupe_repair_heads(self: Any) -> int:
        """Repack tied output heads on the CPU, where `reload_weights` keeps the packed copy of the old ones."""
        from vllm.platforms import current_platform

        if not current_platform.is_cpu():
            return 0
        from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

        heads = [module for module in self.model_runner.get_model().modules() if type(module).__name__ in _HEADS]
        packed = [head for head in heads if getattr(head, "cpu_linear", None) is not None]
        for head in packed:
            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
        return len(packed)
