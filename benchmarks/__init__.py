"""What Frostline must reach, measured: ``python -m benchmarks [row ...]``."""
