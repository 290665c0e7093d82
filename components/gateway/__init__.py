"""An endpoint through which programs of other people play as agents, unchanged."""
