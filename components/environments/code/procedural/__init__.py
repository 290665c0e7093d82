"""Programming problems made here, from small parametrised functions."""
