"""Programs that agents wrote, run where they can do no harm."""
