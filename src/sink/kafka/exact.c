/* SPDX-License-Identifier: MIT */
/*
 * Exactly once: the transactions of a pipeline's only producer.
 *
 * librdkafka's calls for transactions block, so a thread makes them, one job at
 * a time; it never touches anything of the sink but struct kafka_exact. Records
 * go in and come back on the pipeline's thread as they always do.
 *
 *  (1) A transaction is always begun when the sink is not busy.
 *  (2) The job OPEN shuts out whoever had the transactional id before, and only
 *      then reads what they committed.
 *  (3) Whatever goes wrong with a commit, the sink is lost: whether it came true
 *      is read by the next OPEN.
 */
#include "sink/kafka/kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/failpoint.h"

/* How long one call of librdkafka may block. The thread can end only between two calls. */
#define STEP_MS 100
/* After a commit the broker writes the end of the transaction into each partition. Meanwhile
 * it refuses the next transaction, and librdkafka asks again only after 20 ms. */
#define REST_US 2000
/* A job that takes longer than this is an outage. */
#define TROUBLE_US 3000000
/* Give up after this many consecutive aborts without a culprit. */
#define BLANKS_MAX 5

int outrider__kafka_exact_conf(const struct kafka_sink *k, rd_kafka_conf_t *conf,
                               struct outrider_error *err)
{
    char timeout[32] = "60000", why[256];
    size_t size = sizeof timeout;
    (void)rd_kafka_conf_get(conf, "transaction.timeout.ms", timeout, &size);
    struct {
        const char *name, *value;
    } all[] = {
        {"transactional.id", k->exact.transactional_id},
        /* A transaction that failed is aborted: nothing follows what was rejected. */
        {"enable.gapless.guarantee", "false"},
        /* The broker ends the transaction then. */
        {"message.timeout.ms", timeout},
        /* Of no use to a producer but to ask for the end of a topic, open transactions included. */
        {"isolation.level", "read_uncommitted"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (rd_kafka_conf_set(conf, all[i].name, all[i].value, why, sizeof why) != RD_KAFKA_CONF_OK)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "exactly_once: %s", why);
    return 0;
}

bool outrider__kafka_exact_is_closing(struct kafka_exact *x)
{
    pthread_mutex_lock(&x->mutex);
    bool is_closing = x->is_closing;
    pthread_mutex_unlock(&x->mutex);
    return is_closing;
}

/* Keeps the reason why a job takes long; for people. */
void outrider__kafka_exact_trouble(struct kafka_exact *x, const char *text)
{
    pthread_mutex_lock(&x->mutex);
    (void)snprintf(x->trouble, sizeof x->trouble, "%s", text);
    pthread_mutex_unlock(&x->mutex);
}

/* Without the right to write progress every transaction fails, because each one writes it. */
static bool exact_is_progress_denied(struct kafka_exact *x)
{
    pthread_mutex_lock(&x->end->mutex);
    bool is_denied = strcmp(x->end->denied, kafka_options(x->config)->progress_topic) == 0;
    pthread_mutex_unlock(&x->end->mutex);
    return is_denied;
}

int outrider__kafka_exact_fail(struct kafka_exact *x, rd_kafka_resp_err_t code, const char *what,
                               const char *text, struct outrider_error *err)
{
    const struct kafka_verdict *v = outrider__kafka_verdict(code);
    bool is_fenced = code == RD_KAFKA_RESP_ERR__FENCED ||
                     code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
                     code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
    if (is_fenced)
        outrider__fail(err, OUTRIDER_FENCED, OUTRIDER_RETRY,
                       "Kafka has shut this relay out: another one publishes as '%.200s', or a "
                       "transaction took longer than transaction.timeout.ms",
                       x->transactional_id);
    else if (code == RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                       "exactly_once: allow this user Write and Describe on the transactional id "
                       "'%.200s' (or on all that begin with 'outrider:'): %s",
                       x->transactional_id, text);
    else if (exact_is_progress_denied(x))
        outrider__fail(err, OUTRIDER_AUTH, OUTRIDER_STOP,
                       "exactly_once: allow this user Write on topic '%.249s', which holds the "
                       "progress: %s",
                       kafka_options(x->config)->progress_topic, text);
    else
        outrider__fail(err, v->result == SINK_STOP ? v->code : OUTRIDER_SINK_DOWN,
                       v->result == SINK_STOP ? OUTRIDER_STOP : OUTRIDER_RETRY,
                       "exactly_once: cannot %s: %s", what, text);
    outrider__error_origin(err, rd_kafka_err2name(code));
    return -1;
}

/* Repeats the call until librdkafka has an answer. */
static int exact_call(struct kafka_exact *x, rd_kafka_error_t *(*step)(rd_kafka_t *, int),
                      const char *what, struct outrider_error *err)
{
    for (;;) {
        rd_kafka_error_t *e = step(x->rk, STEP_MS);
        if (e == NULL)
            return 0;
        rd_kafka_resp_err_t code = rd_kafka_error_code(e);
        bool again = rd_kafka_error_is_retriable(e) && !rd_kafka_error_is_fatal(e) &&
                     !outrider__kafka_exact_is_closing(x);
        if (!again)
            (void)outrider__kafka_exact_fail(x, code, what, rd_kafka_error_string(e), err);
        else if (code != RD_KAFKA_RESP_ERR__TIMED_OUT)
            outrider__kafka_exact_trouble(x, rd_kafka_error_string(e));
        rd_kafka_error_destroy(e);
        if (!again)
            return -1;
        if (code != RD_KAFKA_RESP_ERR__TIMED_OUT)
            usleep(STEP_MS * 1000);
    }
}

static int exact_begin_transaction(struct kafka_exact *x, struct outrider_error *err)
{
    rd_kafka_error_t *e = rd_kafka_begin_transaction(x->rk);
    if (e == NULL)
        return 0;
    (void)outrider__kafka_exact_fail(x, rd_kafka_error_code(e), "begin a transaction",
                                     rd_kafka_error_string(e), err);
    rd_kafka_error_destroy(e);
    return -1;
}

static int exact_do_job(struct kafka_exact *x, enum kafka_job job, struct commit_mark *ret_found,
                        struct outrider_error *err)
{
    switch (job) {
    case JOB_OPEN:
        if (exact_call(x, rd_kafka_init_transactions, "begin with transactions", err) < 0 ||
            outrider__kafka_progress_read(x, ret_found, err) < 0)
            return -1;
        break;
    case JOB_COMMIT:
        if (exact_call(x, rd_kafka_commit_transaction, "commit", err) < 0)
            return -1;
        break;
    case JOB_ABORT:
        if (exact_call(x, rd_kafka_abort_transaction, "abort a transaction", err) < 0)
            return -1;
        break;
    default:
        return 0;
    }
    return exact_begin_transaction(x, err);
}

static void *exact_work(void *arg)
{
    struct kafka_exact *x = arg;
    static const uint64_t one = 1;
    pthread_mutex_lock(&x->mutex);
    while (!x->is_closing) {
        if (x->job == JOB_NONE || x->is_done) {
            pthread_cond_wait(&x->wake, &x->mutex);
            continue;
        }
        enum kafka_job job = x->job;
        struct commit_mark found = {0};
        struct outrider_error err;
        pthread_mutex_unlock(&x->mutex);
        int result = exact_do_job(x, job, &found, &err);
        pthread_mutex_lock(&x->mutex);
        x->result = result;
        x->found = found;
        if (result < 0)
            x->error = err;
        x->is_done = true;
        if (write(x->event_fd, &one, sizeof one) < 0)
            x->is_done = true; /* the counter is full, so the descriptor is readable already */
    }
    pthread_mutex_unlock(&x->mutex);
    return NULL;
}

static void exact_start_job(struct kafka_sink *k, enum kafka_job job)
{
    struct kafka_exact *x = &k->exact;
    k->base.is_busy = true;
    x->began_us = k->now.mono_us;
    pthread_mutex_lock(&x->mutex);
    x->job = job;
    x->is_done = false;
    x->trouble[0] = '\0';
    pthread_cond_signal(&x->wake);
    pthread_mutex_unlock(&x->mutex);
}

/*
 * A topic that this user may not write to fails the whole transaction, and
 * librdkafka says which one it was in its log only.
 */
static void exact_on_log(const rd_kafka_t *rk, int level, const char *fac, const char *text)
{
    static const char mark[] = "Failed to add partition \"";
    struct kafka_end *e = rd_kafka_opaque(rk);
    const char *at = strcmp(fac, "ADDPARTS") == 0 ? strstr(text, mark) : NULL;
    (void)level;
    if (at == NULL || e == NULL)
        return;
    at += sizeof mark - 1;
    pthread_mutex_lock(&e->mutex);
    (void)snprintf(e->denied, sizeof e->denied, "%.*s", (int)strcspn(at, "\""), at);
    pthread_mutex_unlock(&e->mutex);
}

int outrider__kafka_exact_open(struct kafka_sink *k, struct outrider_error *err)
{
    struct kafka_exact *x = &k->exact;
    size_t size = strlen(k->base.identity) + sizeof "outrider:";
    *x = (struct kafka_exact){.config = k->config, .event_fd = k->event_fd};
    pthread_mutex_init(&x->mutex, NULL);
    pthread_cond_init(&x->wake, NULL);
    x->is_on = true;
    k->base.rest_us = REST_US;
    x->transactional_id = malloc(size);
    x->end = outrider__kafka_end_new();
    x->servers = k->settings.servers;
    x->replication = k->settings.new_replication;
    if (outrider__kafka_endings_check(x->servers, err) < 0)
        return -1;
    if (x->transactional_id == NULL || x->end == NULL)
        return outrider__fail_nomem(err);
    (void)snprintf(x->transactional_id, size, "outrider:%s", k->base.identity);
    x->key = x->transactional_id + strlen("outrider:");
    return 0;
}

void outrider__kafka_exact_events(struct kafka_sink *k, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, k->exact.end);
    rd_kafka_conf_set_log_cb(conf, exact_on_log);
}

