/* SPDX-License-Identifier: MIT */
/*
 * The column map: what the columns of an outbox table stand for. Pure logic over a
 * description of the table, which a database fills in from its own catalogue.
 *
 *  (1) A role's column is the column that the configuration names, or else the column
 *      with a usual name and a fitting type. Names are compared without case, '_' and
 *      '-': aggregatetype, aggregate_type and aggregateType are one name. If no column
 *      has exactly the name that the configuration gives, the only column with another
 *      spelling of the name is taken, and the relay warns.
 *  (2) Nothing is guessed. If two columns could have one role, the error names the
 *      option to set. If no column has a role, a defined value stands for it
 *      (column_map.c).
 *  (3) The mark says that a row is published. The mark is a status column, or else a
 *      boolean, or else a time that is NULL until the row is published.
 *  (4) The words of a status column come from the first of these that knows them: the
 *      configuration; an earlier start (outrider_cursor.words), if the catalogue still
 *      agrees; a known project whose table it is; a CHECK constraint or an enum type; the
 *      default, the conditions of indexes and the rows. No word is read as pending
 *      without such evidence. If there is no evidence and no row waits, the map waits
 *      for words.
 *  (5) The map says what a relay does to the table. column_map_check.c says whether
 *      types, constraints and rights allow it. A map that outrider__map_infer() returns
 *      has suitable types, and an id that is unique.
 */
#ifndef COMMON_COLUMN_MAP_H
#define COMMON_COLUMN_MAP_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "core/config.h"

#define MAP_COLUMNS_MAX 256
#define MAP_VALUE_SIZE 64
#define MAP_HEADERS_MAX 64

enum map_kind {
    KIND_OTHER,
    KIND_INTEGER,
    KIND_TEXT,
    KIND_BOOLEAN,
    KIND_DECIMAL, /* a number that may have a fraction */
    KIND_TIME,    /* timestamp, with or without zone, or date */
    KIND_UUID,
    KIND_JSON,
    KIND_BYTES,
    KIND_ENUM
};

struct map_column {
    const char *name;
    const char *quoted; /* as SQL needs it */
    const char *type;   /* as SQL writes it, without a length: "character varying" */
    uint32_t type_id;   /* the database's own number of the type; nobody here reads the number */
    enum map_kind kind;
    uint8_t width;  /* KIND_INTEGER: bytes */
    bool has_zone;  /* KIND_TIME: the value is a moment, whatever the session's zone is */
    bool is_padded; /* KIND_TEXT: the database fills values up with spaces */
    int32_t length; /* of varchar(n), -1: no limit */
    bool is_not_null;
    bool is_key;                   /* belongs to the primary key */
    bool is_unique;                /* the only column of a unique index over all rows, immediate */
    bool is_unique_in_parts;       /* the same together with the columns of the partitioning */
    bool is_indexed;               /* the first column of an index over all rows */
    bool is_numbered;              /* the database numbers it: identity, or a sequence */
    const char *initial;           /* its default as SQL, or NULL */
    const char *initial_value;     /* the default, if the default is one literal; else NULL */
    const char *check;             /* CHECK constraints on this column alone, as SQL, or NULL */
    struct string_list all;        /* labels of an enum type; or values found in the table */
    struct string_list conditions; /* of partial indexes that name this column, as SQL */
    bool is_fixed;                 /* GENERATED ALWAYS: no statement may set it */
    bool is_generated;             /* computed from other columns: mode cdc does not see it */
    bool can_select, can_update;   /* rights of the session's role */
};

/*
 * What a message about a table says in the words of one database. Statements are
 * templates (common/sql.h) with the words @table@ and @column@, quoted, @type@, the
 * column's type, and @role@, the session's role.
 */
struct map_phrases {
    const char *row_place;    /* system columns that say who wrote a row, and where the row is;
                               * NULL: there are none */
    const char *add_unique;   /* a unique index on @column@ */
    const char *forbid_null;  /* @column@ gets NOT NULL */
    const char *allow_null;   /* @column@ loses NOT NULL */
    const char *widen;        /* @column@ becomes an integer of 64 bits */
    const char *wide_integer; /* the name of that type */
    const char *add_sequence; /* advice: a column that the database numbers */
    const char *order_without_sequence; /* "insertion, as far as ..." */
    const char *join_relay;             /* @role@ gets the rights of the role outrider_relay */
};

struct map_table {
    const struct map_phrases *phrases;
    const char *name;   /* without schema and quotes */
    const char *quoted; /* schema and name, as SQL needs them */
    struct map_column *columns;
    size_t n;
    size_t n_key;           /* columns of the primary key */
    const char *remembered; /* status words of an earlier start: outrider__map_words(); or NULL */
    const char *role;       /* of the session, quoted */
    bool is_partitioned;
    bool can_delete;    /* a right of that role */
    bool can_see_place; /* the right to read phrases->row_place */
    /* What makes such a statement do something else, and how to mend that: "has a rule that
     * ...; DROP RULE"; NULL: nothing does. */
    const char *hides_update, *hides_delete;
};

