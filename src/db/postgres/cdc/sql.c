/* SPDX-License-Identifier: MIT */
/* The statements of mode cdc: blocks of .sql files with their words filled in. */
#include "cdc.sql.h"
#include "postgres/cdc/cdc.h"
#include "shared.sql.h"

static const struct pg_block sql_blocks[CDC_STATEMENTS] = {
    [CDC_ENROL] = {sql_cursor_enrol, "cannot take over the pipeline", PG_READS},
    [CDC_READ_CURSOR] = {sql_cdc_read_cursor, "cannot read the cursor", PG_READS},
    [CDC_NAMES] = {sql_cdc_names, "cannot name the replication slot", PG_READS},
    [CDC_FACTS] = {sql_cdc_facts, "cannot read the catalogue", PG_READS},
    [CDC_DROP_SLOT] = {sql_cdc_drop_slot, "cannot drop the replication slot", PG_READS},
    [CDC_TAKE] = {sql_cursor_take, "cannot take over the pipeline", PG_READS},
    [CDC_SAVE] = {sql_cursor_save, "cannot settle", PG_SETTLES},
    [CDC_READ_ROWS] = {sql_cdc_read_rows, "cannot read the outbox", PG_READS},
    [CDC_POSITION] = {sql_cdc_position, "cannot read the log's position", PG_READS},
    [CDC_PULSE] = {sql_cdc_pulse, "cannot read the catalogue", PG_READS},
    [CDC_PUBLISHED] = {sql_cdc_published, "cannot read the catalogue", PG_READS},
    [CDC_SAVE_PUBLISHED] = {sql_cdc_save_published, "cannot save the cursor", PG_READS},
    [CDC_PLAN_SWEEP] = {sql_cdc_plan_sweep, "cannot read the outbox", PG_READS},
    [CDC_PLAN_POLL] = {sql_cdc_plan_poll, "cannot read the outbox", PG_READS},
    [CDC_SAVE_CDC] = {sql_cdc_save_cdc, "cannot save the cursor", PG_READS},
    [CDC_SAVE_MAPPED] = {sql_cdc_save_mapped, "cannot save the cursor", PG_READS},
    [CDC_SAVE_SKIPPED] = {sql_cdc_save_skipped, "cannot save the cursor", PG_READS},
    [CDC_GATHER] = {sql_cdc_gather, "cannot change parked events", PG_READS},
    [CDC_SAVE_LEAVING] = {sql_cdc_save_leaving, "cannot save the cursor", PG_READS},
    [CDC_SAVE_POLL] = {sql_cdc_save_poll, "cannot save the cursor", PG_READS},
    [CDC_BLOCKER] = {sql_cdc_blocker, "cannot read the locks", PG_READS},
    [CDC_END_READER] = {sql_cdc_end_reader, "cannot end the slot's last reader", PG_READS},
    [CDC_END_MAKER] = {"SELECT pg_terminate_backend($1)", "cannot end the making of a slot",
                       PG_READS},
    [CDC_SETTLED] = {sql_cdc_settled, "cannot save the cursor", PG_READS},
    [CDC_VISIBLE] = {sql_cdc_visible, "cannot wait for a commit", PG_READS},
};

static void sql_append_types(struct strbuf *sql)
{
    const char *comma = "";
    for (uint32_t type = 1; type < 4096; type++) {
        if (!outrider__cdc_reads_binary(type))
            continue;
        outrider__strbuf_appendf(sql, "%s%u", comma, type);
        comma = ", ";
    }
}

/* The words of cdc.sql that are made of several parts. */
static void sql_add_words(struct pg_words *words, const struct pg_source *s)
{
    struct pg_bounds bounds = outrider__pg_bounds_of(3);
    struct strbuf event, types, names, unchanged, facts_unchanged, facts_tokens;
    struct strbuf *all[] = {&event, &types, &names, &unchanged, &facts_unchanged, &facts_tokens};
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        outrider__strbuf_init(all[i], SQL_TEXT_CAP);
    if (s->cat.payload_type != 0)
        outrider__pg_sql_log_event(&event, &s->cat, &bounds, NULL);
    sql_append_types(&types);
    outrider__cdc_names_sql(&names, s->cat.cursor_table);
    outrider__cdc_unchanged_sql(&unchanged, s->cat.version, "$1", "$2", "$3");
    outrider__cdc_unchanged_sql(&facts_unchanged, s->cat.version, "$5", "$2", "$6");
    outrider__cdc_tokens_sql(&facts_tokens, s->cat.version, "$5", "$2");
    outrider__pg_words_take(words, "event", &event);
    outrider__pg_words_take(words, "binary_types", &types);
    outrider__pg_words_take(words, "names", &names);
    outrider__pg_words_take(words, "unchanged", &unchanged);
    outrider__pg_words_take(words, "facts_unchanged", &facts_unchanged);
    outrider__pg_words_take(words, "facts_tokens", &facts_tokens);
}

int outrider__cdc_own_delete(struct pg_source *s, struct pg_statement *ret,
                             struct outrider_error *err)
{
    static const struct pg_block block = {sql_cdc_own_delete, "cannot remove published events",
                                          PG_READS};
    struct pg_words words;
    outrider__pg_words_init(&words, &s->cat);
    return outrider__pg_statements_make(ret, &block, 1, &words, err);
}

int outrider__cdc_prepare_sql(struct pg_source *s, struct outrider_error *err)
{
    struct cdc_source *c = cdc_of(s);
    struct pg_words words;
    outrider__pg_words_init(&words, &s->cat);
    outrider__pg_cursor_words(&words, sql_cdc_save_sets);
    sql_add_words(&words, s);
    int rc = outrider__pg_statements_make(c->st, sql_blocks, CDC_STATEMENTS, &words, err);
    outrider__pg_words_release(&words);
    if (rc < 0)
        return -1;
    return outrider__pg_parked_init(&c->parked, &s->cat, s->config, NULL, c->tables.oversize_sql,
                                    err);
}
