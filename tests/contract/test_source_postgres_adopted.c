/* SPDX-License-Identifier: MIT */
/* The source's contract over PostgreSQL: tables of applications. */
#include "contract/source_contract.h"

#include <stdio.h>

#include "support/pg_layouts.h"
#include "support/pg_server.h"

int main(void)
{
    if (!pg_server_start()) {
        (void)fprintf(stderr, "no PostgreSQL server programs: skipped\n");
        return 0;
    }
    return source_contract_run("source_postgres_adopted_states", &pg_adopted_states) +
           source_contract_run("source_postgres_adopted_mark", &pg_adopted_mark);
}
