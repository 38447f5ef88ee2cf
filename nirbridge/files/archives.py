"""Members of archives of arrays (``.npz``), as numpy writes them."""

from __future__ import annotations

import zipfile
from typing import IO

_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """A member, opened to be read.

    numpy stores members as they are or deflated. Other packings are not unpacked: an LZMA header alone may request
    4 GiB of memory, before any limit on the content applies.

    Raises:
        ValueError: another packing.
    """
    if member.compress_type not in _PACKINGS:
        raise ValueError("a member is neither stored nor deflated")
    return archive.open(member)
