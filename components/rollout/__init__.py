"""The AT-GRPO tree sampler, its router and its journal of finished blocks."""
