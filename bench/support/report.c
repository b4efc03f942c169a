/* SPDX-License-Identifier: MIT */
#include "support/report.h"
#include "support/util.h"

#include <stdio.h>
#include <stdlib.h>

void report_add(struct report *r, struct report_row row)
{
    if (r->n == sizeof r->rows / sizeof *r->rows)
        bench_die("the report is full");
    r->rows[r->n++] = row;
}

static double value_of(const struct report_row *row)
{
    return row->limit > 0 ? row->ours / row->limit : row->ours;
}

static bool row_holds(const struct report_row *row)
{
    if (row->kind == GOAL_NONE)
        return true;
    return row->kind == GOAL_AT_LEAST ? value_of(row) >= row->goal : value_of(row) <= row->goal;
}

/* Three digits, or all of a whole number: 0.0412, 8.13, 912345. */
static void format(double v, char *ret_text, size_t size)
{
    int decimals = v >= 100 ? 0 : v >= 10 ? 1 : v >= 1 ? 2 : 3;
    snprintf(ret_text, size, "%.*f", decimals, v);
}

static void print_row(const struct report_row *row)
{
    char ours[32], limit[32] = "", ratio[32] = "", goal[32] = "";
    format(row->ours, ours, sizeof ours);
    if (row->limit > 0) {
        format(row->limit, limit, sizeof limit);
        snprintf(ratio, sizeof ratio, "%.2f", value_of(row));
    }
    if (row->kind != GOAL_NONE)
        snprintf(goal, sizeof goal, "%s %g", row->kind == GOAL_AT_LEAST ? ">=" : "<=", row->goal);
    printf("%-42s %10s %10s %-8s %6s %9s  %s\n", row->what, ours, limit, row->unit, ratio, goal,
           row->kind == GOAL_NONE ? ""
           : row_holds(row)       ? "yes"
                                  : "NO");
}

void report_print(const struct report *r)
{
    printf("%-42s %10s %10s %-8s %6s %9s  %s\n", r->bench, "ours", "limit", "unit", "ratio", "goal",
           "holds");
    for (size_t i = 0; i < r->n; i++)
        print_row(&r->rows[i]);
}

/* Names and units are our own: nothing in them needs escaping. */
static void write_row(FILE *f, const struct report_row *row)
{
    fprintf(f, "{\"what\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"goal\":", row->what,
            value_of(row), row->limit > 0 ? "ratio" : row->unit);
    if (row->kind == GOAL_NONE)
        fputs("null", f);
    else
        fprintf(f, "%g", row->goal);
    fprintf(f, ",\"holds\":%s", row_holds(row) ? "true" : "false");
    if (row->limit > 0)
        fprintf(f, ",\"ours\":%.6g,\"limit\":%.6g,\"of\":\"%s\"", row->ours, row->limit, row->unit);
    fputc('}', f);
}

void report_write_json(const struct report *r)
{
    const char *path = getenv("BENCH_JSON");
    if (path == NULL || *path == '\0')
        return;
    FILE *f = fopen(path, "w");
    if (f == NULL)
        bench_die("cannot write %s", path);
    fprintf(f, "{\"bench\":\"%s\",\"results\":[", r->bench);
    for (size_t i = 0; i < r->n; i++) {
        fputs(i > 0 ? ",\n" : "\n", f);
        write_row(f, &r->rows[i]);
    }
    fputs("]}\n", f);
    if (fclose(f) != 0)
        bench_die("cannot write %s", path);
}
