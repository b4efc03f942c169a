/* SPDX-License-Identifier: MIT */
/*
 * What each error of librdkafka means for an event: one table. The producer
 * itself tries again, without end, whatever it can; what comes back is final
 * for that try.
 */
#include "sink/kafka/kafka.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define E(name) RD_KAFKA_RESP_ERR_##name

/* clang-format off */
static const struct kafka_verdict table[] = {
    /* This event can never work. */
    {E(MSG_SIZE_TOO_LARGE), SINK_DEAD, KAFKA_BATCH, OUTRIDER_TOO_LARGE,
     "is too large: raise the topic's max.message.bytes, or sink.kafka.message.max.bytes where that is smaller"},
    {E(RECORD_LIST_TOO_LARGE), SINK_DEAD, KAFKA_BATCH, OUTRIDER_TOO_LARGE,
     "is larger than the topic's segment.bytes"},
    {E(INVALID_RECORD), SINK_DEAD, KAFKA_BATCH, OUTRIDER_REJECTED,
     "was refused as invalid: a compacted topic, for example, takes no message without a key"},
    {E(UNSUPPORTED_FOR_MESSAGE_FORMAT), SINK_DEAD, KAFKA_BATCH, OUTRIDER_REJECTED,
     "was refused: the topic's message format is too old for headers or timestamps"},
    {E(POLICY_VIOLATION), SINK_DEAD, KAFKA_BATCH, OUTRIDER_REJECTED, "was refused by a policy of the broker"},
    {E(TOPIC_EXCEPTION), SINK_DEAD, KAFKA_TOPIC, OUTRIDER_TOPIC, "is not a topic that the broker accepts"},
    {E(_INVALID_ARG), SINK_DEAD, KAFKA_RECORD, OUTRIDER_REJECTED, NULL},

    /* The same bytes may work later; this event's lane waits, others go on. */
    {E(UNKNOWN_TOPIC_OR_PART), SINK_RETRY, KAFKA_TOPIC, OUTRIDER_NOT_FOUND,
     "is missing, or has no such partition: create it, or set sink.create_topics"},
    {E(_UNKNOWN_TOPIC), SINK_RETRY, KAFKA_TOPIC, OUTRIDER_NOT_FOUND,
     "is missing: create it, or set sink.create_topics"},
    {E(_UNKNOWN_PARTITION), SINK_RETRY, KAFKA_RECORD, OUTRIDER_NOT_FOUND,
     "has no such partition as the event asks for: add partitions, or leave the event's partition out"},
    {E(TOPIC_AUTHORIZATION_FAILED), SINK_RETRY, KAFKA_TOPIC, OUTRIDER_AUTH,
     "may not be written to: allow this user Write and Describe on it"},
    {E(INVALID_TIMESTAMP), SINK_RETRY, KAFKA_BATCH, OUTRIDER_REJECTED,
     "was refused for its timestamp: it is too far from the broker's clock (message.timestamp.before.max.ms, after.max.ms)"},
    {E(INVALID_MSG), SINK_RETRY, KAFKA_BATCH, OUTRIDER_REJECTED, "arrived corrupted, or was refused as invalid"},
    {E(INVALID_MSG_SIZE), SINK_RETRY, KAFKA_BATCH, OUTRIDER_REJECTED, NULL},
    {E(THROTTLING_QUOTA_EXCEEDED), SINK_RETRY, KAFKA_TOPIC, OUTRIDER_REJECTED, NULL},

    /* Nobody's fault: the cluster, or the way there. */
    {E(_ALL_BROKERS_DOWN), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(_TRANSPORT), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(_RESOLVE), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(_SSL), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(_TIMED_OUT), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_TIMEOUT, NULL},
    {E(_MSG_TIMED_OUT), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_TIMEOUT, NULL},
    {E(_TIMED_OUT_QUEUE), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_TIMEOUT, NULL},
    {E(LEADER_NOT_AVAILABLE), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(NOT_LEADER_FOR_PARTITION), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(REQUEST_TIMED_OUT), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_TIMEOUT, NULL},
    {E(BROKER_NOT_AVAILABLE), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(REPLICA_NOT_AVAILABLE), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(NETWORK_EXCEPTION), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(NOT_ENOUGH_REPLICAS), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN,
     "has fewer replicas in sync than min.insync.replicas"},
    {E(NOT_ENOUGH_REPLICAS_AFTER_APPEND), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN,
     "has fewer replicas in sync than min.insync.replicas"},
    {E(KAFKA_STORAGE_ERROR), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, "is on a disk that failed on the broker"},
    {E(FENCED_LEADER_EPOCH), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(UNKNOWN_LEADER_EPOCH), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},
    {E(_DESTROY), SINK_DOWN, KAFKA_TOPIC, OUTRIDER_SINK_DOWN, NULL},

    /* Only this producer is at its end: the same goes through the next one. */
    {E(_PURGE_QUEUE), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(_PURGE_INFLIGHT), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(_FATAL), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(_GAPLESS_GUARANTEE), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(_INCONSISTENT), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(OUT_OF_ORDER_SEQUENCE_NUMBER), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(DUPLICATE_SEQUENCE_NUMBER), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(UNKNOWN_PRODUCER_ID), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(INVALID_PRODUCER_EPOCH), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(PRODUCER_FENCED), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    /* Something else has failed the transaction. */
    {E(_STATE), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},
    {E(_FENCED), SINK_UNTRIED, KAFKA_RECORD, OUTRIDER_CANCELLED, NULL},

    /* A person must act first. */
    {E(_AUTHENTICATION), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH,
     "cannot be reached: the broker refuses these credentials (user, password, sasl.mechanism)"},
    {E(SASL_AUTHENTICATION_FAILED), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH,
     "cannot be reached: the broker refuses these credentials (user, password, sasl.mechanism)"},
    {E(UNSUPPORTED_SASL_MECHANISM), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH,
     "cannot be reached: the broker does not know this sasl.mechanism"},
    {E(ILLEGAL_SASL_STATE), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH, NULL},
    {E(CLUSTER_AUTHORIZATION_FAILED), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH,
     "cannot be written to: allow this user IdempotentWrite on the cluster"},
    {E(TRANSACTIONAL_ID_AUTHORIZATION_FAILED), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH, NULL},
    {E(SECURITY_DISABLED), SINK_STOP, KAFKA_TOPIC, OUTRIDER_AUTH, NULL},
    {E(UNSUPPORTED_VERSION), SINK_STOP, KAFKA_TOPIC, OUTRIDER_UNSUPPORTED, NULL},
    {E(UNSUPPORTED_COMPRESSION_TYPE), SINK_STOP, KAFKA_TOPIC, OUTRIDER_CONFIG,
     "does not take this compression: change sink.kafka.compression.type"},
    {E(INVALID_REQUIRED_ACKS), SINK_STOP, KAFKA_TOPIC, OUTRIDER_CONFIG, NULL},
    {E(_UNSUPPORTED_FEATURE), SINK_STOP, KAFKA_TOPIC, OUTRIDER_UNSUPPORTED, NULL},
};
/* clang-format on */

#define N_ROWS (sizeof table / sizeof *table)

static const struct kafka_verdict other = {RD_KAFKA_RESP_ERR_UNKNOWN, SINK_RETRY, KAFKA_BATCH,
                                           OUTRIDER_REJECTED, NULL};

const struct kafka_verdict *outrider__kafka_verdicts(size_t *ret_n)
{
    *ret_n = N_ROWS;
    return table;
}

const struct kafka_verdict *outrider__kafka_verdict(rd_kafka_resp_err_t err)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (table[i].err == err)
            return &table[i];
    return &other;
}

