"""The layouts of datasets of programming problems, one per file."""
