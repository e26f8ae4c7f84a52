"""`python -m coterie.director --local FOLDER [--parent]`: how the command line starts the local Director."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from coterie.director.process.local_director import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m coterie.director")
    parser.add_argument("--local", type=Path, required=True, metavar="FOLDER", help="state folder to serve")
    parser.add_argument("--parent", action="store_true", help="end when standard input is closed")
    arguments = parser.parse_args()
    return run(arguments.local.absolute(), parent=arguments.parent)


if __name__ == "__main__":
    sys.exit(main())