int outrider__kafka_exact_start(struct kafka_sink *k, struct outrider_error *err)
{
    struct kafka_exact *x = &k->exact;
    x->rk = k->fast.rk;
    if (pthread_create(&x->thread, NULL, exact_work, x) != 0)
        return outrider__fail(err, OUTRIDER_NOMEM, OUTRIDER_RETRY, "cannot start a thread");
    x->has_thread = true;
    exact_start_job(k, JOB_OPEN);
    return 0;
}

void outrider__kafka_exact_end(struct kafka_sink *k)
{
    struct kafka_exact *x = &k->exact;
    if (!x->is_on)
        return;
    pthread_mutex_lock(&x->mutex);
    x->is_closing = true;
    pthread_cond_signal(&x->wake);
    pthread_mutex_unlock(&x->mutex);
    if (x->has_thread)
        pthread_join(x->thread, NULL);
    x->has_thread = false;
}

void outrider__kafka_exact_close(struct kafka_sink *k, struct kafka_producer *s)
{
    struct kafka_exact *x = &k->exact;
    bool has_commit = x->job == JOB_COMMIT && (!x->is_done || x->result < 0);
    outrider__kafka_end(x->end, s, has_commit);
    x->end = NULL;
}

void outrider__kafka_exact_release(struct kafka_sink *k)
{
    struct kafka_exact *x = &k->exact;
    if (!x->is_on)
        return;
    outrider__kafka_end_free(x->end);
    pthread_mutex_destroy(&x->mutex);
    pthread_cond_destroy(&x->wake);
    free(x->transactional_id);
    *x = (struct kafka_exact){0};
}

