"""`python -m port`, for where another program owns the name `port` (MacPorts)."""

import sys

from port.cli import main

if __name__ == "__main__":
    sys.exit(main())
