"""``python -m cygrad.tools``: the command ``cygrad``."""

import sys

from cygrad.tools._cli import main

if __name__ == "__main__":
    sys.exit(main())
