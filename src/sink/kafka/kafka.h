/* SPDX-License-Identifier: MIT */
/*
 * What the files of the Kafka sink share: kafka.c (the seam), kafka/flow.c (messages to
 * a producer and back), kafka/topic.c (topics), kafka/producer.c (producers),
 * kafka/exact.c, kafka/progress.c and kafka/end.c (exactly once), kafka/config.c,
 * kafka/error.c, kafka/doctor.c.
 *
 * sink/common/order.h keeps the order of lanes; a group there is a topic. The broker
 * rejects whole batches, and librdkafka goes on behind a rejected batch, so that later
 * messages would overtake those of the batch. Therefore the sink has two producers:
 *
 *  - The fast producer carries many messages of a lane at once. Any rejection ends the
 *    fast producer (enable.gapless.guarantee), so that nothing goes out behind a rejected
 *    batch. This holds only where the broker knows the producer's sequence in the
 *    partition. So a lane's second message waits for the acknowledgement of the first;
 *    then the lane is trusted, and may_follow() says yes.
 *  - The careful producer carries the topics that are careful. The sink makes it on
 *    first use.
 *
 * With exactly_once there is one producer. Its messages become visible in a transaction
 * together or not at all, so no lane has to wait for trust.
 */
#ifndef SINK_KAFKA_H
#define SINK_KAFKA_H

#include "core/config.h"
#include "core/sink.h"
#include "sink/common/order.h"
#include "sink/kafka/options.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>

/* kafka/error.c: what an error of librdkafka means for the event. */
enum kafka_scope {
    KAFKA_RECORD, /* of this record alone, said by the client */
    KAFKA_BATCH,  /* of a batch, said by the broker: any record in it may be the cause */
    KAFKA_TOPIC   /* of every record of the topic */
};

struct kafka_verdict {
    rd_kafka_resp_err_t err;
    enum sink_result result;
    enum kafka_scope scope;
    enum outrider_code code;
    const char *text; /* what it is and the way out, or NULL: librdkafka's own words */
};

/* Never NULL: an error that is not in the table is worth another try. */
const struct kafka_verdict *outrider__kafka_verdict(rd_kafka_resp_err_t err);
const struct kafka_verdict *outrider__kafka_verdicts(size_t *ret_n);
/* Fills *ret_why with what the verdict says of the topic. */
void outrider__kafka_explain(const struct kafka_verdict *v, rd_kafka_resp_err_t err,
                             const char *topic, struct outrider_error *ret_why);
/* Why there is no connection, in librdkafka's words or in plainer ones. */
void outrider__kafka_reason(const char *text, char *ret, size_t size);
/* Why rd_kafka_new() failed: it does not name a file that it cannot read. */
int outrider__kafka_no_handle(const rd_kafka_conf_t *conf, const char *what, const char *why,
                              struct outrider_error *err);

/* kafka/config.c */
struct kafka_settings {
    char *servers;       /* "h:p,h:p" */
    bool is_mock;        /* librdkafka's own cluster, for tests */
    bool ordered;        /* of the pipeline */
    int new_partitions;  /* create_topics: 0 if not asked for */
    int new_replication; /* -1: as the broker likes */
    size_t max_records, max_bytes;
};

/* The configuration of a producer, with all of the pipeline's properties. */
int outrider__kafka_conf(const struct pipeline_config *c, bool careful, rd_kafka_conf_t **ret_conf,
                         struct kafka_settings *ret_settings, struct outrider_error *err);
void outrider__kafka_settings_release(struct kafka_settings *s);
/* Whether such a configuration can be had. */
int outrider__kafka_check(const struct pipeline_config *c, struct outrider_error *err);
/* The property that was most likely meant, or NULL. */
const char *outrider__kafka_nearest(const char *name, char *buffer, size_t size);

