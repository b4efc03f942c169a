/* SPDX-License-Identifier: MIT */
#include "postgres/cdc/link.h"

#include <endian.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "postgres/cdc/cell.h"
#include "postgres/client/client.h"

#define GULP_BYTES 8192  /* what libpq makes room for when it reads */
#define DRAW_BYTES 16384 /* less is not worth a call */
#define HEADER_SIZE 25   /* of XLogData: its kind, two positions and a time */

static void link_ignore_notice(void *ctx, const PGresult *res)
{
    (void)ctx; /* a library does not write to stderr */
    (void)res;
}

int outrider__cdc_link_connect(struct cdc_link *l, const char *url, const char *name,
                               int64_t timeout_us, struct instant now, struct outrider_error *err)
{
    char application[80];
    (void)snprintf(application, sizeof application, "outrider:%.60s", name);
    const char *const keys[] = {"fallback_application_name",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "dbname",
                                "replication",
                                "client_encoding",
                                NULL};
    const char *const values[] = {application, "5", "2", "3", url, "database", "UTF8", NULL};
    *l = (struct cdc_link){.state = LINK_CLOSED};
    l->pg = PQconnectStartParams(keys, values, 1);
    if (l->pg == NULL)
        return outrider__fail_nomem(err);
    (void)PQsetErrorVerbosity(l->pg, PQERRORS_VERBOSE);
    (void)PQsetNoticeReceiver(l->pg, link_ignore_notice, NULL);
    if (PQstatus(l->pg) == CONNECTION_BAD)
        return outrider__pg_fail(err, l->pg, NULL, "cannot connect for replication");
    l->state = LINK_CONNECTING;
    l->wants = PGRES_POLLING_WRITING;
    l->deadline_us = now.mono_us + timeout_us;
    return 0;
}

static bool link_is_signalled(const struct cdc_link *l, short events)
{
    struct pollfd fd = {.fd = PQsocket(l->pg), .events = events};
    return fd.fd >= 0 && poll(&fd, 1, 0) > 0;
}

static enum link_place link_place_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } a = {0};
    socklen_t len = sizeof a;
    if (getpeername(fd, &a.any, &len) < 0)
        return LINK_REMOTE;
    switch (a.any.sa_family) {
    case AF_UNIX:
        return LINK_UNIX;
    case AF_INET:
        return ntohl(a.v4.sin_addr.s_addr) >> 24 == 127 ? LINK_LOOPBACK : LINK_REMOTE;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr) ? LINK_LOOPBACK : LINK_REMOTE;
    default:
        return LINK_REMOTE;
    }
}

static int link_go_on_connecting(struct cdc_link *l, struct instant now, struct outrider_error *err)
{
    for (int round = 0; round < 32; round++) {
        if (!link_is_signalled(l, l->wants == PGRES_POLLING_READING ? POLLIN : POLLOUT)) {
            if (now.mono_us < l->deadline_us)
                return 0;
            return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY,
                                  "%s did not answer within connect_timeout", PQhost(l->pg));
        }
        l->wants = PQconnectPoll(l->pg);
        if (l->wants == PGRES_POLLING_FAILED)
            return outrider__pg_fail(err, l->pg, NULL, "cannot connect for replication");
        if (l->wants != PGRES_POLLING_OK)
            continue;
        if (PQsetnonblocking(l->pg, 1) != 0)
            return outrider__pg_fail(err, l->pg, NULL, "cannot set the connection up");
        (void)PQsetErrorVerbosity(l->pg, PQERRORS_DEFAULT);
        l->state = LINK_IDLE;
        l->place = link_place_of(PQsocket(l->pg));
        l->heard_us = now.mono_us;
        return 0;
    }
    return 0;
}

static int link_flush(struct cdc_link *l, struct outrider_error *err)
{
    int rc = PQflush(l->pg);
    l->wants_write = rc > 0;
    return rc < 0 ? outrider__pg_fail(err, l->pg, NULL, "cannot send") : 0;
}

