# SPDX-License-Identifier: MIT
"""The reference pages of the public headers are those that the headers make."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["OUTRIDER_SOURCE"])
PAGES = SOURCE / "docs" / "reference" / "api"
HEADERS = SOURCE / "include" / "outrider"


class HeaderPages(unittest.TestCase):
    def test_the_pages_are_up_to_date(self):
        with tempfile.TemporaryDirectory() as made:
            subprocess.run([SOURCE / "scripts" / "header-pages", made], check=True)
            fresh = {p.name: p.read_text() for p in pathlib.Path(made).iterdir()}
        kept = {p.name: p.read_text() for p in PAGES.iterdir()}
        self.assertEqual(kept, fresh, "run scripts/header-pages")

    def test_every_call_has_words_of_its_own(self):
        """A call without a comment above it, or above its neighbours, has no section's text."""
        for header in sorted(HEADERS.glob("*.h")):
            page = (PAGES / f"{header.stem}.md").read_text()
            for section in re.split(r"^## ", page, flags=re.M)[1:]:
                name, _, body = section.partition("\n")
                if re.search(r"^[^#/ ].*\boutrider_\w+\(", body, re.M):
                    self.assertRegex(body.split("```c")[0].strip(), r"\w", f"{header.name}: {name}")


if __name__ == "__main__":
    unittest.main()
