/* SPDX-License-Identifier: MIT */
/*
 * From a connector's JSON to properties, the database among them, and what is
 * refused. Whatever nobody asked for by the end has no meaning here, and the
 * warning that names it is made from what is left over.
 */
#include "cli/debezium.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli/debezium_props.h"

#define ROUTER_CLASS "io.debezium.transforms.outbox.EventRouter"
#define TEXT_CAP 65536

const char *outrider__debezium_get(struct debezium *d, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < d->n; i++) {
        if (strcmp(d->props[i].name, name) != 0)
            continue;
        d->props[i].is_used = true;
        value = d->props[i].value;
    }
    return value != NULL && *value != '\0' ? value : NULL;
}

const char *outrider__debezium_get_router(struct debezium *d, const char *name, const char *older)
{
    char full[DEBEZIUM_NAME_MAX + 80];
    (void)snprintf(full, sizeof full, "%s%s", d->router, name);
    const char *value = outrider__debezium_get(d, full);
    if (older == NULL)
        return value;
    (void)snprintf(full, sizeof full, "%s%s", d->router, older);
    const char *other = outrider__debezium_get(d, full);
    return value != NULL ? value : other;
}

int outrider__debezium_set(struct debezium *d, const char *option, const char *value,
                           struct outrider_error *err)
{
    return outrider__config_set(d->config, bytes_str(option), bytes_str(value), err);
}

int outrider__debezium_add(struct debezium *d, const char *option, const char *name,
                           const char *value, struct outrider_error *err)
{
    return outrider__config_add(d->config, outrider__option_find(bytes_str(option)),
                                bytes_str(name), bytes_str(value), err);
}

void outrider__debezium_warn(struct debezium *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    outrider__strbuf_vappendf(d->warnings, fmt, ap);
    va_end(ap);
    strbuf_append_char(d->warnings, '\n');
}

int outrider__debezium_note(struct debezium *d, const struct outrider_error *err)
{
    if (d->errors == NULL)
        return -1;
    outrider__strbuf_appendf(d->errors, "%s: %s\n", d->path, err->message);
    return 0;
}

int outrider__debezium_bool(const char *name, const char *value, bool *ret,
                            struct outrider_error *err)
{
    bool is_true = strcasecmp(value, "true") == 0;
    if (!is_true && strcasecmp(value, "false") != 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "%s: '%.40s' is not true or false", name, value);
    *ret = is_true;
    return 0;
}

char *outrider__debezium_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        text[--n] = '\0';
    return text;
}

char *outrider__debezium_next(char **list)
{
    char *item;
    while ((item = strsep(list, ",")) != NULL) {
        item = outrider__debezium_trim(item);
        if (*item != '\0')
            return item;
    }
    return NULL;
}

char *outrider__debezium_copy(struct debezium *d, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = outrider__arena_alloc(d->arena, n);
    if (copy != NULL)
        memcpy(copy, text, n);
    return copy;
}

/* A text without a zero byte in it, ended by one. */
static int debezium_keep(struct debezium *d, struct bytes text, const char **ret_text,
                         struct outrider_error *err)
{
    char *copy = outrider__arena_alloc(d->arena, text.len + 1);
    if (copy == NULL)
        return outrider__fail_nomem(err);
    if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP, "a zero byte stands in a text");
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *ret_text = copy;
    return 0;
}

static int debezium_keep_json(struct debezium *d, struct bytes raw, bool is_key,
                              const char **ret_text, struct outrider_error *err)
{
    struct bytes text;
    int r = is_key ? outrider__json_unescape(raw, d->arena, &text)
                   : outrider__json_text(raw, d->arena, &text);
    return r < 0 ? outrider__fail_nomem(err) : debezium_keep(d, text, ret_text, err);
}

/* "${env:NAME}", alone: what Kafka Connect's own provider would put there. */
static int debezium_resolve(struct debezium_prop *p, struct outrider_error *err)
{
    const char *at = strstr(p->value, "${");
    size_t len = strlen(p->value);
    if (at == NULL || strchr(at, ':') == NULL || strchr(at, '}') == NULL ||
        strchr(at, ':') > strchr(at, '}'))
        return 0;
    if (strncmp(p->value, "${env:", 6) == 0 && strchr(p->value, '}') == p->value + len - 1) {
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)(len - 7 < 127 ? len - 7 : 127),
                       p->value + 6);
        p->value = getenv(name);
        return p->value != NULL
                   ? 0
                   : outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                    "%s: the environment has no variable '%s'", p->name, name);
    }
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "%s: only ${env:NAME} can be looked up here; write the value itself, or "
                          "give --from",
                          p->name);
}

