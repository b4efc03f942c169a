/* SPDX-License-Identifier: MIT */
/*
 * pgoutput, protocol version 1, over bytes: no connection, no I/O.
 *
 *  (1) Bytes are foreign. A message that breaks the protocol is an error, and no byte
 *      past its end is read. After an error the decoder is of no use but to be released.
 *  (2) decode() says what a message is and keeps what later ones need (the
 *      columns of our tables, the transaction under way). event() then copies an
 *      event into a batch; it may be called until the next decode(), or not at all.
 *  (3) Columns are found by name, each time that the server describes the
 *      table: added, dropped, moved, renamed or of another type since.
 *  (4) Events are what is inserted into our tables, and transactional messages
 *      with the prefix `outrider` (others survive a rollback). Everything else
 *      is nothing: updates, deletes, truncation, types, origins, other tables.
 *  (5) An event's place is (commit position, number within its transaction).
 *      It is the same whenever the server sends the transaction again.
 *  (6) Nothing above its bound stays in the batch: struct event_bounds. The message
 *      itself is the server's, and in memory as a whole before it is looked at.
 *  (7) What is no proper event (a column that is missing or cannot be read,
 *      content that is no object) is an event all the same: is_malformed.
 */
#ifndef POSTGRES_CDC_DECODE_H
#define POSTGRES_CDC_DECODE_H

#include "base/error.h"
#include "postgres/cdc/cell.h"
#include "core/event.h"

#define CDC_PREFIX "outrider"
#define CDC_COLUMNS_MAX 1664 /* the server's own limit */
/* More than a pipeline has tables: a table that is made anew has another oid. */
#define CDC_RELATIONS_MAX 128

enum cdc_role {
    COL_SEQ,
    COL_ID,
    COL_AGGREGATE_TYPE,
    COL_AGGREGATE_ID,
    COL_EVENT_TYPE,
    COL_PAYLOAD,
    COL_HEADERS,
    COL_TOPIC,
    COL_PARTITION_KEY,
    COL_PARTITION,
    COL_OCCURRED_AT,
    COL_CREATED_AT,
    COL_EXPIRES_AT,
    CDC_ROLES
};

#define CDC_HEADERS_MAX 64

/* A column that becomes a header. */
struct cdc_header {
    const char *name, *column;
};

/* A table whose inserts are events. */
struct cdc_outbox {
    uint32_t oid;
    const char *schema, *table;     /* without quotes */
    const char *columns[CDC_ROLES]; /* their names; NULL: the table has none for it */
    bool is_bytes[CDC_ROLES];       /* also of a domain, for which the stream names another type */
    /* A table that is read by a column map: it need not have every column, and its events
     * have the table's oid in place of a seq (tables.h (1)). Otherwise the table is of our
     * own layout, in which every column is required. */
    bool is_mapped;
    const char *aggregate_type, *event_type; /* mapped: for a column that is missing or NULL */
    struct cdc_header headers[CDC_HEADERS_MAX];
    size_t n_headers;
    int epoch; /* enum map_epoch: what an integer counts that is a time */
};

/* The columns of a table of ours as the server described them last. */
struct cdc_relation {
    uint32_t oid;
    const struct cdc_outbox *outbox;
    uint32_t types[CDC_ROLES];
    bool has[CDC_ROLES];
    uint8_t same_as[CDC_ROLES]; /* the role whose column this one shares; CDC_ROLES: none */
    uint16_t header_column[CDC_HEADERS_MAX]; /* counted from 1; 0: there is none */
    uint32_t header_type[CDC_HEADERS_MAX];
    uint16_t n_columns;
    uint8_t role_of[]; /* by column; CDC_ROLES: none of ours */
};

/* A decoder that holds only what the caller sets is ready for decode(). release() frees
 * what the decoder has kept, and leaves it so. */
struct cdc_decoder {
    /* Set by the caller. */
    const struct cdc_outbox *outboxes;
    size_t n_outboxes;
    struct event_bounds max;
    /* The decoder's own. */
    struct cdc_relation *relations[CDC_RELATIONS_MAX]; /* owned */
    size_t n_relations, next_relation;
    bool in_transaction;
    uint64_t commit_lsn; /* of the transaction under way: where its commit record begins */
    int64_t commit_us;
    uint32_t xid;
    int64_t n_events;                 /* of the transaction under way, so far */
    struct cdc_cell cells[CDC_ROLES]; /* of the row that was decoded last */
};

enum cdc_kind { CDC_NOTHING, CDC_BEGIN, CDC_EVENT, CDC_COMMIT };

struct cdc_message {
    enum cdc_kind kind;
    uint64_t end_lsn; /* CDC_COMMIT: what may be confirmed once its events are settled */
    /* CDC_EVENT: its place, and its bytes (borrowed from the message). */
    uint64_t commit_lsn;
    int64_t number;                      /* 1 for the first */
    const struct cdc_relation *relation; /* NULL: a logical message */
    struct bytes body;
    int64_t seq; /* 0 where there is none */
};

/* The name of a role's column in our own layout. */
const char *outrider__cdc_role_name(enum cdc_role role);
/* One of our own layout, with those names. */
struct cdc_outbox outrider__cdc_own_outbox(uint32_t oid, const char *schema, const char *table);
/* Whether a column of that type can be read in binary form. */
bool outrider__cdc_reads_binary(uint32_t type);
void outrider__cdc_decoder_release(struct cdc_decoder *d);
int outrider__cdc_decode(struct cdc_decoder *d, struct bytes bytes, struct cdc_message *ret,
                         struct outrider_error *err);
/* Adds the headers from columns to `own`, the event's own headers (or NULL data). Where all
 * of them have more than `max` bytes, *ret_headers is NULL data. *ret_len: about how many
 * bytes they have. */
int outrider__cdc_headers(const struct cdc_message *m, struct bytes own, size_t max,
                          struct arena *arena, struct bytes *ret_headers, size_t *ret_len,
                          struct outrider_error *err);
/* Copies the event into the batch's next slot and counts it; the batch must
 * have room. Only memory can fail. */
int outrider__cdc_event(const struct cdc_decoder *d, const struct cdc_message *m, struct batch *b,
                        struct outrider_error *err);

#endif
