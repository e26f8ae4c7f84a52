"""The tiny stemcell: a system container of one megabyte, or a virtual machine of 14, that shows from the inside what
its cloud gave it.

    python -m coterie.stemcell.tiny tiny.tgz && coterie stemcells upload tiny.tgz
    python -m coterie.stemcell.tiny tiny-vm.tgz --kernel linux-image-VERSION-cloud-amd64.deb

It reads its settings, sets and announces its addresses, and answers `GET /health` and `GET /facts` on port 80. For
tests, demonstrations and first steps; it is no base for anything that shall be safe: all who reach it may read its
facts and write into its store (`GET /cgi-bin/write?NAME` or `?NAME=MIB`). Built in seconds and without root from a
static busybox and, for a virtual machine, Debian's cloud kernel.
"""
