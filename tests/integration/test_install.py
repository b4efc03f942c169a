# SPDX-License-Identifier: MIT
"""What `make install` leaves behind works: the program finds its adapters, and
an application builds with pkg-config and the public headers alone."""
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["OUTRIDER_BUILD"])

APPLICATION = r"""
#include <outrider/outrider.h>
#include <outrider/sqlite.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct outrider_error err;
    struct outrider_event event = OUTRIDER_EVENT_INIT;
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
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    if (outrider_enqueue_sqlite(db, &event, 0, NULL, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    return sqlite3_close(db);
}
"""


def run(*command, **kw):
    return subprocess.run(command, check=True, capture_output=True, text=True, **kw).stdout


class Install(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)
        self.prefix = self.root / "usr"
        run("cmake", "--install", str(BUILD), "--prefix", str(self.prefix))

    def test_an_application_builds_against_it_and_its_event_is_relayed(self):
        (self.root / "app.c").write_text(APPLICATION)
        pc = next(self.prefix.rglob("outrider-sqlite.pc"))
        text = pc.read_text()
        pc.write_text(f"prefix={self.prefix}\n" + text.split("\n", 1)[1])
        env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))
        flags = run("pkg-config", "--cflags", "--libs", "outrider-sqlite", env=env).split()
        for language in (["cc"], ["c++", "-x", "c++"]):
            app = str(self.root / ("app-" + language[0]))
            run(*language, "-fsanitize=address,undefined", "-o", app, str(self.root / "app.c"),
                *flags, f"-Wl,-rpath,{pc.parent.parent}")
            database = f"{app}.db"
            run(app, database)
            out = run(str(self.prefix / "bin/outrider"), "relay", "--from", f"sqlite:{database}",
                      "--to", "stdout:", "--once")
            self.assertIn('"topic":"order.OrderCreated"', out)

    def test_the_program_lists_its_adapters(self):
        self.assertIn("SQLite", run(str(self.prefix / "bin/outrider"), "version"))


if __name__ == "__main__":
    unittest.main()