/* Takes one result of the command under way. */
static int link_take_result(struct cdc_link *l, PGresult *res, struct outrider_error *err)
{
    switch (PQresultStatus(res)) {
    case PGRES_COPY_BOTH:
        PQclear(res);
        l->state = LINK_STREAMING;
        return 0;
    case PGRES_COMMAND_OK: /* of several statements: only rows are kept */
        PQclear(res);
        return 0;
    case PGRES_TUPLES_OK:
        PQclear(l->result);
        l->result = res;
        return 0;
    default: {
        int rc = outrider__pg_fail(err, l->pg, res, l->what);
        PQclear(res);
        return rc;
    }
    }
}

static int link_read_answer(struct cdc_link *l, struct instant now, struct outrider_error *err)
{
    if (PQconsumeInput(l->pg) != 1)
        return outrider__pg_fail(err, l->pg, NULL, "the replication connection is lost");
    while (l->state == LINK_ASKED && !PQisBusy(l->pg)) {
        PGresult *res = PQgetResult(l->pg);
        l->heard_us = now.mono_us;
        if (res == NULL) {
            l->state = LINK_ANSWERED;
            break;
        }
        if (link_take_result(l, res, err) < 0)
            return -1;
    }
    return 0;
}

int outrider__cdc_link_poll(struct cdc_link *l, struct instant now, struct outrider_error *err)
{
    switch (l->state) {
    case LINK_CLOSED:
        return 0;
    case LINK_CONNECTING:
        return link_go_on_connecting(l, now, err);
    case LINK_ASKED:
        return link_flush(l, err) < 0 ? -1 : link_read_answer(l, now, err);
    case LINK_IDLE:
    case LINK_ANSWERED:
        /* No answer is expected: anything that comes is the end of the connection. */
        if (link_is_signalled(l, POLLIN) && PQconsumeInput(l->pg) != 1)
            return outrider__pg_fail(err, l->pg, NULL, "the replication connection is lost");
        return 0;
    case LINK_STREAMING:
        return l->wants_write ? link_flush(l, err) : 0;
    }
    return 0;
}

int outrider__cdc_link_ask(struct cdc_link *l, const char *command, const char *what,
                           struct outrider_error *err)
{
    PQclear(l->result);
    l->result = NULL;
    l->what = what;
    if (!PQsendQuery(l->pg, command))
        return outrider__pg_fail(err, l->pg, NULL, what);
    l->state = LINK_ASKED;
    return link_flush(l, err);
}

static int link_parse(struct cdc_link *l, int len, struct link_message *m,
                      struct outrider_error *err)
{
    struct byte_reader r = reader_of(bytes_of(l->message, (size_t)len));
    switch (reader_u8(&r)) {
    case 'w':
        m->kind = LINK_DATA;
        m->lsn = reader_u64_be(&r);
        (void)reader_bytes(&r, HEADER_SIZE - 9);
        m->data = reader_rest(&r);
        break;
    case 'k':
        m->kind = LINK_KEEPALIVE;
        m->lsn = reader_u64_be(&r);
        (void)reader_u64_be(&r);
        m->wants_reply = reader_u8(&r) != 0;
        break;
    default:
        r.is_short = true;
    }
    if (r.is_short)
        return outrider__fail(err, OUTRIDER_DB, OUTRIDER_RETRY,
                              "the server sent something that is no replication message");
    return 0;
}

/* The server ended the stream: with an error, or because it shuts down. */
static int link_fail_ended(struct cdc_link *l, struct outrider_error *err)
{
    PGresult *res = PQgetResult(l->pg);
    if (res != NULL && PQresultStatus(res) == PGRES_FATAL_ERROR) {
        int rc = outrider__pg_fail(err, l->pg, res, "the replication stream ended");
        PQclear(res);
        return rc;
    }
    PQclear(res);
    return outrider__fail(err, OUTRIDER_CONNECT, OUTRIDER_RETRY, "%s ended the replication stream",
                          PQhost(l->pg));
}

