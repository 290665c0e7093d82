"""Multi-agent environments: games now, other domains beside them. One file an environment; `registry` names them."""
