/* SPDX-License-Identifier: MIT */
/*
 * Studying an outbox table before it is read: a state machine without I/O. The
 * study says what it needs next; the caller asks its database, and gives the answer.
 *
 *     columns -> check -> words -> infer -> check -> done
 *
 *  (1) A source asks by asynchronous requests, a command by plain queries. Both drive
 *      the same study, so that both read a table alike and refuse it with the same words.
 *  (2) Rights are checked before the words are asked for, because the words are read
 *      from the rows.
 *  (3) A study for a relay checks all that the relay will do to the table. A study for
 *      a command checks that the rows can be read; for anything more the command asks
 *      the database.
 *  (4) The words that a relay starts with are remembered (outrider__study_remembers)
 *      before a row is read by them. A later start takes the remembered words, so that
 *      rows which come and go do not change what a word means.
 */
#ifndef COMMON_TABLE_STUDY_H
#define COMMON_TABLE_STUDY_H

#include "common/outbox_table.h"

enum study_need {
    STUDY_NEEDS_COLUMNS, /* describe the table: outrider__study_columns() */
    STUDY_NEEDS_WORDS,   /* look at the rows and the cursor: outrider__study_words() */
    STUDY_IS_DONE
};

enum study_purpose {
    STUDY_FOR_RELAY,
    STUDY_FOR_COMMAND,
    STUDY_FOR_RIGHTS /* ends with the columns: they say which rights a relay needs */
};

struct table_study {
    const struct pipeline_config *config;
    struct outbox_table *table;
    enum study_purpose purpose;
    enum study_need need;
};

/* What a database knows of a table that it was asked for. */
struct table_relation {
    const char *asked; /* the name, as the configuration has it */
    size_t n_columns;  /* 0: there is no such table */
    const char *kind;  /* "a view"; NULL: it is a table */
};

/* The words that a status column may have. */
struct study_words {
    struct string_list rows; /* found in the rows; none for an enum type */
    const char *remembered;  /* by an earlier start: a JSON object; or NULL */
};

/* How many tables the configuration names; negative: too many. */
int outrider__study_count(const struct pipeline_config *config, struct outrider_error *err);
const char *outrider__study_name(const struct pipeline_config *config, size_t i);

/* Whether a relation can be an outbox. */
int outrider__study_relation(const struct table_relation *r, struct outrider_error *err);

void outrider__study_begin(struct table_study *y, const struct pipeline_config *config,
                           enum study_purpose purpose, struct outbox_table *table);
/* The columns are in y->table->table; also set are outbox, is_ours, cursor_table and
 * parked_table. */
int outrider__study_columns(struct table_study *y, struct outrider_error *err);
int outrider__study_words(struct table_study *y, const struct study_words *words,
                          struct outrider_error *err);
/* The status column whose words are to be asked for; NULL: the configuration or the
 * catalogue says them all. */
const struct map_column *outrider__study_status(const struct outbox_table *t,
                                                const struct pipeline_config *config);

/* The same for a table that waits for words (map.waits_for_words), when its rows may say them.
 * The map stays as it was if the words do not fit. */
int outrider__study_learn(struct outbox_table *t, const struct pipeline_config *config,
                          const struct study_words *words, struct outrider_error *err);
/* The words that outrider_cursor.words shall remember, as JSON; false: there are none. */
bool outrider__study_remembers(const struct outbox_table *t, struct strbuf *ret_words);

/* Whether a relay can do all that it will have to do, as far as the catalogue tells; also
 * sets can_be_polled. */
int outrider__study_check(struct outbox_table *t, const struct pipeline_config *config,
                          struct outrider_error *err);

#endif
