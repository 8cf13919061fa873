"""Switches off a server's own ``gc.freeze()``, for the arm *stock* of an experiment (PYTHONPATH)."""

import gc

gc.freeze = lambda: None
