# SPDX-License-Identifier: MIT
"""Programs and libraries of different versions work together. A program is compiled
with the headers of version 0.1, which are kept in tests/support/headers, and with
headers whose structs have grown; the library is the present one, and one that is
built from the same sources with the grown headers."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["OUTRIDER_BUILD"])
SOURCE = pathlib.Path(os.environ["OUTRIDER_SOURCE"])
OLD = SOURCE / "tests/support/headers/0.1"
GROWS = ("outrider_event", "outrider_session_callbacks", "outrider_relay_observer", "outrider_relay_event",
         "outrider_relay_stats")

# EXTRA is defined where the headers have grown: what the program leaves there.
PROGRAM = r"""
#include <outrider/outrider.h>
#include <outrider/relay.h>
#include <outrider/session.h>
#include <outrider/sqlite.h>
#include <stdio.h>
#include <string.h>

static struct outrider_error err;

static int fail(const char *where)
{
    fprintf(stderr, "%s: %s\n", where, err.message);
    return 1;
}

static void on_event(void *ctx, const struct outrider_relay_event *event)
{
    ++*(int *)ctx;
    printf("%.*s %s\n", (int)event->aggregate_id.len, event->aggregate_id.data, event->outcome);
}

static int before_commit(void *ctx, struct outrider_session *session, struct outrider_error *e)
{
    struct outrider_event event = OUTRIDER_EVENT_INIT;
    (void)ctx;
    event.aggregate_type = event.event_type = "t";
    event.aggregate_id = "session";
    event.payload = "{}";
    event.payload_len = 2;
    return outrider_session_enqueue(session, &event, NULL, e);
}

static int write_events(sqlite3 *db)
{
    static const char *const ids[] = {"one", "two", "three"};
    struct outrider_event events[4]; /* bytes behind the array are not zero */
    struct outrider_session_callbacks callbacks = OUTRIDER_SESSION_CALLBACKS_INIT;
    struct outrider_session *session;
    memset(events, 0x7f, sizeof events);
    for (int i = 0; i < 3; i++) {
        events[i] = (struct outrider_event)OUTRIDER_EVENT_INIT;
        events[i].aggregate_type = events[i].event_type = "t";
        events[i].aggregate_id = ids[i];
        events[i].payload = "{}";
        events[i].payload_len = 2;
#ifdef EXTRA
        events[i].extra = EXTRA;
#endif
    }
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    if (outrider_enqueue_many_sqlite(db, events, 2, 0, NULL, &err) < 0)
        return fail("enqueue_many");
    if (outrider_enqueue_sqlite(db, &events[2], 0, NULL, &err) < 0)
        return fail("enqueue");
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    callbacks.before_commit = before_commit;
    if (outrider_session_sqlite(db, &session, &err) < 0 ||
        outrider_session_add(session, &callbacks, &err) < 0 || outrider_session_begin(session, &err) < 0 ||
        outrider_session_commit(session, &err) < 0)
        return fail("session");
    outrider_session_free(session);
    return 0;
}

static int relay(const char *database, const char *url)
{
    struct {
        struct outrider_relay_stats stats;
        char behind[64];
    } s = {OUTRIDER_RELAY_STATS_INIT, "untouched"};
    struct outrider_relay_observer observer = OUTRIDER_RELAY_OBSERVER_INIT;
    struct outrider_relay *r;
    char source[512];
    int n = 0;
    observer.ctx = &n;
    observer.event = on_event;
    observer.wants_delivered = 1;
#ifdef OBSERVER_EXTRA
    observer.extra = OBSERVER_EXTRA;
#endif
    snprintf(source, sizeof source, "sqlite:%s", database);
    if (outrider_relay_new(NULL, &r, &err) < 0 || outrider_relay_set(r, "source.url", source, &err) < 0 ||
        outrider_relay_set(r, "sink.url", url, &err) < 0)
        return fail("set");
    if (outrider_relay_observe(r, &observer, &err) < 0)
        return fail("observe");
    if (outrider_relay_start(r, OUTRIDER_RELAY_ONCE, &err) < 0 || outrider_relay_wait(r, -1, &err) < 0)
        return fail("relay");
    if (outrider_relay_stats(r, &s.stats, &err) < 0)
        return fail("stats");
    outrider_relay_free(r);
    printf("%d told, %d delivered, %s\n", n, (int)s.stats.delivered, s.behind);
    return 0;
}

