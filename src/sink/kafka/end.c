/* SPDX-License-Identifier: MIT */
/*
 * The end of a producer that has transactions.
 *
 * librdkafka ends the process (rdkafka_txnmgr.c: txn_req_cnt > 0) if a producer is
 * destroyed while a partition waits to be registered with the transaction: a timer
 * asks for that, and where the timer fires after rd_kafka_destroy() has begun, the
 * request fails before librdkafka has counted it. So:
 *
 *  (1) A producer is destroyed only when its timer registers nothing any more: the
 *      transaction was never begun, is being aborted, has failed, or is being
 *      committed and no record of it is left to send.
 *  (2) rd_kafka_abort_transaction() enters the state of an abort before anything
 *      else, and needs no broker for that. What it does then is done for those who
 *      read: the broker ends the transaction now, not after transaction.timeout.ms.
 *  (3) A commit that has begun cannot be aborted; it is asked for again until the
 *      record of progress is sent. close() waits for that within a bound, and then
 *      leaves the producer to a thread. The record is sent, or it fails after
 *      transaction.timeout.ms: the thread ends either way.
 *  (4) The thread knows nothing of the sink. A producer that it gets has no record
 *      with bytes of a batch: a commit is asked for when all of them are reported.
 */
#include "sink/kafka/kafka.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define CLOSE_US 300000
#define CLOSE_STEP_MS 5
#define STEP_MS 100
/* More producers than this that do not end: something is wrong for good. */
#define ENDINGS_MAX 8

/* Guards the producers that are left to the thread. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct kafka_end *endings;
static size_t n_endings;
static bool has_thread;

struct kafka_end *outrider__kafka_end_new(void)
{
    struct kafka_end *e = calloc(1, sizeof *e);
    if (e != NULL)
        pthread_mutex_init(&e->mutex, NULL);
    return e;
}

void outrider__kafka_end_free(struct kafka_end *e)
{
    if (e == NULL)
        return;
    pthread_mutex_destroy(&e->mutex);
    free(e);
}

size_t outrider__kafka_endings(void)
{
    pthread_mutex_lock(&mutex);
    size_t n = n_endings;
    pthread_mutex_unlock(&mutex);
    return n;
}

int outrider__kafka_endings_check(const char *servers, struct outrider_error *err)
{
    size_t n = outrider__kafka_endings();
    if (n < ENDINGS_MAX)
        return 0;
    return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY,
                          "exactly_once: %zu transactions of earlier connections have not ended "
                          "yet, because Kafka at %.200s does not answer; waiting for them",
                          n, servers);
}

/* Nobody else takes the reports any more, and librdkafka waits until somebody has. */
static void end_drain(struct kafka_end *e)
{
    rd_kafka_event_t *event;
    const rd_kafka_message_t *m;
    while ((event = rd_kafka_queue_poll(e->queue, 0)) != NULL) {
        while (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR &&
               (m = rd_kafka_event_message_next(event)) != NULL)
            e->n_out -= m->_private != NULL;
        rd_kafka_event_destroy(event);
    }
}

static bool end_is_refused(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__CONFLICT || code == RD_KAFKA_RESP_ERR__STATE;
}

static void end_try_abort(struct kafka_end *e, int timeout_ms)
{
    rd_kafka_error_t *why = rd_kafka_abort_transaction(e->rk, timeout_ms);
    if (why != NULL && end_is_refused(rd_kafka_error_code(why)) && e->has_commit) {
        e->is_committing = true;
    } else {
        e->is_safe = true;
        e->is_ended = why == NULL || !rd_kafka_error_is_retriable(why) ||
                      rd_kafka_error_is_fatal(why) || end_is_refused(rd_kafka_error_code(why));
    }
    if (why != NULL)
        rd_kafka_error_destroy(why);
}

static void end_try_commit(struct kafka_end *e, int timeout_ms)
{
    bool is_sent = rd_kafka_outq_len(e->rk) == 0;
    rd_kafka_error_t *why = rd_kafka_commit_transaction(e->rk, timeout_ms);
    if (why == NULL || rd_kafka_error_is_fatal(why)) {
        e->is_safe = e->is_ended = true;
    } else if (!rd_kafka_error_is_retriable(why) || end_is_refused(rd_kafka_error_code(why))) {
        e->is_committing = e->has_commit = false; /* failed: it can be aborted */
    } else {
        e->is_safe = is_sent;
        if (rd_kafka_error_code(why) != RD_KAFKA_RESP_ERR__TIMED_OUT)
            usleep((useconds_t)timeout_ms * 1000);
    }
    if (why != NULL)
        rd_kafka_error_destroy(why);
}

static void end_go_on(struct kafka_end *e, int timeout_ms)
{
    end_drain(e);
    if (e->is_committing)
        end_try_commit(e, timeout_ms);
    else
        end_try_abort(e, timeout_ms);
    end_drain(e);
}

static void end_destroy(struct kafka_end *e)
{
    if (e->n_out > 0)
        (void)rd_kafka_purge(e->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                        RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_queue_destroy(e->queue);
    /* Joins the producer's threads: after this call no thread reads a payload. */
    rd_kafka_destroy(e->rk);
    outrider__kafka_end_free(e);
}

/* The one after e, or the first; e is taken out if it is safe. */
static struct kafka_end *end_advance(struct kafka_end *e)
{
    struct kafka_end *next, **at = &endings;
    pthread_mutex_lock(&mutex);
    next = e->next;
    if (e->is_safe) {
        while (*at != e)
            at = &(*at)->next;
        *at = next;
    }
    if (next == NULL)
        next = endings;
    pthread_mutex_unlock(&mutex);
    if (e->is_safe) {
        end_destroy(e);
        pthread_mutex_lock(&mutex);
        n_endings--;
        next = endings;
        has_thread = next != NULL;
        pthread_mutex_unlock(&mutex);
    }
    return next;
}

static void *end_work(void *first)
{
    struct kafka_end *e = first;
    while (e != NULL) {
        end_go_on(e, STEP_MS);
        e = end_advance(e);
    }
    return NULL;
}

static void end_leave_to_thread(struct kafka_end *e)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    e->next = endings;
    endings = e;
    n_endings++;
    if (!has_thread && pthread_attr_init(&attr) == 0) {
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        /* Without a thread the producer stays until a thread begins for the next one. */
        has_thread = pthread_create(&thread, &attr, end_work, e) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
    }
    pthread_mutex_unlock(&mutex);
}

void outrider__kafka_end(struct kafka_end *e, const struct kafka_producer *s, bool has_commit)
{
    int64_t deadline = outrider__clock_now().mono_us + CLOSE_US;
    e->rk = s->rk;
    e->queue = s->queue;
    e->n_out = s->n_out;
    e->has_commit = has_commit;
    do
        end_go_on(e, CLOSE_STEP_MS);
    while (!e->is_ended &&
           (outrider__clock_now().mono_us < deadline || (!e->is_safe && e->n_out > 0)));
    if (e->is_safe)
        end_destroy(e);
    else
        end_leave_to_thread(e);
}
