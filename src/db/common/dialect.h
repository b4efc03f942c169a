/* SPDX-License-Identifier: MIT */
/*
 * The SQL dialect of a database: how the statements that every database shares
 * are written for one server. Statements are made once, when a pipeline starts.
 *
 *  (1) A shared statement is neutral text. A parameter stands in it as a marker:
 *      "@3:time@" is parameter 3, a time; "@4:text[]@" is a set of texts (struct
 *      sql_rows, or is_in()); "@6:int8[1]@" is the first number of a set of numbers.
 *      outrider__sql_finish() turns the markers into the dialect's own text.
 *      Markers inside of quotes are not markers: names and words of users may
 *      hold any character.
 *  (2) A dialect without numbered parameters ("?") needs a value for every place.
 *      struct sql_params has the numbers of the parameters in the order of their
 *      places. A dialect with numbered parameters ("$3") may ignore that list.
 *  (3) A session of every dialect understands standard SQL: "name" is a name,
 *      '' is a quote inside a literal, a backslash is a plain character, || joins
 *      texts. (MySQL: sql_mode with ANSI_QUOTES, PIPES_AS_CONCAT and
 *      NO_BACKSLASH_ESCAPES.) It understands WITH in front of a SELECT, also inside of
 *      an INSERT and of a subquery, window functions, CASE, coalesce, left,
 *      octet_length, CAST with the type names of `types`, IS NOT TRUE, and LIMIT.
 *  (4) Rows of outrider_parked and outrider_cursor have the same columns in every
 *      database, except where a header says so.
 *  (5) All times are the server's: relays on several machines compare them.
 */
#ifndef COMMON_DIALECT_H
#define COMMON_DIALECT_H

#include "base/strbuf.h"
#include "base/error.h"

#define SQL_PARAMS_MAX 64

enum sql_type {
    SQL_TEXT,
    SQL_BYTES,
    SQL_INT4,
    SQL_INT8,
    SQL_TIME, /* microseconds since 1970 */
    SQL_BOOL,
    SQL_STORED, /* a text as outrider_parked holds it: parked.h (4); in statements a text */
    SQL_TYPES
};

/* One value that a statement takes. */
struct sql_value {
    enum sql_type type;
    bool is_null;
    struct bytes bytes; /* SQL_TEXT, SQL_BYTES, SQL_STORED; without data: NULL */
    int64_t number;     /* all others */
};

struct sql_field {
    const char *name;
    enum sql_type type;
    const char *column_type; /* of a user's column that the values are compared with; or NULL */
};

/* Rows that the caller sends with a statement, as a relation. */
struct sql_rows {
    const char *alias;
    /* The parameter of each field. A dialect that sends the rows as one document uses the first
     * number alone. */
    const int *params;
    const struct sql_field *fields;
    size_t n;
    bool is_numbered; /* a further column n counts the rows from 1, in their order */
};

struct sql_dialect {
    const char *name;             /* for tests */
    const char *types[SQL_TYPES]; /* as CAST(x AS type) takes them */
    /* When the statement, or its transaction, began. NULL: the program sends the time. */
    const char *now;
    const char *clock;             /* at this moment */
    const char *epoch;             /* the beginning of 1970 */
    const char *materialized;      /* WITH x AS <this>(...): evaluate x once; or "" */
    const char *lock, *lock_skips; /* behind a SELECT of rows `o` that are claimed */
    /* "INSERT INTO t" <insert_alias> "..." <upsert> "column = value, ...": what to do with a row
     * that is there, found by (pipeline, outbox). A column's value in the new row stands between
     * new_value[0] and new_value[1]; in the old row, behind old_value. */
    const char *insert_alias, *upsert, *new_value[2], *old_value;
    /* <delete_from> "t o" <delete_join> "rows WHERE ...": by rows that the caller sends. */
    const char *delete_from, *delete_join;
    /* UPDATE and DELETE return columns of rows, inside of WITH. Without that: a second
     * statement reads what the first one changed, in one transaction. */
    bool has_returning;
    bool has_lateral;
    /* Where the rows stand that an UPDATE goes by: "UPDATE t o, rows SET o.a = ..." or
     * "UPDATE t o SET a = ... FROM rows". */
    bool joins_before_set;

    /* Parameter n as a value of that type; is_set: as a set of them. */
    void (*param)(struct strbuf *q, int n, enum sql_type type, bool is_set);
    /* The i-th number, from 1, of parameter n, which is a set of SQL_INT8. */
    void (*item)(struct strbuf *q, int n, int i);
    /* The relation, with its alias. Writes markers, or nothing that needs one. */
    void (*rows)(struct strbuf *q, const struct sql_rows *rows);
    /* " = ANY (...)": the value in front is one of parameter n, a set. column_type: as in
     * struct sql_field. Writes markers. */
    void (*is_in)(struct strbuf *q, int n, enum sql_type type, const char *column_type);
    /* when: SQL of a time; us: SQL of a number of microseconds. */
    void (*add_us)(struct strbuf *q, const char *when, const char *us);
    /* Two lanes of outrider_parked are the same, in a form that its index serves. */
    void (*same_lane)(struct strbuf *q, const char *lane, const char *other);
    /* A text in the form "\\x" and hex digits: parked.h (4). NULL: outrider_parked holds every
     * value as it is. */
    void (*stored_hex)(struct strbuf *q, const char *text);
};

/* The numbers of the parameters, by their places. */
struct sql_params {
    unsigned char order[SQL_PARAMS_MAX];
    size_t n;
};

/* Neutral text as the dialect writes it, for free(). ret_params may be NULL. */
char *outrider__sql_finish(const struct sql_dialect *d, const char *neutral,
                           struct sql_params *ret_params, struct outrider_error *err);

/* Pieces of neutral text. */
void outrider__sql_name(struct strbuf *q, const char *name);    /* "name" */
void outrider__sql_literal(struct strbuf *q, const char *text); /* 'text' */
/* left(value, n) = 'prefix' */
void outrider__sql_begins(struct strbuf *q, const char *value, const char *prefix);

/* The relation's place in an UPDATE: one of the two is "", see joins_before_set. */
struct sql_join {
    struct strbuf before_set, after_set;
};
void outrider__sql_join_init(struct sql_join *j, const struct sql_dialect *d, const char *relation);
void outrider__sql_join_release(struct sql_join *j);

#endif
