# SPDX-License-Identifier: MIT
"""Every shell block of the README and the guides runs, in order, as it stands."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from pgserver import Server, clean_environment

ROOT = pathlib.Path(os.environ["OUTRIDER_SOURCE"])
BUILD = pathlib.Path(os.environ["OUTRIDER_BUILD"])
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


REFERENCE = ROOT / "docs/reference/commands.md"
# What the examples of the reference take for granted.
SETTING = """
outrider init --db sqlite:shop.db
outrider put --db sqlite:shop.db --aggregate-type order --aggregate-id 1 --type OrderCreated --payload '{}'
outrider relay --from sqlite:shop.db --to file:events --name orders --once
echo '{"aggregate_type":"a","aggregate_id":"1","event_type":"T","payload":{}}' > events.jsonl
printf 'pipelines:\n- source: {url: "sqlite:shop.db"}\n  sink: {url: "null:"}\n' > outrider.yaml
cp "$OUTRIDER_SEEDS/002_connector.json" connector.json
"""


def pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page != REFERENCE]


def is_endless(line):
    return line.endswith(" -f") or (line.startswith("outrider relay") and "--once" not in line)


def is_about_postgres(page):
    return page.name.startswith("postgres")


class Docs(unittest.TestCase):
    def run_script(self, script, what, **environment):
        # timeout(1) signals twice, and LeakSanitizer can hang on a signal while it looks for leaks.
        env = clean_environment(PATH=f"{BUILD}:{os.environ['PATH']}", NO_COLOR="1", ASAN_OPTIONS="detect_leaks=0",
                                OUTRIDER_SEEDS=str(ROOT / "tests/support/seeds"))
        env.update(environment)
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + script], cwd=directory,
                                  env=env, timeout=120, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{what}:\n{done.stdout}\n{done.stderr}")

    def test_every_example_of_the_reference_runs(self):
        lines = [line for block in BLOCK.findall(REFERENCE.read_text())
                 for line in block.replace("\\\n", " ").splitlines() if line.strip()]
        self.assertGreater(len(lines), 10)
        for line in lines:
            if "postgresql://" in line:
                continue  # needs a server; tests/integration/test_postgres_* run those commands
            if is_endless(line):
                # Runs until it is told to stop; having to be told is what must not fail.
                line = f"rc=0; timeout -s TERM 2 {line} || rc=$?; test $rc -eq 124"
            with self.subTest(line=line):
                self.run_script(SETTING + line, line)

    def test_every_proof_of_a_promise_exists(self):
        rows = [line.split("|")[-2] for line in (ROOT / "docs/reliability.md").read_text().splitlines()
                if line.startswith("| ") and "`" in line]
        self.assertGreater(len(rows), 30)
        for row in rows:
            source = None
            for file, name in re.findall(r"`([a-z]+/[a-z0-9_]+\.(?:py|c))`|`([a-z0-9_]+)`", row):
                if file:
                    source = (ROOT / "tests" / file).read_text()
                else:
                    self.assertTrue(re.search(r"(def|static void) %s\(" % name, source), name)
            self.assertIsNotNone(source, row)

    def run_page(self, page, script):
        if not is_about_postgres(page):
            self.run_script(script, page)
            return
        # Its URLs name no host and no user: libpq takes both from the environment.
        with Server() as server:
            self.run_script(script, page, PGHOST=server.root, PGPORT=str(server.port), PGUSER=server.user)

    def test_every_command_in_the_documents_runs(self):
        total = 0
        for page in pages():
            with self.subTest(page=str(page.relative_to(ROOT))):
                blocks = BLOCK.findall(page.read_text())
                self.run_page(page, "\n".join(blocks))
                total += len(blocks)
        self.assertGreater(total, 10)

    def test_every_link_between_the_documents_leads_somewhere(self):
        for page in [*pages(), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
            for target in LINK.findall(page.read_text()):
                if "://" in target:
                    continue
                with self.subTest(page=page.name, target=target):
                    self.assertTrue((page.parent / target).exists())


if __name__ == "__main__":
    unittest.main()