static int debezium_add_prop(struct debezium *d, struct bytes key, struct bytes raw,
                             struct outrider_error *err)
{
    struct debezium_prop p = {0};
    if (bytes_eq_str(raw, "null"))
        return 0;
    if (debezium_keep_json(d, key, true, &p.name, err) < 0 ||
        debezium_keep_json(d, raw, false, &p.value, err) < 0)
        return -1;
    if (raw.data[0] == '{' || raw.data[0] == '[')
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "'%.80s' is an object or a list: a connector's properties are texts",
                              p.name);
    if (strlen(p.name) >= DEBEZIUM_NAME_MAX || d->n == DEBEZIUM_PROPS_MAX)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "more than %d properties, or one with a name of more than %d bytes",
                              DEBEZIUM_PROPS_MAX, DEBEZIUM_NAME_MAX - 1);
    char *value = outrider__debezium_copy(d, p.value);
    if (value == NULL)
        return outrider__fail_nomem(err);
    p.value = outrider__debezium_trim(value);
    if (debezium_resolve(&p, err) < 0)
        return -1;
    d->props[d->n++] = p;
    return 0;
}

static int debezium_read_props(struct debezium *d, struct bytes object, struct outrider_error *err)
{
    struct json_members m;
    struct bytes key, raw;
    if (outrider__json_members_begin(&m, object) < 0)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "this is not a connector's configuration: a JSON object is expected");
    while (outrider__json_members_next(&m, &key, &raw) > 0)
        if (debezium_add_prop(d, key, raw, err) < 0)
            return -1;
    return 0;
}

/* {"name":.., "config":{..}}, as it is sent to Kafka Connect, or config alone. */
static int debezium_read_connector(struct debezium *d, struct bytes json,
                                   struct outrider_error *err)
{
    struct json_members m;
    struct bytes key, raw, config = json;
    d->props = outrider__arena_alloc(d->arena, DEBEZIUM_PROPS_MAX * sizeof *d->props);
    if (d->props == NULL)
        return outrider__fail_nomem(err);
    if (outrider__json_members_begin(&m, json) == 0)
        while (outrider__json_members_next(&m, &key, &raw) > 0) {
            if (bytes_eq_str(key, "config") && raw.data[0] == '{')
                config = raw;
            else if (bytes_eq_str(key, "name") &&
                     debezium_keep_json(d, raw, false, &d->name, err) < 0)
                return -1;
        }
    if (debezium_read_props(d, config, err) < 0)
        return -1;
    const char *name = outrider__debezium_get(d, "name");
    if (d->name == NULL)
        d->name = name;
    return 0;
}

static int debezium_find_router(struct debezium *d, struct outrider_error *err)
{
    const char *list = outrider__debezium_get(d, "transforms");
    char *item, *rest = outrider__debezium_copy(d, list != NULL ? list : "");
    char full[DEBEZIUM_NAME_MAX + 20];
    if (rest == NULL)
        return outrider__fail_nomem(err);
    while ((item = outrider__debezium_next(&rest)) != NULL) {
        (void)snprintf(full, sizeof full, "transforms.%.200s.type", item);
        const char *type = outrider__debezium_get(d, full);
        if (type == NULL || strcmp(type, ROUTER_CLASS) != 0)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "transforms: '%.80s' is %s%.100s, which changes messages in a "
                                  "way that is not done here; only the outbox event router is (%s)",
                                  item, type != NULL ? "" : "of no known type",
                                  type != NULL ? type : "", ROUTER_CLASS);
        if (d->router[0] != '\0')
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "transforms: two outbox event routers in one connector");
        (void)snprintf(d->router, sizeof d->router, "transforms.%.200s.", item);
    }
    if (d->router[0] == '\0')
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "this is no outbox connector: none of its transforms is %s",
                              ROUTER_CLASS);
    return 0;
}

