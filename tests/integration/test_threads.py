# SPDX-License-Identifier: MIT
"""Whatever has threads of its own inside an application, under ThreadSanitizer."""
import unittest

import variants

TESTS = ("server_app_relay", "server_postgres_hybrid", "server_sqlite_watcher", "contract_sink_file", "contract_file_faults")


class Threads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = variants.build("tsan", TESTS)

    def test_nothing_is_shared_without_a_lock(self):
        for name in TESTS:
            with self.subTest(name):
                out = variants.run([self.programs / name], TSAN_OPTIONS="halt_on_error=1 exitcode=66")
                self.assertIn("PASSED", out)
                self.assertNotIn("ThreadSanitizer", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
