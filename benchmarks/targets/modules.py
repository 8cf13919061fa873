"""Prints the modules that are loaded when a program begins, and nothing else."""

import sys

print(" ".join(sorted(sys.modules)))
