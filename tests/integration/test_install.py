# SPDX-License-Identifier: MIT
"""What `make install` leaves behind works: the program finds its adapters, and
applications build with pkg-config or CMake and the public headers alone."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from pgserver import Server

BUILD = pathlib.Path(os.environ["OUTRIDER_BUILD"])
SOURCE = pathlib.Path(os.environ["OUTRIDER_SOURCE"])
SANITIZE = "-fsanitize=address,undefined"
LIBRARIES = ("outrider", "outrider-sqlite", "outrider-postgres")

APPLICATION = r"""
#include <outrider/outrider.h>
#include <outrider/sqlite.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct outrider_error err;
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    struct outrider_writer *writer = NULL;
    sqlite3 *db;
    event.aggregate_type = "order";
    event.aggregate_id = "42";
    event.event_type = "OrderCreated";
    event.payload = "{}";
    event.payload_len = 2;
    if (argc != 2 || sqlite3_open(argv[1], &db) != SQLITE_OK)
        return 1;
    if (outrider_init_sqlite(db, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    if (outrider_enqueue_sqlite(db, &event, 0, NULL, &err) == 0)
        return 2; /* outside a transaction: must be refused */
    if (err.code != OUTRIDER_NO_TRANSACTION)
        return 3;
    if (outrider_writer_new_sqlite(db, 0, &writer, &err) < 0)
        return 4;
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    if (outrider_writer_put(writer, &event, 0, NULL, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    outrider_writer_free(writer);
    return sqlite3_close(db);
}
"""

PG_APPLICATION = r"""
#include <outrider/outrider.h>
#include <outrider/postgres.h>
#include <stdio.h>

int main(void)
{
    struct outrider_error err;
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    PGconn *conn = PQconnectdb("host=/nonexistent");
    event.aggregate_type = event.aggregate_id = event.event_type = event.payload = "1";
    event.payload_len = 1;
    if (outrider_enqueue_pg(conn, &event, 0, NULL, &err) == 0)
        return 1;
    PQfinish(conn);
    return puts(err.message) < 0;
}
"""

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(app C)
find_package(outrider 0.1 REQUIRED COMPONENTS sqlite postgres outrider)
foreach(kind sqlite sqlite_static)
    add_executable(app_${kind} app.c)
    target_link_libraries(app_${kind} outrider::${kind})
    target_link_options(app_${kind} PRIVATE -fsanitize=address,undefined)
endforeach()
foreach(kind outrider outrider_static)
    add_executable(embedded_${kind} embedded.c)
    target_link_libraries(embedded_${kind} outrider::${kind})
    target_link_options(embedded_${kind} PRIVATE -fsanitize=address,undefined)
endforeach()
if(NOT TARGET outrider::postgres OR NOT TARGET outrider::postgres_static)
    message(FATAL_ERROR "no outrider::postgres")
endif()
"""


def run(*command, **kw):
    p = subprocess.run(command, capture_output=True, text=True, **kw)
    if p.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {p.returncode}\n{p.stdout}\n{p.stderr}")
    return p.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.root = pathlib.Path(holder.name)
        cls.prefix = cls.root / "destination/usr"
        run("cmake", "--install", str(BUILD), "--prefix", "/usr",
            env=dict(os.environ, DESTDIR=str(cls.root / "destination")))
        pc = next(cls.prefix.rglob("outrider-sqlite.pc")).parent
        cls.lib = pc.parent
        cls.env = dict(os.environ, PKG_CONFIG_PATH=str(pc), LD_LIBRARY_PATH=str(cls.lib))
        cls.env.pop("OUTRIDER_MODULE_PATH", None)  # what is installed is found without it
        cls.static_env = dict(cls.env, OUTRIDER_MODULE_PATH=str(cls.lib / "outrider"))
        (cls.root / "app.c").write_text(APPLICATION)

    def flags(self, *arguments):
        return run("pkg-config", *arguments, env=self.env).split()

    def check_application(self, app):
        database = f"{app}.db"
        run(app, database, env=self.env)
        out = run(str(self.prefix / "bin/outrider"), "relay", "--from", f"sqlite:{database}",
                  "--to", "stdout:", "--once")
        self.assertIn('"topic":"order.OrderCreated"', out)

    def check_embedded(self, program, env):
        directory = pathlib.Path(f"{program}-shop")
        directory.mkdir()
        out = run(str(program), str(directory), "3", env=env)
        self.assertEqual(sorted(out.splitlines()), [f"delivered {n} -> order.OrderCreated" for n in (1, 2, 3)])

    def guide(self, *wanted):
        """The command of the guide that holds all of this, as a user types it."""
        text = (SOURCE / "docs/guides/library.md").read_text()
        lines = [line.strip() for line in text.splitlines() if line.startswith("    cc ")]
        return next(line for line in lines if all(w in line.split() + line.split("-") for w in wanted))

    def link(self, command, source, name, *flags):
        """Runs a command of the guide on another source."""
        app = str(self.root / name)
        words = re.sub(r"\bapp\.c\b", f"{source} -o {app}", command)
        run("sh", "-c", words.replace("cc ", f"cc {' '.join(flags)} ", 1), env=self.env)
        self.assertNotIn("liboutrider", run("readelf", "-d", app))
        return app

    def test_an_application_builds_against_it_and_its_event_is_relayed(self):
        flags = self.flags("--cflags", "--libs", "outrider-sqlite")
        for language in (["cc"], ["c++", "-x", "c++"]):
            app = str(self.root / ("app-" + language[0]))
            run(*language, SANITIZE, "-o", app, str(self.root / "app.c"), *flags)
            self.check_application(app)

    def test_the_static_library_is_enough(self):
        command = self.guide("outrider-postgres-static)")
        app = self.link(command.replace("postgres", "sqlite"), self.root / "app.c", "app-static", SANITIZE)
        self.check_application(app)
        embedded = self.link(command.replace("-postgres", ""), SOURCE / "examples/embedded/main.c", "embedded-static",
                             SANITIZE)
        self.check_embedded(embedded, self.static_env)
        (self.root / "pg.c").write_text(PG_APPLICATION)
        self.assertIn("connection", run(self.link(command, self.root / "pg.c", "pg-static", SANITIZE), env=self.env))

    def test_a_program_without_any_shared_library_builds_with_sqlite(self):
        # A sanitizer cannot be linked so: this library is made without one.
        build, prefix = self.root / "plain", self.root / "plain-prefix"
        run("cmake", "-S", str(SOURCE), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
            "-DOUTRIDER_BENCH=OFF", f"-DCMAKE_INSTALL_PREFIX={prefix}")
        run("cmake", "--build", str(build), "--target", "outrider_library_sqlite_static")
        for part in ("include/outrider", "lib/pkgconfig"):
            (prefix / part).mkdir(parents=True)
        run("sh", "-c", f"cp {SOURCE}/include/outrider/*.h {prefix}/include/outrider/ && "
                        f"cp $(find {build} -name liboutrider-sqlite.a) {prefix}/lib/ && "
                        f"cp $(find {build} -name outrider-sqlite.pc) {prefix}/lib/pkgconfig/")
        command = self.guide("-static", "outrider-sqlite)")
        shared, self.env = self.env, dict(self.env, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
        try:
            app = self.link(command, self.root / "app.c", "app-without-shared")
        finally:
            self.env = shared
        self.assertIn("There is no dynamic section", run("readelf", "-d", app))
        self.check_application(app)

    def test_a_cmake_project_finds_it(self):
        project = self.root / "project"
        project.mkdir()
        (project / "app.c").write_text(APPLICATION)
        (project / "embedded.c").write_text((SOURCE / "examples/embedded/main.c").read_text())
        (project / "CMakeLists.txt").write_text(CMAKE_PROJECT)
        run("cmake", "-S", str(project), "-B", str(project / "build"), f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", str(project / "build"))
        for kind in ("sqlite", "sqlite_static"):
            self.check_application(str(project / "build" / f"app_{kind}"))
        self.check_embedded(project / "build/embedded_outrider", self.env)
        self.check_embedded(project / "build/embedded_outrider_static", self.static_env)

    def test_only_the_public_calls_are_exported_and_all_of_them_are(self):
        headers = "".join(h.read_text() for h in (self.prefix / "include/outrider").glob("*.h"))
        declared = set(re.findall(r"\b(outrider_[a-z][a-z_]*)\(", headers))
        exported = {}
        for name in LIBRARIES:
            symbols = run("nm", "-D", "--defined-only", str(self.lib / f"lib{name}.so")).split("\n")
            symbols = {s.split()[2] for s in symbols if s} - {"OUTRIDER_0"}
            for symbol in symbols:
                self.assertRegex(symbol, r"^outrider_[a-z]\w*@@OUTRIDER_0$")
            exported[name] = {s.split("@")[0] for s in symbols}
        self.assertEqual(exported["outrider"], declared)
        clients = exported["outrider-sqlite"] | exported["outrider-postgres"]
        self.assertEqual({d for d in declared if not d.startswith(("outrider_relay_", "outrider_hybrid_"))}, clients)

    def test_the_static_libraries_define_no_name_that_is_not_ours(self):
        for name in LIBRARIES:
            out = run("nm", "-g", "--defined-only", str(self.lib / f"lib{name}.a"))
            names = re.findall(r"^[0-9a-f]+ [A-Z] (\S+)$", out, re.M)
            self.assertTrue(names)
            foreign = [n for n in names if not re.match(r"(__odr_asan\.)?outrider_", n)]
            self.assertEqual(foreign, [])

    def test_every_header_stands_alone_in_c_and_in_cpp(self):
        cflags = self.flags("--cflags", *LIBRARIES)
        headers = sorted((self.prefix / "include/outrider").glob("*.h"))
        self.assertGreater(len(headers), 7)
        for header in headers:
            text = f"#include <outrider/{header.name}>\n#include <outrider/{header.name}>\nint main(void) {{ return 0; }}\n"
            for language in (["cc", "-std=c99", "-x", "c"], ["c++", "-std=c++11", "-x", "c++"]):
                run(*language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", *cflags, "-", input=text)

    def test_the_examples_build_as_an_application_does(self):
        out = self.root / "examples"
        out.mkdir()
        copy = self.root / "sources"
        run("cp", "-r", str(SOURCE / "examples"), str(copy))  # nothing of the tree beside it
        env = dict(self.env, CFLAGS=f"-O1 -Wall -Wextra -Werror {SANITIZE}", OUT=str(out))
        run("make", "-C", str(copy), env=env)
        self.assertEqual(subprocess.run([out / "bank"], env=self.env, capture_output=True).returncode, 2)
        database = self.root / "orders.db"
        run(str(self.prefix / "bin/outrider"), "init", "--db", f"sqlite:{database}")
        run(str(out / "orders"), "write", "--db", str(database), "--writers", "1", "--orders", "3", env=self.env)
        (out / "modules").mkdir()
        (out / "modules/sqlite.so").write_text("the application's own affair")
        self.check_embedded(out / "embedded", self.env)
        self.check_hybrid(out / "hybrid")

    def check_hybrid(self, program):
        relay = str(self.prefix / "bin/outrider")
        server = Server()
        self.addCleanup(server.remove)
        server.initialise()
        server.start()
        run(relay, "init", "--db", server.url(), "--layout", "status")
        done = subprocess.run([program, server.url(), "stdout:", "5", "2"], env=self.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "claimed [1-9]")
        self.assertIn('"topic":"order.OrderTaken"', done.stdout)
        rest = run(relay, "relay", "--from", server.url(), "--to", "stdout:", "--once")
        self.assertEqual(len((done.stdout + rest).splitlines()), 5)

    def test_the_program_lists_its_adapters(self):
        self.assertIn("SQLite", run(str(self.prefix / "bin/outrider"), "version"))


if __name__ == "__main__":
    unittest.main()
