/* SPDX-License-Identifier: MIT */
#include "contract/sink_contract.h"
#include "sink/builtin.h"

static void set_up(char *ret_url, size_t size)
{
    (void)snprintf(ret_url, size, "null:");
}

static void tear_down(void)
{
}

int main(void)
{
    static struct sink_fixture fixture = {
        .ops = &outrider__sink_null,
        .set_up = set_up,
        .tear_down = tear_down,
    };
    return sink_contract_run("null", &fixture);
}
