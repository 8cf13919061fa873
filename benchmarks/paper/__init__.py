"""Tables of the three documents that Frostline starts from, made again in shape: one command each.

``docs/results.md`` has what was seen. A row is a module with ``main(arguments) -> int``.
"""
