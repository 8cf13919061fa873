"""The reference server with the fault that A12 is about: ids reach an event as the array they are kept in."""

import sys

from frostline.demo import events

events.to_json = lambda tokens: tokens

if __name__ == "__main__":
    from frostline.demo.__main__ import main

    sys.exit(main())
