/* SPDX-License-Identifier: MIT */
/*
 * From SQLSTATEs to our codes and dispositions, in one table.
 *
 * While nothing is published yet, nearly everything is *retry*: rights can be granted,
 * tables made and disks emptied while a relay waits, and it must go on by itself then.
 * What only a person at the relay's own configuration can mend is *stop*.
 *
 * A settle comes after its events are published, and each new try publishes these once
 * more. So a settle has a disposition of its own:
 *     retry   the server or its disk is at fault, or another session is; and what a
 *             source checks when it is opened: rights, tables, columns. The engine stops
 *             at the second error of the latter kind (core/relay_source.c)
 *     stop    what the table says to the data: constraints, types, triggers. No second
 *             try has another answer
 */
#include "client.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char pooler_advice[] = "a pooler hands statements to several sessions; connect to the "
                                    "server itself, or use the pooler's session mode";

static const struct cause {
    const char *state; /* whole, or a class of two characters */
    enum outrider_code code;
    enum outrider_disposition disposition;
    enum outrider_disposition settling;
    const char *advice; /* or NULL: what the server said is enough */
} causes[] = {
    {"08", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY, NULL},
    {"57P01", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY, "the server ended the session"},
    {"57P02", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "the server restarts after a crash"},
    {"57P03", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "the server is starting or stopping"},
    {"57P04", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY, "the database was dropped"},
    {"57P05", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "the relay was silent for too long"},
    {"25P03", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "the relay was silent for too long"},
    {"57014", OUTRIDER_TIMEOUT, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "statement_timeout of the role or the database, or a person; ALTER ROLE ... SET "
     "statement_timeout = 0 for the relay's role"},
    {"55P03", OUTRIDER_DB_LOCKED, OUTRIDER_RETRY, OUTRIDER_RETRY, "another session holds a lock"},
    {"40", OUTRIDER_DB_LOCKED, OUTRIDER_RETRY, OUTRIDER_RETRY, "will work when it is tried again"},
    {"25006", OUTRIDER_DB_READONLY, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "this server is a standby or read-only; connect to the primary, for example with "
     "target_session_attrs=read-write and several hosts in the URL"},
    {"55000", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"53100", OUTRIDER_NO_SPACE, OUTRIDER_RETRY, OUTRIDER_RETRY, "make room on the server's disk"},
    {"53200", OUTRIDER_NOMEM, OUTRIDER_RETRY, OUTRIDER_RETRY, "the server is out of memory"},
    {"53300", OUTRIDER_CONNECT, OUTRIDER_RETRY, OUTRIDER_RETRY, "max_connections is reached"},
    {"53", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_RETRY, NULL},
    {"58030", OUTRIDER_IO, OUTRIDER_RETRY, OUTRIDER_RETRY, "the server's disk fails"},
    {"28", OUTRIDER_AUTH, OUTRIDER_STOP, OUTRIDER_STOP, "check user, password and pg_hba.conf"},
    {"3D000", OUTRIDER_CONNECT, OUTRIDER_STOP, OUTRIDER_STOP,
     "check the database's name in the URL"},
    {"42501", OUTRIDER_AUTH, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "`outrider init --dry-run` prints the GRANTs that the relay's role needs"},
    {"42P01", OUTRIDER_NO_OUTBOX, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "run `outrider init`, or name it with --table"},
    {"42703", OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY, OUTRIDER_RETRY, "run `outrider init`"},
    {"42883", OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_RETRY, OUTRIDER_RETRY, "run `outrider init`"},
    {"3F000", OUTRIDER_NO_OUTBOX, OUTRIDER_RETRY, OUTRIDER_RETRY, "check the schema's name"},
    {"0A000", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_RETRY, NULL},
    {"26000", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_RETRY, pooler_advice},
    {"42P05", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_RETRY, pooler_advice},
    /* The only division is the check of the epoch. */
    {"22012", OUTRIDER_FENCED, OUTRIDER_RETRY, OUTRIDER_RETRY,
     "another relay took over the pipeline"},
    {"22P02", OUTRIDER_NOT_JSON, OUTRIDER_DEAD, OUTRIDER_STOP, NULL},
    {"22P05", OUTRIDER_INVALID, OUTRIDER_DEAD, OUTRIDER_STOP, NULL},
    {"22", OUTRIDER_INVALID, OUTRIDER_DEAD, OUTRIDER_STOP, NULL},
    {"23", OUTRIDER_INVALID, OUTRIDER_DEAD, OUTRIDER_STOP, NULL},
    /* What functions, triggers and views of the table's owner say. */
    {"09", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"27", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"2F", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"38", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"39", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"42", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"44", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"54", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"P0", OUTRIDER_DB, OUTRIDER_RETRY, OUTRIDER_STOP, NULL},
    {"25P01", OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP, OUTRIDER_STOP, NULL},
    {"25P02", OUTRIDER_NO_TRANSACTION, OUTRIDER_STOP, OUTRIDER_STOP,
     "the transaction failed before; roll back"},
};

