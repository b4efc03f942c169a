/* SPDX-License-Identifier: MIT */
/* Topics: the names, the handles in a producer, the bound on how many are kept. */
#include "sink/kafka/kafka.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC_NAME_MAX 249 /* Kafka's own limit */

bool outrider__kafka_topic_is_valid(struct bytes name)
{
    if (name.len == 0 || name.len > TOPIC_NAME_MAX || bytes_eq_str(name, ".") ||
        bytes_eq_str(name, ".."))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (!isascii(c) || (!isalnum(c) && c != '.' && c != '_' && c != '-'))
            return false;
    }
    return true;
}

static void topic_drop_handle(struct kafka_topic *t)
{
    if (t->rkt != NULL)
        rd_kafka_topic_destroy(t->rkt);
    t->rkt = NULL;
    t->producer = NULL;
}

static void topic_free(struct kafka_sink *k, struct kafka_topic *t)
{
    topic_drop_handle(t);
    outrider__order_group_remove(&k->order, &t->group);
    free(t->name);
    free(t);
}

/* Topics come from events, so there may be any number of them. */
static void kafka_topic_topics_drop_idle(struct kafka_sink *k)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++) {
        struct kafka_topic **at = &k->topics[i];
        while (*at != NULL) {
            struct kafka_topic *t = *at;
            if (t->group.n > 0 || t->group.is_careful || t->is_denied || t->making == MAKE_ASKED) {
                at = &t->chain;
                continue;
            }
            *at = t->chain;
            topic_free(k, t);
            k->n_topics--;
        }
    }
}

struct kafka_topic *outrider__kafka_topic_get(struct kafka_sink *k, struct bytes name)
{
    uint64_t hash = outrider__bytes_hash(name);
    size_t bucket = hash % KAFKA_TOPIC_BUCKETS;
    for (struct kafka_topic *t = k->topics[bucket]; t != NULL; t = t->chain)
        if (bytes_eq_str(name, t->name))
            return t;
    if (k->n_topics >= KAFKA_TOPICS_MAX)
        kafka_topic_topics_drop_idle(k);
    struct kafka_topic *t = calloc(1, sizeof *t);
    char *copy = strndup(name.data, name.len);
    if (t == NULL || copy == NULL) {
        free(t);
        free(copy);
        return NULL;
    }
    t->name = copy;
    t->group.hash = hash;
    outrider__order_group_add(&k->order, &t->group);
    t->chain = k->topics[bucket];
    k->topics[bucket] = t;
    k->n_topics++;
    return t;
}

rd_kafka_topic_t *outrider__kafka_topic_handle(struct kafka_sink *k, struct kafka_topic *t)
{
    struct kafka_producer *s = t->group.is_careful && !k->exact.is_on ? &k->careful : &k->fast;
    struct outrider_error ignored;
    if (s->is_dying)
        return NULL;
    if (s->rk == NULL && outrider__kafka_producer_open(k, s, s == &k->careful, &ignored) < 0)
        return NULL;
    if (t->producer != s) {
        topic_drop_handle(t);
        t->rkt = rd_kafka_topic_new(s->rk, t->name, NULL);
        t->producer = t->rkt != NULL ? s : NULL;
    }
    return t->rkt;
}

void outrider__kafka_topics_forget(struct kafka_sink *k, const struct kafka_producer *s)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            if (t->producer == s)
                topic_drop_handle(t);
}

void outrider__kafka_deny(struct kafka_sink *k, const char *topic)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            t->is_denied = strcmp(t->name, topic) == 0;
}

void outrider__kafka_topics_free(struct kafka_sink *k)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++) {
        for (struct kafka_topic *t = k->topics[i], *next; t != NULL; t = next) {
            next = t->chain;
            topic_free(k, t);
        }
        k->topics[i] = NULL;
    }
    k->n_topics = 0;
}
