/* SPDX-License-Identifier: MIT */
/*
 * Lines: a topic template, an aggregate type, an event type, headers, and the
 * rest as the payload; routed in every form, and as a dead letter.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "core/options.h"
#include "core/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static struct bytes line(struct bytes *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    struct bytes b = bytes_of(rest->data, end ? (size_t)(end - rest->data) : rest->len);
    size_t used = end ? b.len + 1 : b.len;
    *rest = bytes_of(rest->data + used, rest->len - used);
    return b;
}

static void check_route(const struct pipeline_config *c, struct event *e)
{
    struct router *r;
    struct outrider_error err = {0};
    if (outrider__router_new(c, &r, &err) < 0) {
        must(err.code == OUTRIDER_CONFIG && err.message[0] != '\0');
        return;
    }
    (void)outrider__router_selects(r, e);
    e->delivery = (struct delivery){.partition = -1};
    if (outrider__router_route(r, e, true, &err) == 0) {
        must(e->delivery.topic.len > 0 && e->delivery.n_headers >= 3);
        if (c->form == FORM_ENVELOPE || c->form == FORM_CLOUDEVENTS)
            must(outrider__json_is_valid(e->delivery.payload));
    } else {
        must(err.disposition == OUTRIDER_DEAD && bytes_is_null(e->delivery.topic));
    }
    if (outrider__router_dead_letter(r, e, "dead", &err, true, NULL) == 0)
        must(bytes_eq_str(e->delivery.topic, "dead") && e->delivery.n_headers >= 6);
    (void)outrider__router_dead_letter(
        r, e, c->dead_letter.topic != NULL ? c->dead_letter.topic : "x", &err, true, NULL);
    outrider__router_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct pipeline_config c;
    struct batch batch;
    struct bytes rest = bytes_of(data, size), template = line(&rest);
    outrider__arena_init(&arena, 4096);
    must(outrider__config_init(&c, &arena, "fuzz", NULL) == 0);
    must(outrider__batch_init(&batch, 1, 1 << 20, NULL) == 0);
    struct event *e = outrider__batch_slot(&batch);
    e->id = BYTES_LIT("id");
    e->aggregate_id = BYTES_LIT("1");
    e->aggregate_type = line(&rest);
    e->event_type = line(&rest);
    e->headers = line(&rest);
    e->payload = rest;
    (void)outrider__config_set(&c, BYTES_LIT("route.topic"), template, NULL);
    (void)outrider__config_set(&c, BYTES_LIT("dead_letter.topic"), template, NULL);
    for (c.form = FORM_RAW; c.form <= FORM_CLOUDEVENTS_BINARY; c.form++)
        check_route(&c, e);
    outrider__batch_release(&batch);
    outrider__arena_release(&arena);
    return 0;
}
