"""Tests of the reference server and of `frostline demo`."""
