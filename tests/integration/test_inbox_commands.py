# SPDX-License-Identifier: MIT
"""outrider init --inbox and cleanup --inbox, on both databases."""
import harness
from pgcase import PostgresTest


class Sqlite(harness.OutriderTest):
    def test_init_makes_the_inbox_when_asked_and_cleanup_empties_it(self):
        self.init()
        self.assertIn("outrider_inbox", self.run_outrider("cleanup", "--db", self.url, "--inbox", code=None).err)
        dry = self.run_outrider("init", "--db", self.url, "--inbox", "--dry-run").out
        self.assertIn("CREATE TABLE IF NOT EXISTS outrider_inbox", dry)
        for _ in range(2):
            self.run_outrider("init", "--db", self.url, "--inbox")
        self.sql("INSERT INTO outrider_inbox VALUES ('mail', '1', 1), ('mail', '2', 9000000000000000)")
        out = self.run_outrider("cleanup", "--db", self.url, "--inbox", "--retention", "1d").out
        self.assertIn("1 handled event forgotten", out)
        self.assertEqual(self.sql("SELECT event_id FROM outrider_inbox"), [("2",)])


class Postgres(PostgresTest):
    def test_init_makes_the_inbox_when_asked_and_cleanup_empties_it(self):
        dry = self.run_outrider("init", "--db", self.owner_url, "--inbox", "--dry-run").out
        self.assertIn("CREATE TABLE outrider_inbox", dry)
        self.assertEqual(self.owner("SELECT count(*) FROM pg_class WHERE relname = 'outrider_inbox'")[0][0], "0")
        for _ in range(2):
            self.run_outrider("init", "--db", self.owner_url, "--inbox")
        # The application's role may use it.
        with self.server.session(self.database, "app") as app:
            app.execute("INSERT INTO outrider_inbox VALUES ('mail', '1', now() - interval '2 days'), "
                        "('mail', '2', now())")
        out = self.run_outrider("cleanup", "--db", self.owner_url, "--inbox", "--retention", "1d").out
        self.assertIn("1 handled event forgotten", out)
        self.assertEqual(self.owner("SELECT event_id FROM outrider_inbox")[0][0], "2")


if __name__ == "__main__":
    harness.main()