static int debezium_read_class(struct debezium *d, struct outrider_error *err)
{
    const char *name = outrider__debezium_get(d, "connector.class");
    bool is_postgres = name != NULL && (strcmp(name, "io.debezium.connector.postgresql."
                                                     "PostgresConnector") == 0);
    d->is_mysql =
        name != NULL && (strcmp(name, "io.debezium.connector.mysql.MySqlConnector") == 0 ||
                         strcmp(name, "io.debezium.connector.mariadb.MariaDbConnector") == 0);
    if (is_postgres || d->is_mysql)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "connector.class: %s%.100s is not a connector that can be run here: "
                          "PostgreSQL's, MySQL's and MariaDB's are",
                          name != NULL ? "" : "none is given, and that", name != NULL ? name : "");
}

static void debezium_append_encoded(struct strbuf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~')
            strbuf_append_char(out, (char)c);
        else
            outrider__strbuf_appendf(out, "%%%02X", c);
    }
}

static void debezium_append_hosts(struct strbuf *url, struct debezium *d, const char *hosts)
{
    const char *port = outrider__debezium_get(d, "database.port");
    char *item, *rest = outrider__debezium_copy(d, hosts);
    const char *comma = "";
    while (rest != NULL && (item = outrider__debezium_next(&rest)) != NULL) {
        char *colon = strchr(item, ':');
        bool is_ipv6 = item[0] == '[' || (colon != NULL && strchr(colon + 1, ':') != NULL);
        bool has_port = !is_ipv6 && colon != NULL && item[0] != '/';
        if (has_port)
            *colon = '\0';
        strbuf_append_str(url, comma);
        if (is_ipv6)
            outrider__strbuf_appendf(url, item[0] == '[' ? "%s" : "[%s]", item);
        else
            debezium_append_encoded(url, item); /* a directory too, of a Unix socket */
        if (has_port || port != NULL)
            outrider__strbuf_appendf(url, ":%s", has_port ? colon + 1 : port);
        comma = ",";
    }
}

static void debezium_append_parameters(struct strbuf *url, struct debezium *d)
{
    static const char *const names[] = {"sslmode", "sslcert", "sslkey", "sslpassword",
                                        "sslrootcert"};
    char mark = '?';
    for (size_t i = 0; !d->is_mysql && i < sizeof names / sizeof *names; i++) {
        char full[64];
        (void)snprintf(full, sizeof full, "database.%s", names[i]);
        const char *value = outrider__debezium_get(d, full);
        if (value == NULL)
            continue;
        outrider__strbuf_appendf(url, "%c%s=", mark, names[i]);
        debezium_append_encoded(url, value);
        mark = '&';
    }
}

static int debezium_set_url(struct debezium *d, struct outrider_error *err)
{
    const char *host = outrider__debezium_get(d, "database.hostname");
    const char *user = outrider__debezium_get(d, "database.user");
    const char *password = outrider__debezium_get(d, "database.password");
    const char *database = outrider__debezium_get(d, "database.dbname");
    struct strbuf url;
    (void)outrider__debezium_get(d, "database.tcpKeepAlive");
    if (host == NULL)
        return 0;
    outrider__strbuf_init(&url, TEXT_CAP);
    strbuf_append_str(&url, d->is_mysql ? "mysql://" : "postgresql://");
    if (user != NULL)
        debezium_append_encoded(&url, user);
    if (user != NULL && password != NULL) {
        strbuf_append_char(&url, ':');
        debezium_append_encoded(&url, password);
    }
    if (user != NULL)
        strbuf_append_char(&url, '@');
    debezium_append_hosts(&url, d, host);
    strbuf_append_char(&url, '/');
    debezium_append_encoded(&url, database != NULL ? database : "");
    debezium_append_parameters(&url, d);
    int r = url.failed ? outrider__fail_nomem(err)
                       : outrider__debezium_set(d, "source.url", strbuf_cstr(&url), err);
    outrider__strbuf_release(&url);
    return r;
}

/* The list holds patterns, of which only names can be read: "public\.outbox" is one. */
static int debezium_add_table(struct debezium *d, char *item, struct outrider_error *err)
{
    char *out = item, *table = item;
    for (const char *p = item; *p != '\0'; p++) {
        if (p[0] == '\\' && p[1] == '.')
            p++;
        else if (strchr("\\*+?()[]{}|^$", *p) != NULL)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "table.include.list: '%.80s' is a pattern; name the tables, "
                                  "schema.table",
                                  item);
        *out++ = *p;
    }
    *out = '\0';
    /* MySQL's begins with the database, which the URL names. */
    if (d->is_mysql && strchr(table, '.') != NULL)
        table = strchr(table, '.') + 1;
    return outrider__debezium_add(d, "source.tables", NULL, table, err);
}

