/* SPDX-License-Identifier: MIT */
/*
 * The table of all options of a pipeline: core's own rows, and the rows of every adapter behind
 * the last row of core in the same section. The table is made once, on first use.
 *
 *  (1) A row's offset counts from the beginning of struct pipeline_config also where the
 *      option is an adapter's: whoever reads or writes a value needs no case for it.
 *  (2) The order of the rows is the order of the reference page and of the sample file.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#include "base/words.h"
#include "core/adapter.h"

#define ROWS_MAX 256
#define SECTIONS_MAX 32
#define ADAPTERS_MAX 32
#define SECTION_NAME_MAX 32

static struct option_table {
    struct option rows[ROWS_MAX];
    size_t n;
    struct bytes sections[SECTIONS_MAX];
    char section_names[SECTIONS_MAX][SECTION_NAME_MAX];
    size_t n_sections;
    struct adapter_place places[ADAPTERS_MAX + 1];
} made;
static pthread_once_t made_once = PTHREAD_ONCE_INIT;

static struct bytes table_section_of(const struct option *o)
{
    const char *dot = strchr(o->name, '.');
    return dot != NULL ? bytes_of(o->name, (size_t)(dot - o->name)) : BYTES_LIT("");
}

static void table_add(const struct option *o, size_t offset)
{
    struct bytes section = table_section_of(o);
    assert(made.n < ROWS_MAX);
    made.rows[made.n] = *o;
    made.rows[made.n].offset += offset;
    if (o->example != NULL && strcmp(o->example, OPTION_EXAMPLE_SOURCE) == 0)
        made.rows[made.n].example = outrider__adapter_example(EXAMPLE_SOURCE);
    made.n++;
    for (size_t i = 0; i < made.n_sections; i++)
        if (bytes_eq(made.sections[i], section))
            return;
    if (section.len == 0)
        return;
    assert(made.n_sections < SECTIONS_MAX && section.len < SECTION_NAME_MAX);
    char *name = made.section_names[made.n_sections];
    (void)snprintf(name, SECTION_NAME_MAX, "%.*s", (int)section.len, section.data);
    made.sections[made.n_sections++] = bytes_str(name);
}

/* Gives every adapter's struct a place, each aligned for any type. */
static void table_place(void)
{
    const size_t align = _Alignof(max_align_t);
    size_t offset = 0;
    for (size_t i = 0; outrider__adapters[i].adapter != NULL; i++) {
        const struct adapter *a = outrider__adapters[i].adapter;
        assert(i < ADAPTERS_MAX);
        made.places[i] = (struct adapter_place){a->name, offset};
        offset += (a->config_size + align - 1) / align * align;
        assert(offset <= CONFIG_OWN_SIZE);
    }
}

static void table_add_adapters(struct bytes section)
{
    for (size_t i = 0; outrider__adapters[i].adapter != NULL; i++) {
        const struct adapter *a = outrider__adapters[i].adapter;
        size_t offset = offsetof(struct pipeline_config, own) + made.places[i].offset;
        for (size_t k = 0; k < a->n_options; k++)
            if (bytes_eq(table_section_of(&a->options[k]), section))
                table_add(&a->options[k], offset);
    }
}

static void table_make(void)
{
    size_t n;
    const struct option *rows = outrider__core_options(&n);
    table_place();
    for (size_t i = 0; i < n; i++) {
        struct bytes section = table_section_of(&rows[i]);
        table_add(&rows[i], 0);
        if (i + 1 == n || !bytes_eq(table_section_of(&rows[i + 1]), section))
            table_add_adapters(section);
    }
}

static const struct option_table *option_table(void)
{
    (void)pthread_once(&made_once, table_make);
    return &made;
}

const struct option *outrider__options(size_t *ret_n)
{
    const struct option_table *t = option_table();
    *ret_n = t->n;
    return t->rows;
}

const struct adapter_place *outrider__adapter_places(void)
{
    return option_table()->places;
}

/* Columns have the names of half the other options, and an application's lease that of
 * a relay's: they need their section. */
static const char *table_short_name(const struct option *o)
{
    if (strncmp(o->name, "map.", 4) == 0 || strncmp(o->name, "hybrid.", 7) == 0)
        return o->name;
    const char *dot = strchr(o->name, '.');
    return dot != NULL ? dot + 1 : o->name;
}

