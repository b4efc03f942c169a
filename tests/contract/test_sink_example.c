/* SPDX-License-Identifier: MIT */
/* The sink of docs/adding-a-sink.md keeps the contract. */
#include "contract/sink_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client.h"
#include "example.h"
#include "sink/file/line.h"

static void set_up(char *ret_url, size_t size)
{
    (void)snprintf(ret_url, size, "example:broker");
}

/* The message as a line of the event log, the form that the contract reads. */
static json_t *message_line(const struct client_message *m)
{
    struct header id = {BYTES_LIT("event-id"), bytes_of(m->id, m->id_len)};
    struct delivery d = {
        .topic = bytes_of(m->topic, m->topic_len),
        .key = bytes_of(m->key, m->key_len),
        .payload = bytes_of(m->payload, m->payload_len),
        .headers = &id,
        .n_headers = 1,
        .partition = -1,
    };
    struct strbuf topic, line;
    struct outrider_error err = {0};
    outrider__strbuf_init(&topic, 1000);
    outrider__strbuf_init(&line, FILE_LINE_MAX);
    assert_int_equal(outrider__line_topic(&topic, d.topic), 0);
    if (outrider__line_append(&line, 0, strbuf_bytes(&topic), &d, &err) < 0)
        fail_msg("%s", err.message);
    json_t *value = json_loadb(line.data, line.len, JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    json_object_del(value, "offset"); /* this broker counts none */
    outrider__strbuf_release(&topic);
    outrider__strbuf_release(&line);
    return value;
}

static void read_back(void (*add)(void *ctx, json_t *line), void *ctx)
{
    for (size_t i = 0; i < client_broker_count(); i++)
        add(ctx, message_line(client_broker_message(i)));
}

static void break_it(const char *topic)
{
    (void)topic;
    client_broker_away(true);
}

static void heal_it(void)
{
    client_broker_away(false);
}

int main(void)
{
    static struct sink_fixture fixture = {
        .ops = &outrider__sink_example,
        .set_up = set_up,
        .tear_down = client_broker_forget,
        .read_back = read_back,
        .break_it = break_it,
        .heal_it = heal_it,
        .bad_url = "example:nowhere",
        .refuses_empty_topic = true,
    };
    return sink_contract_run("example", &fixture);
}
