# SPDX-License-Identifier: MIT
"""The client library under Valgrind, which sees uninitialised bytes where the
sanitizers of the other tests do not: its tests are built without those."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["OUTRIDER_SOURCE"])
TESTS = ("sqlite_writer", "sqlite_inbox", "sqlite_client")


def run(*command, **kw):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kw)
    if p.returncode != 0:
        raise AssertionError(f"{command}: {p.returncode}\n{p.stdout[-2000:]}\n{p.stderr[-6000:]}")
    return p.stdout


class Valgrind(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("valgrind") is None:
            print("\n*** NO VALGRIND: the client library is not run under it ***\n", file=sys.stderr, flush=True)
            raise unittest.SkipTest("no valgrind")
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.build = pathlib.Path(holder.name)
        run("cmake", "-S", SOURCE, "-B", cls.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DOUTRIDER_BENCH=OFF")
        run("cmake", "--build", cls.build, "--target", "outrider_library_sqlite_static")

    def test_no_byte_is_read_before_it_is_written_and_none_leaks(self):
        archive = next(self.build.rglob("liboutrider-sqlite.a"))
        support = [SOURCE / "tests/support" / f"{name}.c" for name in ("writer_cases", "inbox_cases", "sqlite_fixture")]
        rooms = self.build / "rooms/outrider_base"
        libraries = run("pkg-config", "--cflags", "--libs", "cmocka", "sqlite3").split()
        for name in TESTS:
            with self.subTest(name):
                program = self.build / name
                run("cc", "-g", "-D_GNU_SOURCE", f"-I{SOURCE}/include", f"-I{SOURCE}/tests", f"-I{rooms}", "-o", program,
                    SOURCE / f"tests/unit/test_{name}.c", *support, archive, *libraries)
                run("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", program)


if __name__ == "__main__":
    unittest.main()