static const struct cause *client_error_cause_of(const char *state)
{
    for (int len = 5; len > 0; len -= 3)
        for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
            if (strlen(causes[i].state) == (size_t)len &&
                strncmp(causes[i].state, state, (size_t)len) == 0)
                return &causes[i];
    return NULL;
}

enum outrider_disposition outrider__pg_disposition(const char *state, enum pg_purpose purpose)
{
    const struct cause *c = client_error_cause_of(state);
    if (c == NULL)
        return OUTRIDER_RETRY;
    if (purpose == PG_SETTLES)
        return c->settling;
    /* What the server says of the statement itself, it says each time. */
    if (purpose == PG_TRIES)
        return strncmp(state, "42", 2) == 0 && strcmp(state, "42P01") != 0 ? OUTRIDER_STOP
                                                                           : c->settling;
    /* An error of a statement over many events is no single event's fault. */
    return c->disposition == OUTRIDER_DEAD ? OUTRIDER_RETRY : c->disposition;
}

/* The first line, without libpq's severity and without spaces at its end. */
static void client_error_first_line(const char *text, char *ret_line, size_t size)
{
    size_t len = strcspn(text, "\n");
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        len--;
    if (len >= size)
        len = size - 1;
    memcpy(ret_line, text, len);
    ret_line[len] = '\0';
}

void outrider__pg_connect_state(const PGconn *pg, char ret_state[6])
{
    ret_state[0] = '\0';
    /* "...: FATAL:  28P01: password authentication failed": the word is translated. */
    for (const char *p = PQerrorMessage(pg); (p = strstr(p, ":  ")) != NULL; p += 3) {
        const char *s = p + 3;
        size_t n = strspn(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (n == 5 && s[5] == ':') {
            memcpy(ret_state, s, 5);
            ret_state[5] = '\0';
        }
    }
}

void outrider__pg_place(const PGconn *pg, char *ret_text, size_t size)
{
    const char *host = pg != NULL ? PQhost(pg) : NULL, *db = pg != NULL ? PQdb(pg) : NULL;
    (void)snprintf(ret_text, size, "%s/%s", host != NULL && *host ? host : "server",
                   db != NULL ? db : "");
}

/* row_security = off: SQLSTATE is that of a missing right, and the text is translated. */
static bool client_error_is_row_security(const PGresult *res)
{
    const char *by = res != NULL ? PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION) : NULL;
    return by != NULL && strcmp(by, "check_enable_rls") == 0;
}

/* Waiting does not help, and reading on would lose what is hidden. */
static void client_error_fail_row_security(struct outrider_error *err, const PGconn *pg,
                                           const char *place, const char *what, const char *line)
{
    (void)outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                         "%s: %s: %s (ALTER TABLE ... DISABLE ROW LEVEL SECURITY, or ALTER ROLE %s "
                         "BYPASSRLS, or make that role the owner of a table without FORCE)",
                         place, what, line, pg != NULL && PQuser(pg) != NULL ? PQuser(pg) : "...");
}

int outrider__pg_fail(struct outrider_error *err, const PGconn *pg, const PGresult *res,
                      const char *what)
{
    char state[6] = "", place[160], line[256];
    const char *field = res != NULL ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
    const char *said = res != NULL ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    outrider__pg_place(pg, place, sizeof place);
    if (field != NULL)
        (void)snprintf(state, sizeof state, "%s", field);
    else if (pg != NULL)
        outrider__pg_connect_state(pg, state);
    if (said == NULL)
        said = res != NULL ? PQresultErrorMessage(res) : pg != NULL ? PQerrorMessage(pg) : "";
    client_error_first_line(*said != '\0' ? said : "the connection is lost", line, sizeof line);
    const struct cause *c = state[0] != '\0' ? client_error_cause_of(state) : NULL;
    enum outrider_code code = c != NULL ? c->code : state[0] ? OUTRIDER_DB : OUTRIDER_CONNECT;
    if (client_error_is_row_security(res))
        client_error_fail_row_security(err, pg, place, what, line);
    else
        (void)outrider__fail(err, code, c != NULL ? c->disposition : OUTRIDER_RETRY,
                             c != NULL && c->advice != NULL ? "%s: %s: %s (%s)" : "%s: %s: %s",
                             place, what, line, c != NULL ? c->advice : NULL);
    outrider__error_origin(err, state);
    return -1;
}
