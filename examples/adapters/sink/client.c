/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#define CLIENT_BUFFER 1000

struct client {
    void *tags[CLIENT_BUFFER];
    enum client_answer answers[CLIENT_BUFFER];
    size_t first, n;
};

static struct {
    struct client_message *messages;
    size_t n, size;
    bool is_away;
} broker;

static const char *client_copy(const char *bytes, size_t len)
{
    if (bytes == NULL)
        return NULL;
    char *copy = malloc(len + 1);
    if (copy == NULL)
        abort();
    if (len > 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

static void broker_keep(const struct client_message *m)
{
    if (broker.n == broker.size) {
        broker.size = broker.size == 0 ? 64 : 2 * broker.size;
        broker.messages = realloc(broker.messages, broker.size * sizeof *broker.messages);
        if (broker.messages == NULL)
            abort();
    }
    struct client_message *to = &broker.messages[broker.n++];
    *to = *m;
    to->topic = client_copy(m->topic, m->topic_len);
    to->key = client_copy(m->key, m->key_len);
    to->payload = client_copy(m->payload, m->payload_len);
    to->id = client_copy(m->id, m->id_len);
}

struct client *client_connect(const char *url)
{
    return strcmp(url, "example:nowhere") == 0 ? NULL : calloc(1, sizeof(struct client));
}

bool client_send(struct client *c, const struct client_message *m, void *tag)
{
    if (c->n == CLIENT_BUFFER)
        return false;
    size_t at = (c->first + c->n++) % CLIENT_BUFFER;
    c->tags[at] = tag;
    c->answers[at] = m->topic_len == 0 ? CLIENT_REFUSED
                     : broker.is_away  ? CLIENT_AWAY
                                       : CLIENT_CONFIRMED;
    if (c->answers[at] == CLIENT_CONFIRMED)
        broker_keep(m);
    return true;
}

bool client_next(struct client *c, void **ret_tag, enum client_answer *ret_answer)
{
    if (c->n == 0)
        return false;
    *ret_tag = c->tags[c->first];
    *ret_answer = c->answers[c->first];
    c->first = (c->first + 1) % CLIENT_BUFFER;
    c->n--;
    return true;
}

void client_close(struct client *c)
{
    free(c);
}

size_t client_broker_count(void)
{
    return broker.n;
}

const struct client_message *client_broker_message(size_t i)
{
    return &broker.messages[i];
}

void client_broker_away(bool is_away)
{
    broker.is_away = is_away;
}

void client_broker_forget(void)
{
    for (size_t i = 0; i < broker.n; i++) {
        struct client_message *m = &broker.messages[i];
        free((void *)m->topic);
        free((void *)m->key);
        free((void *)m->payload);
        free((void *)m->id);
    }
    free(broker.messages);
    broker.messages = NULL;
    broker.n = broker.size = 0;
    broker.is_away = false;
}
