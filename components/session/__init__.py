"""A run's open resources, passed to every stage and never found."""
