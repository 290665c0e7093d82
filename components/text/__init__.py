"""Text and tokens, read and written with care."""