int main(int argc, char **argv)
{
    sqlite3 *db;
    if (argc != 3 || sqlite3_open(argv[1], &db) != SQLITE_OK || outrider_init_sqlite(db, &err) < 0)
        return fail("open");
    int rc = write_events(db);
    sqlite3_close(db);
    return rc != 0 ? rc : relay(argv[1], argv[2]);
}
"""
TOLD = ["one delivered", "session delivered", "three delivered", "two delivered"]


def run(*command, **kw):
    p = subprocess.run(command, capture_output=True, text=True, **kw)
    if p.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {p.returncode}\n{p.stdout}\n{p.stderr}")
    return p.stdout


def grow(headers):
    """Every struct that may grow gets one more field at its end."""
    n = 0
    for header in headers.glob("*.h"):
        text = header.read_text()
        for name in GROWS:
            text, hits = re.subn(r"(struct %s \{.*?)\n\};" % name, r"\1\n    const char *extra;\n};", text, flags=re.S)
            n += hits
        header.write_text(text)
    assert n == len(GROWS), n


class Compatibility(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.root = pathlib.Path(holder.name)
        (cls.root / "program.c").write_text(PROGRAM)
        cls.grown = cls.root / "grown"
        cls.grown.mkdir()
        for part in ("CMakeLists.txt", "cmake", "include", "src", "packaging", "examples"):
            run("cp", "-r", str(SOURCE / part), str(cls.grown / part))
        grow(cls.grown / "include/outrider")
        flags = cls.grown / "cmake/OutriderBuild.cmake"  # the macros of the headers do not name the new field
        flags.write_text(flags.read_text().replace("-Werror ", "-Wno-missing-field-initializers "))
        build = cls.grown / "build"
        run("cmake", "-S", str(cls.grown), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
            "-DOUTRIDER_BENCH=OFF", "-DOUTRIDER_SANITIZE=ON")
        run("cmake", "--build", str(build), "--target", "outrider_library_outrider_shared", "outrider_module_sqlite")
        cls.libraries = {"present": BUILD, "grown": build}

    def build_program(self, name, headers, library, *flags):
        place = next(self.libraries[library].rglob("liboutrider.so")).parent
        program = self.root / name
        run("cc", "-fsanitize=address,undefined", "-g", f"-I{headers}", *flags, "-o", str(program),
            str(self.root / "program.c"), f"-L{place}", "-loutrider", "-lsqlite3")
        modules = next(self.libraries[library].rglob("sqlite.so")).parent
        return program, dict(os.environ, LD_LIBRARY_PATH=str(place), OUTRIDER_MODULE_PATH=str(modules))

    def start(self, name, headers, library, *flags):
        program, env = self.build_program(name, headers, library, *flags)
        return subprocess.run([program, f"{program}.db", "null:"], env=env, capture_output=True, text=True)

    def assert_works(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(sorted(lines[:-1]), TOLD)
        self.assertEqual(lines[-1], "4 told, 4 delivered, untouched")

    def test_a_program_of_version_0_1_works_with_the_present_library(self):
        self.assert_works(self.start("old-present", OLD, "present"))

    def test_a_program_of_version_0_1_works_with_a_library_whose_structs_have_grown(self):
        self.assert_works(self.start("old-grown", OLD, "grown"))

    def test_a_program_with_grown_structs_works_with_the_present_library(self):
        self.assert_works(self.start("new-present", self.grown / "include", "present", "-DEXTRA=NULL"))

    def test_a_field_that_the_library_does_not_know_is_refused_and_not_left_out(self):
        done = self.start("new-event", self.grown / "include", "present", '-DEXTRA="x"')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "event 0: has a field that liboutrider .* does not know; upgrade the library")
        done = self.start("new-observer", self.grown / "include", "present", '-DOBSERVER_EXTRA="x"')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "the observer: has a field that liboutrider .* does not know")


if __name__ == "__main__":
    unittest.main()
