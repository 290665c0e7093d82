"""Models behind an API as an engine that only generates."""
