"""Policies: what is done about the collector, parsed in one place. Runs in the target."""
