# SPDX-License-Identifier: MIT
"""Modules of this build are loaded, modules of another build are refused."""
import os
import re
import shutil
import subprocess
import unittest

import harness

ROOT = os.environ["OUTRIDER_SOURCE"]


class OtherBuild(harness.OutriderTest):
    def refuse(self, source):
        """The program finds a module `sqlite` made of this C source."""
        directory = self.path("modules")
        os.makedirs(directory, exist_ok=True)
        with open(self.path("module.c"), "w", encoding="utf-8") as f:
            f.write(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", os.path.join(directory, "sqlite.so"), self.path("module.c")], check=True)
        return self.run_outrider("status", "--db", "sqlite:shop.db", env={"OUTRIDER_MODULE_PATH": directory}, code=2).err

    def test_a_module_with_another_hash_is_refused_in_one_sentence(self):
        self.assertRegex(self.refuse('const char outrider_module_abi[] = "0123456789abcdef"; const long outrider_module[64];'),
                         "sqlite.so is a module of another build of outrider; install the program and its modules from the same")

    def test_a_module_from_before_there_was_a_hash_is_refused(self):
        self.assertRegex(self.refuse("const unsigned outrider_module[64] = {5};"), "is a module of another build of outrider")

    def test_any_other_library_is_refused(self):
        self.assertRegex(self.refuse("int something;"), "is not an outrider module")


class Kept(unittest.TestCase):
    def test_the_kafka_module_is_never_unloaded_for_a_thread_may_run_in_it(self):
        module = os.path.join(os.environ["OUTRIDER_BUILD"], "modules", "kafka.so")
        self.assertIn("NODELETE", subprocess.run(["readelf", "-d", module], check=True, capture_output=True, text=True).stdout)


class Hash(harness.OutriderTest):
    def hash_of(self, tree):
        build = self.path("build")
        subprocess.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja"], check=True, capture_output=True)
        with open(os.path.join(build, "src/core/module_abi.h"), encoding="utf-8") as f:
            return re.search('"([0-9a-f]{16})"', f.read()).group(1)

    def test_a_change_of_any_seam_header_changes_the_hash_and_nothing_else_does(self):
        tree = self.path("tree")
        for part in ("CMakeLists.txt", "cmake", "src", "include", "examples", "bench", "packaging"):
            copy = shutil.copytree if os.path.isdir(os.path.join(ROOT, part)) else shutil.copy
            os.makedirs(tree, exist_ok=True)
            copy(os.path.join(ROOT, part), os.path.join(tree, part))
        before = self.hash_of(tree)
        with open(os.path.join(tree, "src/core/relay.c"), "a", encoding="utf-8") as f:
            f.write("/* no seam */\n")
        self.assertEqual(self.hash_of(tree), before)
        with open(os.path.join(tree, "src/core/sink.h"), "a", encoding="utf-8") as f:
            f.write("/* a seam */\n")
        self.assertNotEqual(self.hash_of(tree), before)


if __name__ == "__main__":
    unittest.main()