bool outrider__option_is_section(struct bytes name)
{
    const struct option_table *t = option_table();
    for (size_t i = 0; i < t->n_sections; i++)
        if (bytes_eq(name, t->sections[i]))
            return true;
    return false;
}

const struct option *outrider__option_find(struct bytes name)
{
    const struct option *found = NULL;
    const struct option_table *t = option_table();
    for (size_t i = 0; i < t->n; i++)
        if (bytes_eq_str(name, t->rows[i].name))
            return &t->rows[i];
    if (outrider__option_is_section(name))
        return NULL;
    for (size_t i = 0; i < t->n; i++) {
        if (!bytes_eq_str(name, table_short_name(&t->rows[i])))
            continue;
        if (found != NULL)
            return NULL;
        found = &t->rows[i];
    }
    return found;
}

const struct option *outrider__option_resolve(struct bytes name, struct bytes *ret_item)
{
    const struct option *o = outrider__option_find(name);
    for (size_t i = 1; o == NULL && i + 1 < name.len; i++) {
        if (name.data[i] != '.')
            continue;
        const struct option *map = outrider__option_find(bytes_of(name.data, i));
        if (map == NULL || map->type != OPTION_MAP)
            continue;
        *ret_item = bytes_of(name.data + i + 1, name.len - i - 1);
        return map;
    }
    return o;
}

const struct option *outrider__program_option_find(struct bytes name)
{
    size_t n;
    const struct option *options = outrider__program_options(&n);
    for (size_t i = 0; i < n; i++)
        if (bytes_eq_str(name, options[i].name))
            return &options[i];
    return NULL;
}

struct nearest {
    const char *name;
    unsigned distance;
};

static void table_consider(struct nearest *best, struct bytes typed, struct bytes known,
                           const char *stands_for, unsigned penalty)
{
    unsigned d = outrider__name_distance(typed, known) + penalty;
    if (d < best->distance) {
        best->distance = d;
        best->name = stands_for;
    }
}

const char *outrider__option_nearest(struct bytes name)
{
    const struct option_table *t = option_table();
    if (name.len == 0 || name.len > WORDS_NAME_MAX)
        return NULL;
    const char *dot = memchr(name.data, '.', name.len);
    struct bytes last =
        dot != NULL ? bytes_of(dot + 1, name.len - (size_t)(dot - name.data) - 1) : name;
    /* A third of it may be wrong: more is a guess, not a slip. */
    size_t wrong = last.len < 3 ? last.len / 2 : last.len < 6 ? 2 : last.len / 3;
    struct nearest best = {NULL, (unsigned)wrong + 1};
    /* The first of those that are equally near stays, and a key of a file is a section. */
    for (size_t i = 0; dot == NULL && i < t->n_sections; i++)
        table_consider(&best, name, t->sections[i], t->section_names[i], 0);
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->rows[i];
        table_consider(&best, name, bytes_str(o->name), o->name, 0);
        /* The right name in the wrong section, or without one. */
        table_consider(&best, last, bytes_str(table_short_name(o)), o->name, dot != NULL ? 1 : 0);
    }
    return best.name;
}

/* "write 'source.batch' or 'cleanup.batch'" for a short name that several have. */
static size_t table_full_names(struct bytes name, struct strbuf *out)
{
    const struct option_table *t = option_table();
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (bytes_eq_str(name, table_short_name(&t->rows[i])))
            outrider__strbuf_appendf(out, "%s'%s'", n++ > 0 ? " or " : "", t->rows[i].name);
    return n;
}

int outrider__option_unknown(struct bytes name, struct outrider_error *err)
{
    struct strbuf names;
    const char *near = outrider__option_nearest(name);
    int shown = name.len > 80 ? 80 : (int)name.len;
    const char *text = name.len > 0 ? name.data : "";
    int r;
    outrider__strbuf_init(&names, 300);
    if (outrider__option_is_section(name))
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "'%.*s' is a section, not an option", shown, text);
    else if (table_full_names(name, &names) > 1)
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "option '%.*s' is not unique: write %s", shown, text,
                           strbuf_cstr(&names));
    else if (near != NULL)
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                           "unknown option '%.*s' (did you mean '%s'?)", shown, text, near);
    else
        r = outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "unknown option '%.*s'", shown,
                           text);
    outrider__strbuf_release(&names);
    return r;
}