/* The record of progress joins the transaction. */
static rd_kafka_resp_err_t exact_write_progress(struct kafka_sink *k)
{
    const struct kafka_exact *x = &k->exact;
    char value[96];
    int n = snprintf(value, sizeof value, "{\"no\":%llu,\"stamp\":\"%llu\"}",
                     (unsigned long long)x->next.no, (unsigned long long)x->next.stamp);
    return rd_kafka_producev(
        x->rk, RD_KAFKA_V_TOPIC(kafka_options(k->config)->progress_topic), RD_KAFKA_V_PARTITION(0),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(x->key, strlen(x->key)),
        RD_KAFKA_V_VALUE(value, (size_t)n), RD_KAFKA_V_OPAQUE(NULL), RD_KAFKA_V_END);
}

/*
 * The progress goes with the last events, not after them: its partition has to
 * be added to the transaction first. And not before them: while a transaction
 * is open, whoever else reads the progress waits for it.
 */
void outrider__kafka_exact_seal(struct sink *s, struct commit_mark progress, struct instant now)
{
    struct kafka_sink *k = kafka_of(s);
    struct kafka_exact *x = &k->exact;
    k->now = now;
    x->next = progress;
    (void)FAILPOINT("kafka.before_progress");
    /* If the producer has no room now, commit() writes the progress. */
    x->is_marked = exact_write_progress(k) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

void outrider__kafka_exact_commit(struct sink *s, struct instant now)
{
    struct kafka_sink *k = kafka_of(s);
    struct kafka_exact *x = &k->exact;
    k->now = now;
    x->refused = x->is_marked ? RD_KAFKA_RESP_ERR_NO_ERROR : exact_write_progress(k);
    s->is_busy = true;
    if (x->refused == RD_KAFKA_RESP_ERR_NO_ERROR)
        exact_start_job(k, JOB_COMMIT);
    s->wake_us = now.mono_us;
}

void outrider__kafka_exact_abort(struct sink *s, struct instant now)
{
    struct kafka_sink *k = kafka_of(s);
    k->now = now;
    k->order.now_us = now.mono_us;
    outrider__order_give_back(&k->order);
    exact_start_job(k, JOB_ABORT);
    s->wake_us = now.mono_us;
}

/* The transaction is aborted. If no message was the culprit, a topic may be. */
static int exact_aborted(struct kafka_sink *k, struct outrider_error *err)
{
    struct kafka_exact *x = &k->exact;
    char denied[sizeof x->end->denied];
    if (exact_is_progress_denied(x)) {
        const rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        return outrider__kafka_exact_fail(x, code, "commit", rd_kafka_err2str(code), err);
    }
    pthread_mutex_lock(&x->end->mutex);
    memcpy(denied, x->end->denied, sizeof denied);
    x->end->denied[0] = '\0';
    pthread_mutex_unlock(&x->end->mutex);
    x->n_blanks = x->n_verdicts > 0 || denied[0] != '\0' ? 0 : x->n_blanks + 1;
    x->n_verdicts = 0;
    outrider__kafka_deny(k, denied);
    if (x->n_blanks < BLANKS_MAX)
        return 0;
    return outrider__fail(err, OUTRIDER_SINK_DOWN, OUTRIDER_RETRY,
                          "Kafka at %.200s fails one transaction after the other, and does not say "
                          "for which event%s%.100s",
                          x->servers, k->fast.last_error[0] != '\0' ? ": " : "",
                          k->fast.last_error);
}

static void exact_check_trouble(struct kafka_sink *k)
{
    struct kafka_exact *x = &k->exact;
    int64_t at = x->began_us + TROUBLE_US;
    if (k->now.mono_us < at) {
        k->base.wake_us = at < k->base.wake_us ? at : k->base.wake_us;
        return;
    }
    pthread_mutex_lock(&x->mutex);
    const char *why = x->trouble[0] != '\0' ? x->trouble : k->fast.last_error;
    (void)snprintf(k->base.trouble, sizeof k->base.trouble,
                   "Kafka at %.80s does not answer%s%.100s", x->servers, why[0] != '\0' ? ": " : "",
                   why);
    pthread_mutex_unlock(&x->mutex);
}

int outrider__kafka_exact_poll(struct kafka_sink *k, struct outrider_error *err)
{
    struct kafka_exact *x = &k->exact;
    if (!x->is_on || !k->base.is_busy)
        return 0;
    if (x->refused != RD_KAFKA_RESP_ERR_NO_ERROR)
        return outrider__kafka_exact_fail(x, x->refused, "write the progress",
                                          rd_kafka_err2str(x->refused), err);
    pthread_mutex_lock(&x->mutex);
    bool is_done = x->is_done;
    enum kafka_job job = x->job;
    int result = x->result;
    if (is_done && result < 0 && err != NULL)
        *err = x->error;
    pthread_mutex_unlock(&x->mutex);
    if (!is_done || (job == JOB_ABORT && result == 0 && k->order.n_messages > 0)) {
        exact_check_trouble(k);
        return 0;
    }
    if (result < 0 || (job == JOB_ABORT && exact_aborted(k, err) < 0))
        return -1;
    if (job == JOB_OPEN)
        k->base.progress = x->found;
    if (job == JOB_COMMIT) {
        k->base.progress = x->next;
        x->n_blanks = x->n_verdicts = 0;
    }
    k->base.is_busy = false;
    k->base.trouble[0] = '\0';
    k->base.wake_us = k->now.mono_us;
    return 0;
}
