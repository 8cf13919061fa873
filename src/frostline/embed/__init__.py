"""For maintainers who build Frostline into their server: flags, RPC, pause log, names, parents.

Runs in the target. Nothing here is loaded until the host calls for it, and none of it starts by
itself. ``docs/how-to/embed.md`` is its page.
"""
