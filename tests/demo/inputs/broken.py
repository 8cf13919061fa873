"""The reference server with the broken twin in the place of its decode process. Same arguments.

multiprocessing runs this file again in every child (as ``__mp_main__``), before the child's own entry point.
"""

import sys

import twin

from frostline.demo import disaggregated

disaggregated.decode = twin.decode

if __name__ == "__main__":
    from frostline.demo.__main__ import main

    sys.exit(main())
