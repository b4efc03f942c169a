/* SPDX-License-Identifier: MIT */
/* The source's contract over PostgreSQL: mode cdc over an application's table. */
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
    return source_contract_run("source_postgres_cdc_table", &pg_cdc_table);
}