static int debezium_set_tables(struct debezium *d, struct outrider_error *err)
{
    const char *list = outrider__debezium_get(d, "table.include.list");
    const char *older = outrider__debezium_get(d, "table.whitelist");
    if (list == NULL)
        list = older;
    if (list == NULL) {
        outrider__debezium_warn(d, "table.include.list is missing: the table 'outbox' is read");
        return 0;
    }
    char *item, *rest = outrider__debezium_copy(d, list);
    if (rest == NULL)
        return outrider__fail_nomem(err);
    while ((item = outrider__debezium_next(&rest)) != NULL)
        if (debezium_add_table(d, item, err) < 0)
            return -1;
    return 0;
}

static bool debezium_is_listed(const char *list, const char *value)
{
    char word[66];
    (void)snprintf(word, sizeof word, " %.63s ", value);
    return strstr(list, word) != NULL;
}

/* What Debezium has and the relay does without. */
static void debezium_warn_of_reading(struct debezium *d)
{
    const char *plugin = outrider__debezium_get(d, "plugin.name");
    const char *slot = outrider__debezium_get(d, "slot.name");
    if (plugin != NULL && strcmp(plugin, "pgoutput") != 0)
        outrider__debezium_warn(d, "plugin.name: the server's own pgoutput is used, not '%.40s'",
                                plugin);
    if (slot != NULL)
        outrider__debezium_warn(d,
                                "slot.name: the relay makes a slot of its own; '%.63s' is left "
                                "alone, and is to be dropped when Debezium is gone",
                                slot);
}

/* How PostgreSQL's stream is read. */
static int debezium_set_stream(struct debezium *d, struct outrider_error *err)
{
    const char *publication = outrider__debezium_get(d, "publication.name");
    const char *snapshot = outrider__debezium_get(d, "snapshot.mode");
    const char *failover = outrider__debezium_get(d, "slot.failover");
    bool has_failover = false;
    if (publication != NULL && !d->is_mysql &&
        outrider__debezium_set(d, "source.publication", publication, err) < 0)
        return -1;
    if (snapshot != NULL && debezium_is_listed(" no_data never ", snapshot) &&
        outrider__debezium_set(d, "source.existing_rows", "skip", err) < 0)
        return -1;
    if (failover != NULL &&
        outrider__debezium_bool("slot.failover", failover, &has_failover, err) < 0)
        return -1;
    return has_failover ? outrider__debezium_set(d, "source.slot_failover", "true", err) : 0;
}

static int debezium_set_source(struct debezium *d, struct outrider_error *err)
{
    const char *batch = outrider__debezium_get(d, "max.batch.size");
    const char *interval = outrider__debezium_get(d, "poll.interval.ms");
    char text[64];
    if (debezium_set_url(d, err) < 0 || debezium_set_tables(d, err) < 0 ||
        outrider__debezium_set(d, "source.mode", "cdc", err) < 0)
        return -1;
    debezium_warn_of_reading(d);
    if (debezium_set_stream(d, err) < 0)
        return -1;
    if (batch != NULL && outrider__debezium_set(d, "source.batch", batch, err) < 0)
        return -1;
    if (interval == NULL)
        return 0;
    (void)snprintf(text, sizeof text, "%.40sms", interval);
    return outrider__debezium_set(d, "source.poll_interval", text, err);
}

/* Kafka Connect's producer, where librdkafka has a property that means the same. */
static int debezium_set_producer(struct debezium *d, struct outrider_error *err)
{
    static const char *const names[][2] = {
        {"compression.type", "compression.type"},
        {"linger.ms", "linger.ms"},
        {"batch.size", "batch.size"},
        {"max.request.size", "message.max.bytes"},
        {"client.id", "client.id"},
    };
    const char *partitions = outrider__debezium_get(d, "topic.creation.default.partitions");
    const char *replicas = outrider__debezium_get(d, "topic.creation.default.replication.factor");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char full[80];
        (void)snprintf(full, sizeof full, "producer.override.%s", names[i][0]);
        const char *value = outrider__debezium_get(d, full);
        if (value != NULL && outrider__debezium_add(d, "sink.kafka", names[i][1], value, err) < 0)
            return -1;
    }
    if (partitions == NULL && replicas == NULL)
        return outrider__debezium_set(d, "sink.create_topics", "{auto: true}", err);
    if (partitions != NULL && strcmp(partitions, "-1") != 0 &&
        outrider__debezium_add(d, "sink.create_topics", "partitions", partitions, err) < 0)
        return -1;
    if (replicas != NULL && strcmp(replicas, "-1") != 0 &&
        outrider__debezium_add(d, "sink.create_topics", "replication", replicas, err) < 0)
        return -1;
    return 0;
}

