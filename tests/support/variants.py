# SPDX-License-Identifier: MIT
"""C tests in another build than the one under test: with ThreadSanitizer, or
without any sanitizer, for Valgrind. The builds stay (build-tsan, build-sim), so
that only what has changed is compiled the next time."""
import os
import pathlib
import subprocess

import harness

SOURCE = pathlib.Path(harness.SOURCE).resolve()
# What the programs of the application's tests run beside themselves.
COMPANIONS = ("outrider", "outrider_module_sqlite", "outrider_module_postgres")


def build(preset, names):
    """The directory that holds the programs of these names."""
    run([SOURCE / "scripts/build", preset, *COMPANIONS, *names], timeout=600)
    return SOURCE / f"build-{preset}" / "tests"


def run(command, timeout=300, **env):
    """To its end, which must be a good one; all that it wrote."""
    p = subprocess.run([str(c) for c in command], env=dict(os.environ, **env), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=timeout)
    out = p.stdout.decode("utf-8", "replace")
    if p.returncode != 0:
        raise AssertionError(f"{command[0]}: exit {p.returncode}\n{out[-8000:]}")
    return out
