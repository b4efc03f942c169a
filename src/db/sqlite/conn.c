/* SPDX-License-Identifier: MIT */
/* Connections: from a URL to an open database, or to an error that says why not. */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/url.h"

int outrider__sqlite_path(const struct pipeline_config *config, char **ret_path,
                          struct outrider_error *err)
{
    struct arena arena;
    struct url url;
    const struct string_list *tables = &config->source.tables;
    if (tables->n > 1 || (tables->n == 1 && strcmp(tables->items[0], "outbox") != 0))
        return outrider__fail(err, OUTRIDER_UNSUPPORTED, OUTRIDER_STOP,
                              "a sqlite: source reads the table outbox and no other; "
                              "remove --table");
    outrider__arena_init(&arena, 1024);
    int rc = outrider__url_parse(bytes_str(config->source.url), &arena, &url, err);
    if (rc == 0 && (url.path.len == 0 || url.hosts.len > 0))
        rc = outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP,
                            "the URL of a SQLite database is sqlite:PATH, as in sqlite:shop.db or "
                            "sqlite:/var/lib/shop.db");
    if (rc == 0 && memchr(url.path.data, '\0', url.path.len) != NULL)
        rc = outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP, "the path holds a zero byte");
    char *path = rc == 0 ? strndup(url.path.data, url.path.len) : NULL;
    outrider__arena_release(&arena);
    if (rc < 0)
        return -1;
    if (path == NULL)
        return outrider__fail_nomem(err);
    *ret_path = path;
    return 0;
}

/* SQLite says "unable to open database file" to all of these. */
static int conn_check_file(const char *path, struct outrider_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return outrider__fail(err, OUTRIDER_NOT_FOUND, OUTRIDER_STOP,
                                  "%s does not exist; check the path, or make it with "
                                  "`outrider init --db sqlite:%s`",
                                  path, path);
        if (errno == EACCES)
            return outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                                  "%s cannot be reached: no permission on a directory above it",
                                  path);
        return outrider__fail_errno(err, errno, "cannot look at %s", path);
    }
    if (!S_ISREG(st.st_mode))
        return outrider__fail(err, OUTRIDER_NOT_A_DATABASE, OUTRIDER_STOP,
                              "%s is not a file, so it is no SQLite database", path);
    if (euidaccess(path, R_OK) < 0)
        return outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                              "%s cannot be read by this user; check its permissions", path);
    if (euidaccess(path, W_OK) < 0)
        return outrider__fail(err, OUTRIDER_DB_READONLY, OUTRIDER_STOP,
                              "%s cannot be written by this user, and progress is kept in it; "
                              "check its permissions",
                              path);
    return 0;
}

static int conn_check_directory(const char *real, struct outrider_error *err)
{
    const char *slash = strrchr(real, '/');
    char *dir = strndup(real, slash != NULL && slash != real ? (size_t)(slash - real) : 1);
    if (dir == NULL)
        return outrider__fail_nomem(err);
    int rc = 0;
    if (euidaccess(dir, W_OK) < 0)
        rc = outrider__fail(err, OUTRIDER_DB_READONLY, OUTRIDER_STOP,
                            "the directory of %s cannot be written by this user, and SQLite keeps "
                            "its -wal file there; check its permissions",
                            real);
    free(dir);
    return rc;
}

int outrider__sqlite_open(const char *path, bool may_create, sqlite3 **ret_db, char **ret_real,
                          struct outrider_error *err)
{
    sqlite3 *db = NULL;
    if (!may_create && conn_check_file(path, err) < 0)
        return -1;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (may_create ? SQLITE_OPEN_CREATE : 0);
    /* A name that begins with "file:" would be taken for SQLite's own URI. */
    char *name = strncmp(path, "file:", 5) == 0 ? sqlite3_mprintf("./%s", path)
                                                : sqlite3_mprintf("%s", path);
    int rc = name != NULL ? sqlite3_open_v2(name, &db, flags, NULL) : SQLITE_NOMEM;
    sqlite3_free(name);
    if (rc != SQLITE_OK) {
        (void)outrider__sqlite_fail(err, db, rc, "cannot open the database");
        goto failed;
    }
    (void)sqlite3_extended_result_codes(db, 1);
    char *real = realpath(path, NULL);
    if (real == NULL) {
        (void)outrider__fail_errno(err, errno, "cannot resolve %s", path);
        goto failed;
    }
    if (sqlite3_db_readonly(db, "main") == 1) {
        (void)outrider__fail(err, OUTRIDER_DB_READONLY, OUTRIDER_STOP,
                             "%s can only be read, and progress is kept in it; check its "
                             "permissions and its file system",
                             path);
        free(real);
        goto failed;
    }
    if (conn_check_directory(real, err) < 0) {
        free(real);
        goto failed;
    }
    *ret_db = db;
    *ret_real = real;
    return 0;
failed:
    (void)sqlite3_close(db);
    return -1;
}
