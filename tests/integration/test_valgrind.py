# SPDX-License-Identifier: MIT
"""What applications link, under Valgrind, which sees uninitialised bytes where the
sanitizers of the other tests do not: its tests are built without those."""
import os
import shutil
import sys
import unittest

import variants

SOAK = os.environ.get("OUTRIDER_SOAK", "") not in ("", "0")
TESTS = ("server_sqlite_writer", "server_sqlite_inbox", "server_sqlite_client", "server_app_relay", "server_postgres_writer")
MORE = ("server_postgres_session", "server_postgres_inbox", "server_postgres_hybrid")


class Valgrind(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("valgrind") is None:
            print("\n*** NO VALGRIND: the libraries are not run under it ***\n", file=sys.stderr, flush=True)
            raise unittest.SkipTest("no valgrind")
        cls.tests = TESTS + (MORE if SOAK else ())
        cls.programs = variants.build("sim", cls.tests)

    def test_no_byte_is_read_before_it_is_written_and_none_leaks(self):
        for name in self.tests:
            with self.subTest(name):
                variants.run(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", self.programs / name])


if __name__ == "__main__":
    unittest.main(verbosity=2)
