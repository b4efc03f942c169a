/* SPDX-License-Identifier: MIT */
/*
 * Times of an adopted table, which may be numbers (map.epoch), and the value of a column
 * that says nothing. A statement compares a column with a time of the column's own form,
 * so that an index on the column serves.
 */
#include "postgres/table/table.h"

/* The years 1 and 9999: beyond them a number is "always" or "never", and the server
 * must not fail on it. Nanoseconds end in 2262 anyway. */
static const struct {
    const char *low, *high, *unit, *per_second;
} epochs[] = {
    [EPOCH_S] = {"-62135596800", "253402300799", "1 second", "1"},
    [EPOCH_MS] = {"-62135596800000", "253402300799000", "1 millisecond", "1000"},
    [EPOCH_US] = {"-62135596800000000", "253402300799000000", "1 microsecond", "1000000"},
    [EPOCH_NS] = {"-9223372036854775807", "9223372036854775807", "1 microsecond", "1000000000"},
};

static bool time_is_number(const struct outbox_table *a, enum column_role role)
{
    return a->map.columns[role]->kind == KIND_INTEGER;
}

void outrider__pg_sql_time_of(struct strbuf *sql, const struct outbox_table *a,
                              enum column_role role, const char *value)
{
    int epoch = a->map.epoch;
    if (!time_is_number(a, role))
        outrider__strbuf_appendf(sql, "%s::timestamptz", value);
    else
        outrider__strbuf_appendf(sql,
                                 "(timestamptz 'epoch' + (CASE WHEN %s > %s THEN %s WHEN %s < %s "
                                 "THEN %s ELSE %s END)::int8%s * interval '%s')",
                                 value, epochs[epoch].high, epochs[epoch].high, value,
                                 epochs[epoch].low, epochs[epoch].low, value,
                                 epoch == EPOCH_NS ? " / 1000" : "", epochs[epoch].unit);
}

void outrider__pg_sql_stamp(struct strbuf *sql, const struct outbox_table *a, enum column_role role,
                            const char *when)
{
    if (!time_is_number(a, role))
        strbuf_append_str(sql, when);
    else
        outrider__strbuf_appendf(sql, "floor(extract(epoch FROM (%s)) * %s)::int8", when,
                                 epochs[a->map.epoch].per_second);
}
