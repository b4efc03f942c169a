/* SPDX-License-Identifier: MIT */
/* What `check` adds to a connector's configuration before it prints that as a file. */
#include "cli/debezium_check.h"

#include <stdio.h>
#include <string.h>

#include "core/options.h"

void outrider__debezium_without_password(struct strbuf *url)
{
    char *at = strstr(url->data != NULL ? url->data : "", ":***@");
    if (at == NULL)
        return;
    memmove(at, at + 4, strlen(at + 4) + 1);
    url->len -= 4;
    printf("# The password is left out: give it in PGPASSWORD, or in a password file.\n");
}

int outrider__debezium_guess_sink(struct cli_setup *s, struct outrider_error *err)
{
    if (!s->is_debezium || s->file.pipelines[0].sink.url != NULL)
        return 0;
    outrider__cli_say("%s: without --to, sink.url is only a guess: kafka://localhost:9092",
                      s->path);
    return outrider__config_set(&s->file.pipelines[0], BYTES_LIT("sink.url"),
                                BYTES_LIT("kafka://localhost:9092"), err);
}
