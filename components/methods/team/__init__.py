"""Teams."""
