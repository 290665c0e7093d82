"""Programming problems generated from small parametrised functions."""