/* What would make other messages, by name; a '.' at the end: whatever begins so.
 * Values that make no difference are listed. */
static const struct {
    const char *name, *harmless, *why;
} refused[] = {
    {"binary.handling.mode", " bytes ", "payloads of bytes are published as they are"},
    {"snapshot.mode", " initial when_needed no_data never ",
     "rows that are in the outbox at the start are delivered first, once, or not at all (no_data)"},
    {"snapshot.select.statement.overrides", "", "all rows are read"},
    {"column.include.list", "", "columns are left out by not naming them"},
    {"column.exclude.list", "", "columns are left out by not naming them"},
    {"column.mask.", "", "values are published as they are"},
    {"column.truncate.", "", "values are published as they are"},
    {"converters", "", "values are published as they are"},
};

static int debezium_refuse(struct debezium *d, struct outrider_error *err)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t n = strlen(refused[i].name);
        bool is_prefix = refused[i].name[n - 1] == '.';
        for (size_t k = 0; k < d->n; k++) {
            struct debezium_prop *p = &d->props[k];
            if (is_prefix ? strncmp(p->name, refused[i].name, n) != 0
                          : strcmp(p->name, refused[i].name) != 0)
                continue;
            p->is_used = true;
            if (*p->value == '\0' || debezium_is_listed(refused[i].harmless, p->value))
                continue;
            (void)outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                 "%s: '%.60s' would change what is published, and is not done "
                                 "here (%s); leave it out if that is right for you",
                                 p->name, p->value, refused[i].why);
            if (outrider__debezium_note(d, err) < 0)
                return -1;
        }
    }
    const char *skipped = outrider__debezium_get(d, "skipped.operations");
    if (skipped != NULL && strchr(skipped, 'c') != NULL)
        return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                              "skipped.operations: without inserts ('c') nothing is published");
    return 0;
}

/* Columns that an update left out are read again: inserts have all of theirs. */
#define RESELECT "io.debezium.processors.reselect.ReselectColumnsPostProcessor"

static int debezium_check_processors(struct debezium *d, struct outrider_error *err)
{
    const char *list = outrider__debezium_get(d, "post.processors");
    char *item, *rest = outrider__debezium_copy(d, list != NULL ? list : "");
    char full[DEBEZIUM_NAME_MAX + 8];
    if (rest == NULL)
        return outrider__fail_nomem(err);
    while ((item = outrider__debezium_next(&rest)) != NULL) {
        (void)snprintf(full, sizeof full, "%.200s.type", item);
        const char *type = outrider__debezium_get(d, full);
        if (type == NULL || strcmp(type, RESELECT) != 0)
            return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                  "post.processors: '%.80s' would change what is published, and is "
                                  "not done here; leave it out if that is right for you",
                                  item);
        outrider__debezium_warn(d,
                                "post.processors: '%.80s' has nothing to do here: only inserts are "
                                "read, and these have all of their columns",
                                item);
        (void)snprintf(full, sizeof full, "%.200s.", item);
        for (size_t i = 0; i < d->n; i++)
            d->props[i].is_used |= strncmp(d->props[i].name, full, strlen(full)) == 0;
    }
    return 0;
}

/* A table that is not in this list would not be read at the start. */
static int debezium_check_snapshot_list(struct debezium *d, struct outrider_error *err)
{
    const char *tables = outrider__debezium_get(d, "table.include.list");
    const char *list = outrider__debezium_get(d, "snapshot.include.collection.list");
    if (list == NULL || (tables != NULL && strcmp(list, tables) == 0))
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "snapshot.include.collection.list: the rows that are there at the start "
                          "are read of every table in table.include.list; leave it out if that is "
                          "right for you");
}

static int debezium_set_exactly_once(struct debezium *d, struct outrider_error *err)
{
    const char *wish = outrider__debezium_get(d, "exactly.once.support");
    if (wish == NULL || strcmp(wish, "required") != 0)
        return 0;
    return outrider__debezium_set(d, "exactly_once", "true", err);
}

