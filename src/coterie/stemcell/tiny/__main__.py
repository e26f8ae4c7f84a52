"""python -m coterie.stemcell.tiny OUT"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from coterie.errors import CoterieError
from coterie.stemcell.tiny.build import build, build_stemcell


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coterie.stemcell.tiny", description="Build the tiny stemcell.")
    parser.add_argument("out", type=Path, help="the stemcell that is written, such as tiny.tgz")
    parser.add_argument("--busybox", type=Path, default=Path("/bin/busybox"), help="a static busybox (/bin/busybox)")
    parser.add_argument("--architecture", default=platform.machine(), help="of that busybox (this machine's)")
    parser.add_argument("--image", action="store_true", help="only the image, as `incus image import` takes it")
    parser.add_argument("--kernel", type=Path, metavar="DEB", help="for virtual machines: Debian's cloud kernel")
    words = parser.parse_args()
    try:
        (build if words.image else build_stemcell)(words.out, words.busybox, words.architecture, words.kernel)
    except CoterieError as error:
        sys.exit(f"{error}; {error.remedy}")
    print(f"{words.out}: {words.out.stat().st_size // 1024} KiB")


main()
