/* SPDX-License-Identifier: MIT */
/*
 * What the server's catalogue says of the server, of one outbox table and of
 * our own tables, read in one request; and whether the table can be read as a
 * log (DESIGN: each of the refusals stands for a way to lose events).
 */
#ifndef POSTGRES_CATALOG_H
#define POSTGRES_CATALOG_H

#include "postgres/wire/conn.h"

#define PG_NAME_MAX 192 /* a quoted, qualified name */

/* Where our own tables are: in the schema of the first that the search path
 * finds, else in the outbox's. */
struct pg_catalog {
    /* Server. */
    int version; /* 150004 */
    bool in_recovery;
    int backend_pid;
    int64_t system_id;
    int32_t timeline;
    int64_t wal_segment_size;
    int64_t wal_block_size;
    /* The table as it was asked for, and as it is. */
    char asked[PG_NAME_MAX];
    Oid oid;                 /* 0: there is no such table */
    char schema[64];         /* without quotes */
    char relname[64];        /* without quotes */
    char table[PG_NAME_MAX]; /* quoted: public.outbox; also the name in outrider_cursor.outbox */
    char relkind;            /* 'r', 'p', ... */
    bool is_unlogged;        /* the table or a partition of it */
    bool is_subscribed;      /* some subscription writes into it */
    bool can_select;         /* rights of this role */
    bool can_delete;
    /* Columns of a log. */
    bool has_seq;
    char seq_identity; /* 'a' always, 'd' by default, 0 none */
    Oid seq_type;
    Oid payload_type, id_type, headers_type;
    char bytes[128]; /* columns of bytes, or of a domain over them: ",headers,topic," */
    bool has_mark;   /* a status, published or published_at column: not a log of ours */
    Oid sequence_oid;
    char sequence[PG_NAME_MAX];
    int64_t sequence_increment, sequence_cache, sequence_min;
    bool sequence_cycles;
    bool can_read_sequence;
    bool has_seq_index; /* some index begins with seq */
    /* Changes whenever one of the rows above changes in the catalogue. */
    char fingerprint[128];
    /* Our own tables, qualified and quoted; "" where missing. */
    char companion_schema[PG_NAME_MAX];
    char cursor_table[PG_NAME_MAX];
    char parked_table[PG_NAME_MAX];
    char cursor_lacks[128]; /* columns that an older version did not make: "mode, lsn" */
    bool can_write_cursor, can_write_parked;
    bool is_marked_ours; /* the outbox was made by `outrider init --layout status` */
    bool has_upkeep;     /* the function outbox_partitions, and the right to call it */
};

/* The statement that reads all this has one argument, the table's name as the
 * user wrote it; read() takes its single row. */
extern const char *const outrider__pg_catalog_sql;
void outrider__pg_catalog_read(struct pg_catalog *cat, const PGresult *r, const char *asked);

/* Whether there is a table, our own tables beside it, and the rights to use
 * them. RETRY: all of these can be mended while the relay waits. Of an adopted table
 * the rights are known with its map: outrider__study_check(). */
int outrider__pg_catalog_check(const struct pg_catalog *cat, const char *place, bool is_adopted,
                               struct outrider_error *err);
/* Whether our own tables have all that this version needs. */
int outrider__pg_catalog_check_version(const struct pg_catalog *cat, const char *place,
                                       struct outrider_error *err);
/* Whether the table can be read as a log; STOP with the reason otherwise. */
int outrider__pg_catalog_check_log(const struct pg_catalog *cat, struct outrider_error *err);

/* SQL for a payload column's length, without reading what is stored aside
 * where the type allows it; and for the column as bytea. `column` is quoted. */
void outrider__pg_size_sql(struct strbuf *sql, Oid type, const char *column);
void outrider__pg_bytea_sql(struct strbuf *sql, Oid type, const char *column);
/* Whether an event's column holds bytes. */
bool outrider__pg_catalog_is_bytes(const struct pg_catalog *cat, const char *column);
/* SQL for a column as outrider_parked holds texts: parked.h (4). */
void outrider__pg_stored_sql(struct strbuf *sql, const char *column);

#endif
