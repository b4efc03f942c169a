/* SPDX-License-Identifier: MIT */
#include "support/pg_server.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], bindir[256];

__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
    char command[4096];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    return system(command); /* NOLINT(cert-env33-c): a test's own command, no foreign text */
}

/* A server refuses to run as root. */
static const char *as_postgres(void)
{
    return geteuid() == 0 ? "runuser -u postgres --" : "";
}

static bool find_programs(void)
{
    const char *given = getenv("OUTRIDER_PG_BINDIR");
    glob_t found = {0};
    if (given != NULL)
        (void)snprintf(bindir, sizeof bindir, "%s", given);
    else if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0 && found.gl_pathc > 0)
        (void)snprintf(bindir, sizeof bindir, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    char path[300];
    (void)snprintf(path, sizeof path, "%s/initdb", bindir);
    return bindir[0] != '\0' && access(path, X_OK) == 0;
}

static void remove_server(void)
{
    (void)run("cd / && %s %s/pg_ctl -D %s/data -m immediate -w stop >/dev/null 2>&1; rm -rf %s",
              as_postgres(), bindir, dir, dir);
}

bool pg_server_start(void)
{
    if (dir[0] != '\0')
        return true;
    if (!find_programs())
        return false;
    (void)snprintf(dir, sizeof dir, "/tmp/outrider-pg-XXXXXX");
    if (mkdtemp(dir) == NULL || (geteuid() == 0 && run("chown postgres %s", dir) != 0))
        return false;
    (void)atexit(remove_server);
    if (run("cd / && %s %s/initdb -D %s/data -A trust -U postgres -E UTF8 --no-sync >/dev/null "
            "2>&1",
            as_postgres(), bindir, dir) != 0)
        return false;
    if (run("printf \"listen_addresses = ''\\nunix_socket_directories = '%s'\\nfsync = off\\n"
            "max_prepared_transactions = 8\\nwal_level = logical\\n\" >> %s/data/postgresql.conf",
            dir, dir) != 0)
        return false;
    return run("cd / && %s %s/pg_ctl -D %s/data -l %s/log -w start >/dev/null 2>&1", as_postgres(),
               bindir, dir, dir) == 0;
}

void pg_server_sql(const char *database, const char *sql)
{
    if (run("PGOPTIONS='-c client_min_messages=warning' psql -X -q -v ON_ERROR_STOP=1 -h %s -U "
            "postgres -d %s -c \"%s\" >/dev/null",
            dir, database, sql) != 0)
        fail_msg("psql: %s", sql);
}

void pg_server_url(const char *database, bool fresh, char *ret_url, size_t size)
{
    char sql[256];
    if (fresh) {
        (void)snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", database);
        pg_server_sql("postgres", sql);
        (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s STRATEGY file_copy", database);
        if (strstr(bindir, "/14/") != NULL)
            (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s", database);
        pg_server_sql("postgres", sql);
    }
    (void)snprintf(ret_url, size, "postgresql:///%s?host=%s&user=postgres", database, dir);
}

void pg_server_restart(const char *mode)
{
    assert_int_equal(
        run("cd / && %s %s/pg_ctl -D %s/data -l %s/log -m %s -w restart >/dev/null 2>&1",
            as_postgres(), bindir, dir, dir, mode),
        0);
}
