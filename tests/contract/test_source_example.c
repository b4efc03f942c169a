/* SPDX-License-Identifier: MIT */
/* The source of docs/adding-a-database.md keeps the contract. */
#include "contract/source_contract.h"

#include <stdio.h>
#include <string.h>

#include "example_db.h"
#include "server.h"

static void set_up(char *ret_url, size_t size)
{
    (void)snprintf(ret_url, size, "exampledb:shop");
}

static void insert(const struct outrider_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        server_insert(&events[i], outrider__clock_now().wall_us);
}

static int64_t count_outbox(void)
{
    return (int64_t)server.n_rows;
}

static int64_t count_parked(const char *state)
{
    static const char *const names[] = {"parked", "queued", "dead"};
    int64_t n = 0;
    for (size_t i = 0; i < server.n_parked; i++)
        n += state == NULL || strcmp(names[server.parked[i].state], state) == 0;
    return n;
}

static void age_outbox(int64_t age_us)
{
    for (size_t i = 0; i < server.n_rows; i++)
        server.rows[i].event.created_at_us = outrider__clock_now().wall_us - age_us;
}

static void take_over(const char *pipeline)
{
    server_cursor(pipeline, true)->epoch++;
}

int main(void)
{
    static const struct source_fixture fixture = {
        .ops = &outrider__source_example,
        .refuses_intents = true,
        .set_up = set_up,
        .tear_down = server_drop_all,
        .insert = insert,
        .finish = server_finish,
        .count_outbox = count_outbox,
        .count_parked = count_parked,
        .age_outbox = age_outbox,
        .take_over = take_over,
        .bad_url = "exampledb:nowhere",
    };
    return source_contract_run("source_example", &fixture);
}