void outrider__kafka_explain(const struct kafka_verdict *v, rd_kafka_resp_err_t err,
                             const char *topic, struct outrider_error *ret_why)
{
    enum outrider_disposition d = v->result == SINK_DEAD   ? OUTRIDER_DEAD
                                  : v->result == SINK_STOP ? OUTRIDER_STOP
                                                           : OUTRIDER_RETRY;
    const char *own = rd_kafka_err2str(err);
    if (v->text != NULL && v->scope == KAFKA_BATCH)
        outrider__fail(ret_why, v->code, d, "the event %s (topic '%.249s': %s)", v->text, topic,
                       own);
    else if (v->text != NULL)
        outrider__fail(ret_why, v->code, d, "topic '%.249s' %s (%s)", topic, v->text, own);
    else
        outrider__fail(ret_why, v->code, d, "topic '%.249s': %s", topic, own);
    outrider__error_origin(ret_why, rd_kafka_err2name(err));
}

/* What librdkafka says of a connection that fails, where it is no use to a person. */
static const struct {
    const char *theirs, *ours;
} reasons[] = {
    {"certificate verify failed",
     "certificate verify failed: no authority in ssl.ca.location vouches for the broker, or its "
     "certificate is for another host name"},
    {"unexpected eof while reading",
     "the TLS handshake failed: it does not speak TLS on this port (security.protocol)"},
    {"wrong version number",
     "the TLS handshake failed: it does not speak TLS on this port (security.protocol)"},
    {"connecting to a SSL listener", "it ends the connection: it speaks TLS on this port "
                                     "(security.protocol), or is no Kafka broker"},
    {"might require SASL",
     "it ends the connection: it asks for a user and a password (kafka://user:password@host)"},
    {"not valid in current SASL state", "it asks for no password on this port (security.protocol)"},
    {"Invalid response size", "what answers there is no Kafka broker, or speaks TLS "
                              "(security.protocol)"},
};

void outrider__kafka_reason(const char *text, char *ret, size_t size)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(text, reasons[i].theirs) != NULL) {
            (void)snprintf(ret, size, "%s", reasons[i].ours);
            return;
        }
    (void)snprintf(ret, size, "%s", text);
    char *bookkeeping = strstr(ret, " (after ");
    if (bookkeeping != NULL)
        *bookkeeping = '\0';
}

int outrider__kafka_no_handle(const rd_kafka_conf_t *conf, const char *what, const char *why,
                              struct outrider_error *err)
{
    static const char *const files[] = {"ssl.ca.location", "ssl.certificate.location",
                                        "ssl.key.location", "ssl.keystore.location",
                                        "ssl.crl.location"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512] = "";
        size_t size = sizeof path;
        if (rd_kafka_conf_get(conf, files[i], path, &size) != RD_KAFKA_CONF_OK || path[0] == '\0' ||
            strcmp(path, "probe") == 0 || access(path, R_OK) == 0)
            continue;
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "%s: cannot read '%.300s': %s",
                              files[i], path, strerror(errno));
    }
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "cannot make a Kafka %s: %s", what,
                          why);
}