static int link_waiting_bytes(const struct cdc_link *l)
{
    int n = 0;
    return ioctl(PQsocket(l->pg), FIONREAD, &n) == 0 ? n : 0;
}

static bool link_is_worth_reading(const struct cdc_link *l)
{
    return !l->gulps || !l->has_read || link_waiting_bytes(l) >= GULP_BYTES;
}

void outrider__cdc_link_draw(struct cdc_link *l)
{
    int n = l->place == LINK_UNIX && l->state == LINK_STREAMING ? link_waiting_bytes(l) : 0;
    /* libpq's buffer grows little by little, and never becomes smaller. */
    while (n >= DRAW_BYTES && l->drawn < LINK_DRAW_BYTES) {
        if (PQconsumeInput(l->pg) != 1)
            return; /* an error stays with the connection */
        int rest = link_waiting_bytes(l);
        l->drawn += (size_t)(n - rest > GULP_BYTES ? n - rest : GULP_BYTES);
        n = rest;
    }
}

int outrider__cdc_link_next(struct cdc_link *l, struct instant now, struct link_message *ret,
                            struct outrider_error *err)
{
    if (l->message != NULL)
        PQfreemem(l->message);
    l->message = NULL;
    *ret = (struct link_message){.kind = LINK_NOTHING};
    int len = PQgetCopyData(l->pg, &l->message, 1);
    if (len == 0)
        l->drawn = 0;
    if (len == 0 && link_is_worth_reading(l)) {
        l->has_read = true;
        if (PQconsumeInput(l->pg) != 1)
            return outrider__pg_fail(err, l->pg, NULL, "the replication connection is lost");
        len = PQgetCopyData(l->pg, &l->message, 1);
    }
    if (len == 0)
        return PQstatus(l->pg) == CONNECTION_BAD
                   ? outrider__pg_fail(err, l->pg, NULL, "the replication connection is lost")
                   : 0;
    if (len < 0)
        return link_fail_ended(l, err);
    l->heard_us = now.mono_us;
    return link_parse(l, len, ret, err);
}

static void link_put_u64(char *out, uint64_t v)
{
    uint64_t be = htobe64(v);
    memcpy(out, &be, sizeof be);
}

int outrider__cdc_link_status(struct cdc_link *l, uint64_t received, uint64_t confirmed,
                              int64_t wall_us, bool wants_reply, struct outrider_error *err)
{
    char reply[34] = {'r'};
    link_put_u64(reply + 1, received > confirmed ? received : confirmed);
    link_put_u64(reply + 9, confirmed);
    link_put_u64(reply + 17, confirmed);
    link_put_u64(reply + 25, (uint64_t)(wall_us - CDC_EPOCH_US));
    reply[33] = (char)wants_reply;
    if (PQputCopyData(l->pg, reply, sizeof reply) < 0)
        return outrider__pg_fail(err, l->pg, NULL, "cannot confirm");
    return link_flush(l, err);
}

int outrider__cdc_link_fds(const struct cdc_link *l, bool wants_read, struct pollfd *ret_fds,
                           int max)
{
    if (l->pg == NULL || l->state == LINK_CLOSED || max < 1 || PQsocket(l->pg) < 0)
        return 0;
    short events = (short)((wants_read ? POLLIN : 0) | (l->wants_write ? POLLOUT : 0));
    if (l->state == LINK_CONNECTING)
        events = l->wants == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (events == 0)
        return 0;
    ret_fds[0] = (struct pollfd){.fd = PQsocket(l->pg), .events = events};
    return 1;
}

void outrider__cdc_link_close(struct cdc_link *l)
{
    if (l->message != NULL)
        PQfreemem(l->message);
    PQclear(l->result);
    if (l->pg != NULL)
        PQfinish(l->pg);
    *l = (struct cdc_link){.state = LINK_CLOSED};
}
