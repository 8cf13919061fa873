"""The part that is loaded into a target on demand: it answers requests."""
