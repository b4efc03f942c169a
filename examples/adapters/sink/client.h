/* SPDX-License-Identifier: MIT */
/*
 * Stands for the client library of a broker that confirms messages: a queue of
 * messages in memory that a broker takes in and confirms, in order, when asked.
 * A real sink includes its client library here instead.
 */
#ifndef ADAPTERS_CLIENT_H
#define ADAPTERS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct client;

enum client_answer { CLIENT_CONFIRMED, CLIENT_AWAY, CLIENT_REFUSED };

struct client_message {
    const char *topic, *key, *payload; /* bytes; NULL: no key, no payload */
    size_t topic_len, key_len, payload_len;
    const char *id; /* header "event-id" */
    size_t id_len;
};

/* NULL: the URL names no broker. */
struct client *client_connect(const char *url);
/* Copies the message. False: the client's buffer is full. tag comes back with the answer. */
bool client_send(struct client *c, const struct client_message *m, void *tag);
/* The next answer; false: there is none at the moment. */
bool client_next(struct client *c, void **ret_tag, enum client_answer *ret_answer);
void client_close(struct client *c);

/* The broker, as a test sees it: what it has, and whether it is away. */
size_t client_broker_count(void);
const struct client_message *client_broker_message(size_t i);
void client_broker_away(bool is_away);
void client_broker_forget(void);

#endif
