# SPDX-License-Identifier: MIT
"""Help, and the pages that are made from the tables of commands and options."""
import os
import shutil
import subprocess

import harness

COMMANDS = ["init", "put", "relay", "status", "dead", "tail", "replay", "cleanup", "resync",
            "doctor", "check", "version", "help"]
PAGES = {
    "man": "packaging/man/outrider.1",
    "completion": "packaging/completion/outrider.bash",
    "commands": "docs/reference/commands.md",
    "options": "docs/reference/options.md",
    "sample": "outrider.sample.yaml",
}


class Help(harness.OutriderTest):
    def test_every_command_explains_itself_in_two_ways(self):
        for name in COMMANDS:
            with self.subTest(name):
                r = self.run_outrider(name, "--help")
                self.assertTrue(r.out.startswith("usage: outrider %s " % name), r.out[:80])
                self.assertIn("--help", r.out)
                self.assertIn("Examples", r.out)
                self.assertEqual(r.err, "")
                self.assertEqual(self.run_outrider("help", name).out, r.out)
                self.assertEqual(self.run_outrider(name, "-h").out, r.out)

    def test_help_helps_also_on_a_line_that_is_wrong(self):
        self.run_outrider("relay", "--no-such-flag", "--help")

    def test_the_overview_lists_every_command(self):
        out = self.run_outrider("help").out
        for name in COMMANDS:
            self.assertIn("\n  %s " % name, out)
        self.assertEqual(self.run_outrider().out, out)
        self.assertEqual(self.run_outrider("--help").out, out)

    def test_relay_help_holds_the_option_table(self):
        out = self.run_outrider("relay", "--help").out
        for option in ("retry.max_attempts", "source.poll_interval", "cleanup.retention"):
            self.assertIn(option, out)

    def test_a_misspelt_command_or_flag_is_answered_with_the_nearest(self):
        r = self.run_outrider("stauts", code=2)
        self.assertIn("did you mean 'status'?", r.err)
        self.assertEqual(r.out, "")
        r = self.run_outrider("relay", "--form", "sqlite:x", code=2)
        self.assertIn("did you mean --from?", r.err)
        self.run_outrider("zzzzzzzzzz", code=2)
        self.run_outrider("help", "zzzzzzzzzz", code=2)

    def test_an_error_is_one_line_that_begins_with_the_program(self):
        for args in (("nope",), ("relay", "--x"), ("status", "--db", "nope:"),
                     ("status", "--db", "sqlite:none.db"), ("dead", "--db", "sqlite:x")):
            with self.subTest(args):
                r = self.run_outrider(*args, code=None)
                self.assertNotEqual(r.code, 0)
                self.assertTrue(r.err.startswith("outrider: "), r.err)
                self.assertEqual(r.err.count("\n"), 1, r.err)


class Pages(harness.OutriderTest):
    def test_the_committed_pages_are_what_the_program_renders(self):
        for page, path in PAGES.items():
            with self.subTest(page):
                with open(os.path.join(harness.SOURCE, path), encoding="utf-8") as f:
                    committed = f.read()
                rendered = self.run_outrider("help", "--render", page).out
                self.assertEqual(rendered, committed, "run scripts/generate")

    def test_the_sample_file_is_valid(self):
        sample = os.path.join(harness.SOURCE, PAGES["sample"])
        self.run_outrider("check", "-c", sample)

    def test_the_man_page_formats_without_a_warning(self):
        if not shutil.which("groff"):
            self.skipTest("no groff here")
        page = os.path.join(harness.SOURCE, PAGES["man"])
        p = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stderr), (0, b""))

    def complete(self, *words):
        """What bash offers for the last word."""
        script = ('. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _outrider; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        p = subprocess.run(["bash", "-c", script,
                            os.path.join(harness.SOURCE, PAGES["completion"]), *words],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stderr), (0, b""))
        return p.stdout.decode().split()

    def test_completion_offers_commands_flags_values_and_options(self):
        self.assertEqual(self.complete("outrider", "re"), ["relay", "replay", "resync"])
        self.assertEqual(self.complete("outrider", "relay", "--on"), ["--once"])
        self.assertEqual(self.complete("outrider", "relay", "--mode", "c"), ["cdc"])
        self.assertEqual(self.complete("outrider", "dead", "r"), ["retry"])
        self.assertIn("retry.max_attempts=",
                      self.complete("outrider", "relay", "--set", "retry.m"))
        self.assertNotIn("--once", self.complete("outrider", "status", "--"))


if __name__ == "__main__":
    harness.main()
