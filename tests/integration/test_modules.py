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


class Tree(harness.OutriderTest):
    """A copy of the source, configured."""

    def setUp(self):
        super().setUp()
        self.tree, self.build = self.path("tree"), self.path("build")
        os.makedirs(self.tree, exist_ok=True)
        for part in ("CMakeLists.txt", "cmake", "src", "include", "examples", "bench", "packaging"):
            copy = shutil.copytree if os.path.isdir(os.path.join(ROOT, part)) else shutil.copy
            copy(os.path.join(ROOT, part), os.path.join(self.tree, part))

    def configure(self, *args):
        subprocess.run(["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", *args], check=True, capture_output=True)

    def made(self, name):
        with open(os.path.join(self.build, name), encoding="utf-8") as f:
            return f.read()


class Registry(Tree):
    def test_a_directory_is_all_that_a_new_adapter_needs(self):
        home = self.path("tree/src/sink/pigeon")
        os.makedirs(home)
        for name in ("adapter.c", "null.c"):
            with open(os.path.join(self.tree, "src/sink/null", name), encoding="utf-8") as f:
                text = f.read()
            with open(os.path.join(home, name), "w", encoding="utf-8") as f:
                f.write(re.sub(r"null(?=[\":)]| =)", "pigeon", text))
        with open(os.path.join(home, "CMakeLists.txt"), "w", encoding="utf-8") as f:
            f.write("outrider_builtin_sink(pigeon)\n")
        self.configure()
        self.assertIn("{&outrider__adapter_pigeon, true}", self.made("adapters/registry.c"))
        self.assertIn("&outrider__sink_pigeon,", self.made("adapters/builtin.c"))

    def test_an_adapter_whose_library_is_missing_is_known_and_not_built(self):
        blind = self.path("pkg-config", '#!/bin/sh\ncase "$*" in *rdkafka*) exit 1 ;; esac\nexec pkg-config "$@"\n')
        os.chmod(blind, 0o755)
        self.configure("-DPKG_CONFIG_EXECUTABLE=" + blind)
        self.assertIn("{&outrider__adapter_kafka, false}", self.made("adapters/registry.c"))
        self.assertIn("{&outrider__adapter_sqlite, true}", self.made("adapters/registry.c"))


class Hash(Tree):
    def hash_of(self):
        self.configure()
        return re.search('"([0-9a-f]{16})"', self.made("src/core/module_abi.h")).group(1)

    def test_a_change_of_any_seam_header_changes_the_hash_and_nothing_else_does(self):
        tree = self.tree
        before = self.hash_of()
        with open(os.path.join(tree, "src/core/relay.c"), "a", encoding="utf-8") as f:
            f.write("/* no seam */\n")
        self.assertEqual(self.hash_of(), before)
        with open(os.path.join(tree, "src/core/sink.h"), "a", encoding="utf-8") as f:
            f.write("/* a seam */\n")
        self.assertNotEqual(self.hash_of(), before)


if __name__ == "__main__":
    unittest.main()
