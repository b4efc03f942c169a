/* SPDX-License-Identifier: MIT */
#include "common/table_study.h"

#include <string.h>

int outrider__study_count(const struct pipeline_config *config, struct outrider_error *err)
{
    size_t n = config->source.tables.n > 0 ? config->source.tables.n : 1;
    if (n > OUTBOX_TABLES_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "source.tables: more than %d tables in one pipeline",
                              OUTBOX_TABLES_MAX);
    return (int)n;
}

const char *outrider__study_name(const struct pipeline_config *config, size_t i)
{
    return config->source.tables.n > 0 ? config->source.tables.items[i] : "outbox";
}

int outrider__study_relation(const struct table_relation *r, struct outrider_error *err)
{
    if (r->n_columns == 0)
        return outrider__fail(
            err, OUTRIDER_NO_OUTBOX, OUTRIDER_RETRY,
            "there is no table %.100s; run `outrider init`, or name the table with --table",
            r->asked);
    if (r->n_columns > MAP_COLUMNS_MAX)
        return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                              "table %.100s has more than %d columns: hardly an outbox", r->asked,
                              MAP_COLUMNS_MAX);
    if (r->kind == NULL)
        return 0;
    return outrider__fail(err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
                          "%.100s is %s, and an outbox is a table: rows are locked and marked "
                          "there; name the table that holds the rows with --table",
                          r->asked, r->kind);
}

/* The whole map, and what the table has no place for. */
static int study_infer(struct outbox_table *t, const struct pipeline_config *config,
                       struct outrider_error *err)
{
    if (outrider__map_infer(&t->table, config, &t->map, err) < 0)
        return -1;
    if (t->map.mark == MARK_NONE && config->source.mode != MODE_CDC)
        return outrider__fail(
            err, OUTRIDER_SCHEMA_UNSUITABLE, OUTRIDER_STOP,
            "table %s has a sequence (%s) but no mark of what is published; as a log it needs "
            "that column to be called seq, or name the mark with map.status, map.published or "
            "map.published_at: COLUMN",
            t->outbox, t->map.columns[ROLE_SEQ]->name);
    bool has_dead = t->map.mark == MARK_STATUS && t->map.values[STATE_DEAD][0] != '\0';
    t->parks_retries = !outrider__map_keeps_retries(&t->map);
    t->parks_dead = t->parks_retries || !has_dead;
    return 0;
}

int outrider__study_check(struct outbox_table *t, const struct pipeline_config *config,
                          struct outrider_error *err)
{
    int after = config->source.after_publish;
    bool touches = after == AFTER_PUBLISH_MARK || after == AFTER_PUBLISH_DELETE ||
                   (config->cleanup.adopted && config->cleanup.retention_us > 0);
    struct outrider_error why;
    struct map_needs needs;
    outrider__map_needs(&t->map, config, &needs);
    t->can_be_polled = t->map.mark != MARK_NONE;
    if (outrider__map_check_needs(&t->map, &needs, &why) == 0)
        return 0;
    /* The stream needs no mark, if nobody asked for one. */
    if (config->source.mode == MODE_CDC && !touches) {
        t->can_be_polled = false;
        memset(needs.writes, 0, sizeof needs.writes);
        return outrider__map_check_needs(&t->map, &needs, err);
    }
    if (err != NULL)
        *err = why;
    return -1;
}

static int study_can_read(const struct outbox_table *t, const struct pipeline_config *config,
                          struct outrider_error *err)
{
    struct map_needs needs;
    outrider__map_needs_read(&t->map, config, &needs);
    return outrider__map_check_needs(&t->map, &needs, err);
}

const struct map_column *outrider__study_status(const struct outbox_table *t,
                                                const struct pipeline_config *config)
{
    /* The CHECK constraint of our own table has all the words. */
    if (t->is_ours || config->map.status_values.n > 0)
        return NULL;
    const struct map_column *status = outrider__map_status(&t->table, config);
    return status == NULL || status->kind == KIND_INTEGER ? NULL : status;
}

static void study_take_words(struct outbox_table *t, const struct pipeline_config *config,
                             const struct study_words *words)
{
    const struct map_column *known = outrider__map_status(&t->table, config);
    if (known == NULL)
        return;
    struct map_column *status = &t->table.columns[known - t->table.columns];
    t->table.remembered = words->remembered;
    if (status->kind != KIND_ENUM) /* the labels of an enum type are its words */
        status->all = words->rows;
}

static int study_finish(struct table_study *y, struct outrider_error *err)
{
    if (study_infer(y->table, y->config, err) < 0)
        return -1;
    if (y->purpose == STUDY_FOR_RELAY && outrider__study_check(y->table, y->config, err) < 0)
        return -1;
    y->need = STUDY_IS_DONE;
    return 0;
}

void outrider__study_begin(struct table_study *y, const struct pipeline_config *config,
                           enum study_purpose purpose, struct outbox_table *table)
{
    *y = (struct table_study){
        .config = config, .table = table, .purpose = purpose, .need = STUDY_NEEDS_COLUMNS};
}

int outrider__study_columns(struct table_study *y, struct outrider_error *err)
{
    struct outbox_table *t = y->table;
    if (outrider__map_columns(&t->table, y->config, &t->map, err) < 0)
        return -1;
    if (y->purpose == STUDY_FOR_RIGHTS) {
        y->need = STUDY_IS_DONE;
        return 0;
    }
    int rc = y->purpose == STUDY_FOR_RELAY ? outrider__study_check(t, y->config, err)
                                           : study_can_read(t, y->config, err);
    if (rc < 0)
        return -1;
    if (outrider__study_status(t, y->config) == NULL)
        return study_finish(y, err);
    y->need = STUDY_NEEDS_WORDS;
    return 0;
}

int outrider__study_words(struct table_study *y, const struct study_words *words,
                          struct outrider_error *err)
{
    study_take_words(y->table, y->config, words);
    return study_finish(y, err);
}

int outrider__study_learn(struct outbox_table *t, const struct pipeline_config *config,
                          const struct study_words *words, struct outrider_error *err)
{
    struct column_map before = t->map;
    study_take_words(t, config, words);
    if (study_infer(t, config, err) == 0)
        return 0;
    t->map = before;
    return -1;
}

bool outrider__study_remembers(const struct outbox_table *t, struct strbuf *ret_words)
{
    if (t->map.mark != MARK_STATUS || t->map.waits_for_words)
        return false;
    outrider__map_words(&t->map, ret_words);
    return true;
}
