"""Batches into new checkpoints: packing, losses, the DeepSpeed worker and the warm start."""