/* A line of what is said has room for so many bytes of names. */
#define NAMES_ROOM 500

static void debezium_warn_of(struct debezium *d, const char *what, bool are_known)
{
    struct strbuf names;
    outrider__strbuf_init(&names, TEXT_CAP);
    for (size_t i = 0; i <= d->n; i++) {
        bool is_end = i == d->n;
        if (names.len > 0 && (is_end || names.len + strlen(d->props[i].name) > NAMES_ROOM)) {
            outrider__debezium_warn(d, "%s, and left out: %s", what, strbuf_cstr(&names));
            outrider__strbuf_clear(&names);
        }
        if (is_end || d->props[i].is_used ||
            (d->is_mysql || outrider__debezium_knows(d, d->props[i].name)) != are_known)
            continue;
        outrider__strbuf_appendf(&names, "%s%s", names.len > 0 ? ", " : "", d->props[i].name);
    }
    outrider__strbuf_release(&names);
}

static void debezium_warn_of_the_rest(struct debezium *d)
{
    (void)outrider__debezium_get(d, "tombstones.on.delete"); /* deletes are not read */
    debezium_warn_of(d, "without a meaning here", true);
    debezium_warn_of(d, "not known to Debezium 3.4", false);
}

/* The connector's name as a pipeline may have it. */
static void debezium_name_of(const struct debezium *d, char ret_name[64])
{
    (void)snprintf(ret_name, 64, "%s", d->name != NULL ? d->name : "");
    for (char *p = ret_name; *p != '\0'; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') &&
            (p == ret_name || strchr("_-.", *p) == NULL))
            *p = '-';
    if (outrider__config_check_name(bytes_str(ret_name), NULL) < 0)
        (void)snprintf(ret_name, 64, "default");
}

static int debezium_translate(struct debezium *d, struct outrider_error *err)
{
    static int (*const steps[])(struct debezium * d, struct outrider_error * err) = {
        debezium_read_class,       debezium_find_router,         debezium_set_source,
        debezium_set_producer,     debezium_set_exactly_once,    debezium_refuse,
        debezium_check_processors, debezium_check_snapshot_list,
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i](d, err) < 0 && outrider__debezium_note(d, err) < 0)
            return -1;
    if (d->router[0] != '\0' && outrider__debezium_router(d, err) < 0)
        return -1;
    /* Behind an error, what nobody asked for may be what nobody came to. */
    if (d->errors != NULL && d->errors->len > 0)
        return 0;
    debezium_warn_of_the_rest(d);
    return d->warnings->failed ? outrider__fail_nomem(err) : 0;
}

int outrider__debezium_parse(struct bytes json, const char *name, const char *pipeline,
                             struct config_file *ret_file, struct strbuf *warnings,
                             struct strbuf *ret_errors, struct outrider_error *err)
{
    struct outrider_error why = {0};
    struct arena arena;
    char own[64];
    struct debezium d = {.arena = &arena, .warnings = warnings, .errors = ret_errors, .path = name};
    outrider__arena_init(&arena, 16384);
    int r = json.len > CONFIG_FILE_MAX ? outrider__fail(&why, OUTRIDER_CONFIG, OUTRIDER_STOP,
                                                        "larger than %d bytes", CONFIG_FILE_MAX)
                                       : debezium_read_connector(&d, json, &why);
    debezium_name_of(&d, own);
    if (r == 0)
        r = outrider__config_empty(pipeline != NULL ? pipeline : own, ret_file, &why);
    if (r == 0) {
        d.config = &ret_file->pipelines[0];
        r = debezium_translate(&d, &why);
        if (r < 0)
            outrider__config_release(ret_file);
    }
    outrider__arena_release(&arena);
    return r < 0 ? outrider__fail(err, why.code, why.disposition, "%s: %s", name, why.message) : 0;
}

int outrider__debezium_load(const char *path, const char *pipeline, struct config_file *ret_file,
                            struct strbuf *warnings, struct strbuf *ret_errors,
                            struct outrider_error *err)
{
    struct bytes text;
    if (outrider__config_read(path, &text, err) < 0)
        return -1;
    int r = outrider__debezium_parse(text, path, pipeline, ret_file, warnings, ret_errors, err);
    free((char *)text.data);
    return r;
}
