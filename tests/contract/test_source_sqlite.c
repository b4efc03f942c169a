/* SPDX-License-Identifier: MIT */
/* The source's contract over SQLite. */
#include "contract/source_contract.h"

#include "support/sqlite_layout.h"

int main(void)
{
    return source_contract_run("source_sqlite", &sqlite_log);
}
