"""Experiments: load, arms in blocks, what they show."""
