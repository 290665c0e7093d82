"""An engine over models behind an API, which only generates."""