enum map_state {
    STATE_PENDING,
    STATE_PROCESSING,
    STATE_PUBLISHED,
    STATE_FAILED,
    STATE_DEAD,
    STATE_EXPIRED,
    STATE_COUNT
};

enum map_mark { MARK_NONE, MARK_STATUS, MARK_BOOLEAN, MARK_TIME };

struct column_map {
    const struct map_table *table;
    const struct map_column *columns[ROLE_COUNT]; /* NULL: none */
    enum map_mark mark;
    char values[STATE_COUNT][MAP_VALUE_SIZE]; /* MARK_STATUS; "": there is no such value */
    bool values_are_assumed;                  /* nothing in the database confirms them */
    bool values_are_remembered;               /* from an earlier start */
    bool waits_for_words;    /* nothing says yet what pending is, and no row asks */
    bool is_counted;         /* the status column is a number named "published": 0 or 1 */
    int epoch;               /* enum map_epoch */
    char aggregate_type[64]; /* where there is no column for it */
    char event_type[64];
    bool is_ordered; /* by a sequence; otherwise by time, as well as that goes */
    struct {
        const struct map_column *column;
        const char *name;
    } headers[MAP_HEADERS_MAX]; /* columns that become headers, beside the event's own */
    size_t n_headers;
    char respelled[160]; /* names that were asked for, and what was taken instead; or "" */
};

/* Whether the configuration has an option about columns. */
bool outrider__map_is_given(const struct pipeline_config *config);

/* The map without the words of a status column: enough to know what is read and written. */
int outrider__map_columns(const struct map_table *t, const struct pipeline_config *config,
                          struct column_map *ret_map, struct outrider_error *err);
int outrider__map_infer(const struct map_table *t, const struct pipeline_config *config,
                        struct column_map *ret_map, struct outrider_error *err);

/* The status column as inference finds it, before its words are known; NULL: none. */
const struct map_column *outrider__map_status(const struct map_table *t,
                                              const struct pipeline_config *config);

/* The row itself has columns for attempts and due time. */
bool outrider__map_keeps_retries(const struct column_map *m);
/* A claim shows in the row: as a state, or as an owner. */
bool outrider__map_shows_claims(const struct column_map *m);
/* Two relays can compete: the row says who has it, and since when. */
bool outrider__map_can_compete(const struct column_map *m);

/* The column that says whether a row is published; NULL: none. */
const struct map_column *outrider__map_mark_column(const struct column_map *m);
/* The column that an index for unpublished rows begins with. */
const struct map_column *outrider__map_order_column(const struct column_map *m);

/* "map.created_at" */
const char *outrider__map_option(enum column_role role);
bool outrider__map_is_time(enum column_role role);
/* Whether settling, or a claim, writes a column of that role. */
bool outrider__map_is_written(enum column_role role);

/*
 * column_map_check.c
 */
/* What a relay with this configuration does to the table. */
struct map_needs {
    bool reads[MAP_COLUMNS_MAX], writes[MAP_COLUMNS_MAX]; /* as table->columns */
    bool deletes;
    bool reads_place; /* phrases->row_place: the order of insertion, and what mode cdc settled */
};
void outrider__map_needs(const struct column_map *m, const struct pipeline_config *config,
                         struct map_needs *ret_needs);
/* The same for what reads only: a command, a replay. Whether more is allowed, the server says. */
void outrider__map_needs_read(const struct column_map *m, const struct pipeline_config *config,
                              struct map_needs *ret_needs);
/* Types and constraints, as far as they stand against the map itself. */
int outrider__map_check(const struct column_map *m, const struct pipeline_config *config,
                        struct outrider_error *err);
/* Rights, and everything else that a relay needs. The error has the statement that mends
 * the table. */
int outrider__map_check_needs(const struct column_map *m, const struct map_needs *needs,
                              struct outrider_error *err);
/* "GRANT SELECT (id, status), UPDATE (status), DELETE ON t TO grantee"; to: NULL: only what
 * the session's role lacks, for that role. Nothing, if there is nothing to grant. */
void outrider__map_grant(const struct column_map *m, const struct map_needs *needs, const char *to,
                         struct strbuf *sql);

/* The map for people, one "role: column" a line. */
void outrider__map_describe(const struct column_map *m, struct strbuf *out);

const char *outrider__state_name(enum map_state s);
/* status_words.c */
int outrider__map_values(const struct map_column *status, const struct pipeline_config *config,
                         bool has_retries, struct column_map *m, struct outrider_error *err);
/* The words as JSON, for another start. */
void outrider__map_words(const struct column_map *m, struct strbuf *out);
/* Lower case without '_' and '-'; false if it does not fit. */
bool outrider__map_normalise(struct bytes name, char *ret_text, size_t size);

#endif
