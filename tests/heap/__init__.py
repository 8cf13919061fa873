"""What looks into the heap."""
