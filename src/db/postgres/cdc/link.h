/* SPDX-License-Identifier: MIT */
/*
 * A replication connection, never blocking: connecting, one command, and then
 * a stream of messages in one direction and confirmations in the other.
 *
 *  (1) poll() advances the connection; `state` says where it is. LINK_ANSWERED: the
 *      result of the last command is in `result` (a row), until the next command.
 *  (2) While LINK_STREAMING, next() gives the messages one by one; a message
 *      lives until the next call. next() is the only function that reads the
 *      socket, so memory is bounded: a server whose reader does not call waits.
 *      With `gulps` the socket is read once, and then only while it holds a good
 *      deal: a reader that is as fast as the server gets every message alone,
 *      and each message costs a wake-up of both.
 *      draw() moves about LINK_DRAW_BYTES at most from the socket into memory,
 *      for a reader that is busy: a Unix socket holds a few hundred messages only.
 *      Over TCP draw() does nothing: the kernel has room for megabytes.
 *  (3) status() may be sent at any time while streaming, also when nothing is
 *      read: the server looks at replies even while it waits for room to send.
 *  (4) An error is final: the connection must be closed.
 */
#ifndef POSTGRES_CDC_LINK_H
#define POSTGRES_CDC_LINK_H

#include <libpq-fe.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

struct pollfd;

#define LINK_DRAW_BYTES (1024 * 1024)

enum link_state {
    LINK_CLOSED,
    LINK_CONNECTING,
    LINK_IDLE,
    LINK_ASKED,    /* a command is under way */
    LINK_ANSWERED, /* its row is in result */
    LINK_STREAMING
};

/* Where the server is: behind a Unix socket, which holds little, see (2); on this
 * machine, over TCP; or elsewhere. */
enum link_place { LINK_UNIX, LINK_LOOPBACK, LINK_REMOTE };

struct cdc_link {
    PGconn *pg;
    enum link_state state;
    PostgresPollingStatusType wants;
    int64_t deadline_us; /* of connecting */
    const char *what;    /* the command under way, for messages */
    PGresult *result;
    char *message; /* of the last next() */
    bool wants_write;
    bool gulps;    /* after has_read, read no more until there is much */
    bool has_read; /* the socket was read; whoever sets gulps clears it */
    enum link_place place;
    size_t drawn;     /* about how many bytes, since next() found nothing more */
    int64_t heard_us; /* when the server was last heard of */
};

/* An XLogData or keepalive message, as the server sent it. */
enum link_kind { LINK_NOTHING, LINK_DATA, LINK_KEEPALIVE };

struct link_message {
    enum link_kind kind;
    uint64_t lsn;      /* DATA: of the change; KEEPALIVE: the server's position */
    bool wants_reply;  /* KEEPALIVE */
    struct bytes data; /* DATA */
};

int outrider__cdc_link_connect(struct cdc_link *l, const char *url, const char *name,
                               int64_t timeout_us, struct instant now, struct outrider_error *err);
int outrider__cdc_link_poll(struct cdc_link *l, struct instant now, struct outrider_error *err);
/* Sends a command whose answer is a row, or a stream. When the server refuses the command,
 * poll() fails, with the SQLSTATE as the origin. */
int outrider__cdc_link_ask(struct cdc_link *l, const char *command, const char *what,
                           struct outrider_error *err);
int outrider__cdc_link_next(struct cdc_link *l, struct instant now, struct link_message *ret,
                            struct outrider_error *err);
void outrider__cdc_link_draw(struct cdc_link *l);
int outrider__cdc_link_status(struct cdc_link *l, uint64_t received, uint64_t confirmed,
                              int64_t wall_us, bool wants_reply, struct outrider_error *err);
int outrider__cdc_link_fds(const struct cdc_link *l, bool wants_read, struct pollfd *ret_fds,
                           int max);
void outrider__cdc_link_close(struct cdc_link *l);

#endif
