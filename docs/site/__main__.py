"""``make docs``: copies the pages, makes those that come from code and data, and builds the site in ``build/site``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import chip_pages  # noqa: E402  (siblings, found by the line above)
import command_pages  # noqa: E402
import name_pages  # noqa: E402
import pages  # noqa: E402
import sections  # noqa: E402

from nirbridge.viewer.page import write_viewer  # noqa: E402

SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"


def main() -> int:
    """Sphinx's exit code; warnings are errors."""
    from sphinx.cmd.build import build_main

    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    pages.copy_pages(ROOT, SOURCE)
    chip_pages.write(SOURCE / "chips")
    command_pages.write(SOURCE / "commands")
    name_pages.write(SOURCE / "api")
    sections.write(SOURCE, ROOT / "docs")
    for item in ("conf.py", "index.md", "static"):
        copy = shutil.copytree if (HERE / item).is_dir() else shutil.copy
        copy(HERE / item, SOURCE / item)
    shutil.copytree(HERE / "ipython", SOURCE / "files" / "ipython")
    os.environ |= {"IPYTHONDIR": str(SOURCE / "files" / "ipython"), "PYTHONWARNINGS": "ignore"}
    jobs = str(min(4, os.cpu_count() or 1))
    code = build_main(["-W", "--keep-going", "-q", "-j", jobs, "-b", "html", str(SOURCE), str(SITE)])
    write_viewer(SITE / "view.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
