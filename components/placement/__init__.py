"""Where workers run: `plan` gives each engine and each rank of a trainer its host and its devices."""
