/* SPDX-License-Identifier: MIT */
/* Records, the lanes they stand in, and the topics they go to. */
#include "sink/kafka/kafka.h"

#include <ctype.h>
#include <stdlib.h>

#define TOPIC_NAME_MAX 249 /* Kafka's own limit */

static int add_chunk(struct kafka_sink *k)
{
    struct kafka_chunk *c = malloc(sizeof *c);
    if (c == NULL)
        return -1;
    c->next = k->chunks;
    k->chunks = c;
    for (size_t i = 0; i < sizeof c->records / sizeof *c->records; i++) {
        c->records[i].next = k->free_records;
        k->free_records = &c->records[i];
    }
    return 0;
}

struct kafka_record *outrider__kafka_record_new(struct kafka_sink *k, struct delivery *d)
{
    if (k->free_records == NULL && add_chunk(k) < 0)
        return NULL;
    struct kafka_record *r = k->free_records;
    k->free_records = r->next;
    *r = (struct kafka_record){.d = d};
    k->n_records++;
    k->n_bytes += d->payload.len + d->key.len;
    return r;
}

static void lane_leave(struct kafka_sink *k, struct kafka_lane *l)
{
    if (--l->n > 0)
        return;
    struct kafka_lane **at = &k->lanes[l->hash % KAFKA_BUCKETS];
    while (*at != l)
        at = &(*at)->chain;
    *at = l->chain;
    l->chain = k->free_lanes;
    k->free_lanes = l;
}

void outrider__kafka_record_free(struct kafka_sink *k, struct kafka_record *r)
{
    k->n_records--;
    k->n_bytes -= r->d->payload.len + r->d->key.len;
    if (r->lane != NULL)
        lane_leave(k, r->lane);
    if (r->topic != NULL)
        r->topic->n--;
    free(r->why);
    r->why = NULL;
    r->next = k->free_records;
    k->free_records = r;
}

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

static void drop_handle(struct kafka_topic *t)
{
    if (t->rkt != NULL)
        rd_kafka_topic_destroy(t->rkt);
    t->rkt = NULL;
    t->session = NULL;
}

static void topic_free(struct kafka_topic *t)
{
    drop_handle(t);
    free(t->name);
    free(t);
}

/* Topics come from events: there is no telling how many. */
static void drop_idle_topics(struct kafka_sink *k)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++) {
        struct kafka_topic **at = &k->topics[i];
        while (*at != NULL) {
            struct kafka_topic *t = *at;
            if (t->n > 0 || t->is_careful || t->is_denied || t->making == MAKE_ASKED) {
                at = &t->chain;
                continue;
            }
            *at = t->chain;
            topic_free(t);
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
        drop_idle_topics(k);
    struct kafka_topic *t = calloc(1, sizeof *t);
    char *copy = strndup(name.data, name.len);
    if (t == NULL || copy == NULL) {
        free(t);
        free(copy);
        return NULL;
    }
    t->name = copy;
    t->hash = hash;
    t->chain = k->topics[bucket];
    k->topics[bucket] = t;
    k->n_topics++;
    return t;
}

rd_kafka_topic_t *outrider__kafka_topic_handle(struct kafka_sink *k, struct kafka_topic *t)
{
    struct kafka_session *s = t->is_careful && !k->exact.is_on ? &k->careful : &k->fast;
    struct outrider_error ignored;
    if (s->is_dying)
        return NULL;
    if (s->rk == NULL && outrider__kafka_session_open(k, s, s == &k->careful, &ignored) < 0)
        return NULL;
    if (t->session != s) {
        drop_handle(t);
        t->rkt = rd_kafka_topic_new(s->rk, t->name, NULL);
        t->session = t->rkt != NULL ? s : NULL;
    }
    return t->rkt;
}

void outrider__kafka_topics_forget(struct kafka_sink *k, const struct kafka_session *s)
{
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++)
        for (struct kafka_topic *t = k->topics[i]; t != NULL; t = t->chain)
            if (t->session == s)
                drop_handle(t);
}

static uint64_t lane_hash(const struct kafka_record *r)
{
    uint64_t h = outrider__bytes_hash(r->d->key);
    h ^= r->topic->hash * 0x9e3779b97f4a7c15ULL;
    h ^= (uint64_t)(uint32_t)r->d->partition * 0xc2b2ae3d27d4eb4fULL;
    /* 0 marks an empty slot among the trusted. */
    return (h ^ h >> 29) | 1;
}

int outrider__kafka_lane_join(struct kafka_sink *k, struct kafka_record *r)
{
    if (!k->settings.ordered || (bytes_is_null(r->d->key) && r->d->partition < 0))
        return 0;
    uint64_t hash = lane_hash(r);
    struct kafka_lane **bucket = &k->lanes[hash % KAFKA_BUCKETS], *l = *bucket;
    while (l != NULL && l->hash != hash)
        l = l->chain;
    if (l == NULL) {
        l = k->free_lanes;
        if (l != NULL)
            k->free_lanes = l->chain;
        else if ((l = malloc(sizeof *l)) == NULL)
            return -1;
        *l = (struct kafka_lane){.hash = hash, .topic = r->topic, .chain = *bucket};
        *bucket = l;
    }
    l->n++;
    r->lane = l;
    return 0;
}

void outrider__kafka_tables_free(struct kafka_sink *k)
{
    for (struct kafka_record *r = k->verdicts.head; r != NULL; r = r->next)
        free(r->why);
    for (size_t i = 0; i < KAFKA_BUCKETS; i++) {
        for (struct kafka_lane *l = k->lanes[i], *next; l != NULL; l = next) {
            next = l->chain;
            free(l);
        }
        k->lanes[i] = NULL;
    }
    for (struct kafka_lane *l = k->free_lanes, *next; l != NULL; l = next) {
        next = l->chain;
        free(l);
    }
    for (size_t i = 0; i < KAFKA_TOPIC_BUCKETS; i++) {
        for (struct kafka_topic *t = k->topics[i], *next; t != NULL; t = next) {
            next = t->chain;
            topic_free(t);
        }
        k->topics[i] = NULL;
    }
    for (struct kafka_chunk *c = k->chunks, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    k->free_lanes = NULL;
    k->chunks = NULL;
    k->free_records = NULL;
    k->verdicts = k->overflow = (struct kafka_list){0};
    k->n_topics = k->n_records = k->n_bytes = 0;
}
