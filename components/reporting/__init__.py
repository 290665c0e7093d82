"""What a person sees of work that goes on, and of its values."""