struct kafka_producer {
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    bool is_careful;
    bool is_exact; /* exactly once: its messages are in transactions */
    bool is_dying; /* rejected something: ends when its last message is back */
    size_t n_out;
    int64_t down_since_us; /* all brokers away, or 0 */
    int64_t dying_since_us;
    uint64_t *trusted; /* fast: lanes that were acknowledged, by hash */
    char last_error[256];
};

enum kafka_making { MAKE_NOT, MAKE_ASKED, MAKE_DONE };

struct kafka_topic {
    struct order_group group; /* must stay first: see topic_of() */
    struct kafka_topic *chain;
    char *name;
    bool is_denied;                  /* exactly once: it failed the last transaction */
    struct kafka_producer *producer; /* whose rkt it is, or NULL */
    rd_kafka_topic_t *rkt;
    enum kafka_making making; /* create_topics */
};

#define KAFKA_TOPIC_BUCKETS 256
#define KAFKA_TOPICS_MAX 1024
#define KAFKA_TRUST 16384

/* What of a producer with transactions may outlive its sink; the producer's opaque. */
struct kafka_end {
    pthread_mutex_t mutex;
    char denied[256]; /* under the mutex: a topic that cannot be part of a transaction */
    /* kafka/end.c only. */
    struct kafka_end *next;
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    size_t n_out;       /* records with bytes of a batch */
    bool has_commit;    /* a commit was asked for: an abort may be refused because of that */
    bool is_committing; /* an abort was */
    bool is_safe;       /* to destroy: (1) of kafka/end.c */
    bool is_ended;      /* nothing more can be done for the transaction */
};

enum kafka_job { JOB_NONE, JOB_OPEN, JOB_COMMIT, JOB_ABORT };

struct kafka_exact {
    bool is_on;
    const struct pipeline_config *config;
    const char *servers;
    char *transactional_id;
    const char *key; /* the identity, in there */
    int replication;
    rd_kafka_t *rk;
    struct kafka_end *end; /* NULL once the producer is closed */
    int event_fd;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    /* Under the mutex. */
    enum kafka_job job;
    bool is_done, is_closing;
    int result;
    struct outrider_error error;
    struct commit_mark found;
    char trouble[128];

    /* The pipeline's thread only. */
    int64_t began_us;
    struct commit_mark next;     /* of the transaction that is sealed */
    bool is_marked;              /* its record of progress is in it */
    rd_kafka_resp_err_t refused; /* the record of progress */
    size_t n_verdicts;           /* records that failed this transaction by themselves */
    unsigned n_blanks;           /* transactions in a row that failed, and none had */
};

struct kafka_sink {
    struct sink base; /* must stay first: see kafka_of() */
    const struct pipeline_config *config;
    struct kafka_settings settings;
    int event_fd;
    struct kafka_producer fast, careful;
    struct kafka_exact exact;
    struct instant now;

    struct order order;
    struct kafka_topic *topics[KAFKA_TOPIC_BUCKETS];
    size_t n_topics;
    int64_t progress_us; /* when something was last delivered, or began to wait */
    bool is_full;        /* the fast producer has no room, or there is none just now */
};

static inline struct kafka_sink *kafka_of(struct sink *s)
{
    return (struct kafka_sink *)s;
}

static inline struct kafka_topic *topic_of(struct order_group *g)
{
    return (struct kafka_topic *)g;
}

/* kafka/topic.c */
/* NULL: out of memory. */
struct kafka_topic *outrider__kafka_topic_get(struct kafka_sink *k, struct bytes name);
bool outrider__kafka_topic_is_valid(struct bytes name);
/* The topic's handle in the producer that serves it now; NULL: there is none just now. */
rd_kafka_topic_t *outrider__kafka_topic_handle(struct kafka_sink *k, struct kafka_topic *t);
void outrider__kafka_topics_forget(struct kafka_sink *k, const struct kafka_producer *s);
void outrider__kafka_topics_free(struct kafka_sink *k);
/* Makes this topic the denied one; "" denies none. */
void outrider__kafka_deny(struct kafka_sink *k, const char *topic);

