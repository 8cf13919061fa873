"""The version, alone in a file so that packaging and the target read the same one."""

__version__ = "0.1.0"