/* kafka/producer.c */
int outrider__kafka_producer_open(struct kafka_sink *k, struct kafka_producer *s, bool careful,
                                  struct outrider_error *err);
/* Ends the producer and everything in it; nothing of it is reported. One that has a
 * commit under way may end later, on a thread of its own (kafka/end.c). */
void outrider__kafka_producer_close(struct kafka_sink *k, struct kafka_producer *s);
/* Takes an error of the client as a whole. */
int outrider__kafka_producer_error(struct kafka_sink *k, struct kafka_producer *s,
                                   rd_kafka_resp_err_t error, const char *text,
                                   struct outrider_error *err);
/* Replaces a producer that is at its end, sets base.trouble where nothing moves, and sets
 * the time of the next look. */
int outrider__kafka_producers_check(struct kafka_sink *k, struct outrider_error *err);

/* kafka/flow.c */
extern const struct order_ops outrider__kafka_order_ops;
/* A message came back from its producer. */
void outrider__kafka_returned(struct kafka_sink *k, struct kafka_producer *s,
                              struct order_message *m, rd_kafka_resp_err_t err);
/* Reports what is judged, and sends what may go now. */
void outrider__kafka_advance(struct kafka_sink *k);

/* kafka/exact.c; the first five are calls of the pipeline's thread. */
int outrider__kafka_exact_open(struct kafka_sink *k, struct outrider_error *err);
int outrider__kafka_exact_conf(const struct kafka_sink *k, rd_kafka_conf_t *conf,
                               struct outrider_error *err);
void outrider__kafka_exact_events(struct kafka_sink *k, rd_kafka_conf_t *conf);
int outrider__kafka_exact_start(struct kafka_sink *k, struct outrider_error *err);
int outrider__kafka_exact_poll(struct kafka_sink *k, struct outrider_error *err);
/* Before the producer is closed, instead of destroying it, and after. */
void outrider__kafka_exact_end(struct kafka_sink *k);
void outrider__kafka_exact_close(struct kafka_sink *k, struct kafka_producer *s);
void outrider__kafka_exact_release(struct kafka_sink *k);
void outrider__kafka_exact_seal(struct sink *s, struct commit_mark progress, struct instant now);
void outrider__kafka_exact_commit(struct sink *s, struct instant now);
void outrider__kafka_exact_abort(struct sink *s, struct instant now);
/* Any thread. */
bool outrider__kafka_exact_is_closing(struct kafka_exact *x);
void outrider__kafka_exact_trouble(struct kafka_exact *x, const char *text);
int outrider__kafka_exact_fail(struct kafka_exact *x, rd_kafka_resp_err_t code, const char *what,
                               const char *text, struct outrider_error *err);

/* kafka/end.c */
struct kafka_end *outrider__kafka_end_new(void);
void outrider__kafka_end_free(struct kafka_end *e);
/* Ends the producer, now or later, and frees e with it. */
void outrider__kafka_end(struct kafka_end *e, const struct kafka_producer *s, bool has_commit);
/* How many producers have been closed and not ended yet, in this process. */
size_t outrider__kafka_endings(void);
/* Fails where there are too many of them. */
int outrider__kafka_endings_check(const char *servers, struct outrider_error *err);

/* kafka/progress.c: what was last committed under the identity; nothing: no 0. */
int outrider__kafka_progress_read(struct kafka_exact *x, struct commit_mark *ret_found,
                                  struct outrider_error *err);

/* kafka/create.c: topics that are made because create_topics asks for it. */
void outrider__kafka_create_begin(struct kafka_sink *k, struct kafka_topic *t);
/* Asks again where the producer that was asked has ended. */
void outrider__kafka_create_again(struct kafka_sink *k);
void outrider__kafka_create_done(struct kafka_sink *k, rd_kafka_event_t *event);

/* kafka/doctor.c */
int outrider__kafka_doctor(const struct pipeline_config *c, finding_fn *found, void *ctx,
                           struct outrider_error *err);

extern const struct sink_ops outrider__sink_kafka;

#endif
