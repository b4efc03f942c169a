/* SPDX-License-Identifier: MIT */
/*
 * Parsing is strict and redaction is not: what parses is split at places that
 * cannot be mistaken; what may be a mistake is shown only up to the first byte
 * that may belong to a password.
 */
#include "base/url.h"

#include <ctype.h>
#include <strings.h>

#define LOOKS_LIKE \
    "a URL looks like sqlite:shop.db, file:/var/log/events or kafka://host:9092,host:9092"

static struct bytes url_slice(const char *from, const char *to)
{
    return bytes_of(from, (size_t)(to - from));
}

static const char *url_find(struct bytes b, char c)
{
    return b.len ? memchr(b.data, c, b.len) : NULL;
}

static const char *url_find_last(struct bytes b, char c)
{
    return b.len ? memrchr(b.data, c, b.len) : NULL;
}

/* Cuts b at the first c: returns what stands before it, b keeps what stands
 * behind it, or becomes null where there is no c. */
static struct bytes url_cut(struct bytes *b, char c)
{
    const char *at = url_find(*b, c);
    struct bytes front = at ? url_slice(b->data, at) : *b;
    *b = at ? url_slice(at + 1, b->data + b->len) : BYTES_NULL;
    return front;
}

/* The length of "scheme:" without its colon; 0 where the text has none. */
static size_t url_scheme_length(struct bytes text)
{
    if (text.len == 0 || !isalpha((unsigned char)text.data[0]))
        return 0;
    size_t n = 1;
    while (n < text.len && (isalnum((unsigned char)text.data[n]) || text.data[n] == '+' ||
                            text.data[n] == '-' || text.data[n] == '.'))
        n++;
    return n < text.len && text.data[n] == ':' ? n : 0;
}

static bool url_has_slashes(struct bytes rest)
{
    return rest.len >= 2 && rest.data[0] == '/' && rest.data[1] == '/';
}

/* The end of "host:port,host:port" at the front. */
static const char *url_authority_end(struct bytes b)
{
    size_t n = 0;
    while (n < b.len && b.data[n] != '/' && b.data[n] != '?')
        n++;
    return b.data + n;
}

/* The first port that is not a number, as the place of its colon, or NULL.
 * Colons in brackets belong to an IPv6 address. */
static const char *url_bad_port(struct bytes hosts)
{
    bool bracket = false;
    for (size_t i = 0; i < hosts.len; i++) {
        char c = hosts.data[i];
        if (c == '[' || c == ']')
            bracket = c == '[';
        if (c != ':' || bracket)
            continue;
        unsigned port = 0;
        size_t n = i + 1;
        for (; n < hosts.len && isdigit((unsigned char)hosts.data[n]) && n - i <= 5; n++)
            port = port * 10 + (unsigned)(hosts.data[n] - '0');
        if (n == i + 1 || port > 65535 || (n < hosts.len && hosts.data[n] != ','))
            return hosts.data + i;
    }
    return NULL;
}

/* An error about the text, which is shown without its secrets. */
static int fail_url(struct outrider_error *err, struct bytes text, const char *why)
{
    struct arena scratch;
    struct bytes shown;
    outrider__arena_init(&scratch, 1024);
    if (outrider__url_redact(text, &scratch, &shown) < 0)
        shown = BYTES_LIT("***");
    int limit = shown.len < 160 ? (int)shown.len : 160;
    int rc = outrider__fail(err, OUTRIDER_URL, OUTRIDER_STOP, "'%.*s': %s; %s", limit,
                            shown.data ? shown.data : "", why, LOOKS_LIKE);
    outrider__arena_release(&scratch);
    return rc;
}

int outrider__url_scheme(struct bytes text, char *ret_scheme, size_t size,
                         struct outrider_error *err)
{
    size_t n = url_scheme_length(text);
    if (n == 0)
        return fail_url(err, text, text.len ? "no scheme" : "empty");
    if (n >= size)
        return fail_url(err, text, "unknown scheme");
    for (size_t i = 0; i < n; i++)
        ret_scheme[i] = (char)tolower((unsigned char)text.data[i]);
    ret_scheme[n] = '\0';
    return 0;
}

static int url_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    int lower = tolower((unsigned char)c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The byte of a %XX at the front, or -1. */
static int url_percent_byte(struct bytes b)
{
    int high = b.len >= 3 ? url_hex_digit(b.data[1]) : -1;
    int low = b.len >= 3 ? url_hex_digit(b.data[2]) : -1;
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Parts end up in C strings and in logs: no zero byte, and escapes are whole. */
static bool url_is_decodable(struct bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        unsigned char c = (unsigned char)b.data[i];
        if (c < 0x20 || c == 0x7f)
            return false;
        if (c == '%' && url_percent_byte(url_slice(b.data + i, b.data + b.len)) <= 0)
            return false;
    }
    return true;
}

/* A decoded copy; null stays null. What is no escape is copied as it stands. */
static int url_decode(struct arena *arena, struct bytes b, struct bytes *ret_text)
{
    struct bytes copy;
    if (outrider__arena_dup(arena, b, &copy) < 0)
        return -1;
    char *out = (char *)copy.data;
    for (size_t i = 0; i < b.len; i++) {
        int c = b.data[i] == '%' ? url_percent_byte(url_slice(b.data + i, b.data + b.len)) : -1;
        *out++ = c < 0 ? b.data[i] : (char)c;
        i += c < 0 ? 0 : 2;
    }
    if (copy.data != NULL) {
        *out = '\0';
        copy.len = (size_t)(out - copy.data);
    }
    *ret_text = copy;
    return 0;
}

static size_t url_count_params(struct bytes query)
{
    size_t n = 0;
    while (query.len > 0)
        n += url_cut(&query, '&').len > 0;
    return n;
}

static int url_parse_params(struct bytes query, struct arena *arena, struct url *u)
{
    size_t n = url_count_params(query);
    if (n == 0)
        return 0;
    u->params = outrider__arena_alloc(arena, n * sizeof *u->params);
    if (u->params == NULL)
        return -1;
    while (query.len > 0) {
        struct bytes value = url_cut(&query, '&');
        if (value.len == 0)
            continue;
        struct url_param *p = &u->params[u->n_params++];
        struct bytes name = url_cut(&value, '=');
        if (value.data == NULL)
            value = BYTES_LIT("");
        if (url_decode(arena, name, &p->name) < 0 || url_decode(arena, value, &p->value) < 0)
            return -1;
    }
    return 0;
}

static bool url_has_nameless_param(struct bytes query)
{
    while (query.len > 0) {
        struct bytes item = url_cut(&query, '&');
        if (item.len > 0 && item.data[0] == '=')
            return true;
    }
    return false;
}

/* The raw parts of a URL, borrowed from its text. */
struct parts {
    struct bytes scheme, rest, user, password, hosts, path, query;
};

static const char *url_split_authority(struct bytes body, struct parts *p)
{
    const char *end = url_authority_end(body);
    struct bytes authority = url_slice(body.data, end);
    const char *at = url_find_last(authority, '@');
    if (at != NULL) {
        p->password = url_slice(authority.data, at);
        p->user = url_cut(&p->password, ':');
        authority = url_slice(at + 1, end);
    }
    p->path = url_slice(end, body.data + body.len);
    if (url_find(p->path, '@') != NULL)
        return "an @ behind the host must be written %40 (in a password also / as %2F and ? as "
               "%3F)";
    if (url_bad_port(authority) != NULL)
        return "a port must be a number up to 65535 (in a password, : / ? and @ are written %3A "
               "%2F "
               "%3F %40)";
    p->hosts = authority.len ? authority : BYTES_NULL;
    return NULL;
}

/* NULL, or what is wrong with the text. */
static const char *url_split(struct bytes text, struct parts *ret_parts)
{
    struct parts p = {0};
    size_t n = url_scheme_length(text);
    if (n == 0)
        return text.len ? "no scheme" : "empty";
    p.scheme = bytes_of(text.data, n);
    p.rest = bytes_of(text.data + n + 1, text.len - n - 1);
    if (!url_is_decodable(p.rest))
        return "a control byte, or a % that does not begin a %XX";
    p.path = p.rest;
    if (url_has_slashes(p.rest)) {
        const char *why = url_split_authority(bytes_of(p.rest.data + 2, p.rest.len - 2), &p);
        if (why != NULL)
            return why;
    }
    p.query = p.path;
    p.path = url_cut(&p.query, '?');
    if (url_has_nameless_param(p.query))
        return "a parameter without a name";
    *ret_parts = p;
    return NULL;
}

int outrider__url_parse(struct bytes text, struct arena *arena, struct url *ret_url,
                        struct outrider_error *err)
{
    struct parts p;
    struct url u = {0};
    const char *why = url_split(text, &p);
    if (why != NULL)
        return fail_url(err, text, why);
    if (outrider__arena_dup(arena, p.scheme, &u.scheme) < 0 ||
        outrider__arena_dup(arena, p.rest, &u.rest) < 0 || url_decode(arena, p.user, &u.user) < 0 ||
        url_decode(arena, p.password, &u.password) < 0 ||
        url_decode(arena, p.hosts, &u.hosts) < 0 || url_decode(arena, p.path, &u.path) < 0 ||
        url_parse_params(p.query, arena, &u) < 0)
        return outrider__fail_nomem(err);
    char *scheme = (char *)u.scheme.data;
    for (size_t i = 0; i < u.scheme.len; i++)
        scheme[i] = (char)tolower((unsigned char)scheme[i]);
    *ret_url = u;
    return 0;
}

/* Where redacted text is put together; the room is known to suffice. */
struct writer {
    char *p;
    size_t len, size;
};

static void url_put(struct writer *w, struct bytes b)
{
    size_t n = b.len < w->size - w->len ? b.len : w->size - w->len;
    if (n > 0)
        memcpy(w->p + w->len, b.data, n);
    w->len += n;
}

#define MASK BYTES_LIT("***")

static const char *const secret_words[] = {"pass", "pwd", "secret", "token", "key", "credential"};

/* The place behind the first word that sounds secret, or NULL. */
static const char *url_find_secret_word(struct bytes b)
{
    const char *first = NULL;
    for (size_t i = 0; i < sizeof secret_words / sizeof *secret_words; i++) {
        size_t n = strlen(secret_words[i]);
        for (size_t at = 0; at + n <= b.len; at++) {
            const char *behind = b.data + at + n;
            if (strncasecmp(b.data + at, secret_words[i], n) == 0 && (!first || behind < first))
                first = behind;
        }
    }
    return first;
}

bool outrider__name_is_secret(struct bytes name)
{
    return url_find_secret_word(name) != NULL;
}

/* Behind the = of a "password = ..." within the text, or NULL. */
static const char *url_find_assignment(struct bytes b)
{
    if (b.len == 0)
        return NULL;
    const char *end = b.data + b.len, *p = url_find_secret_word(b);
    while (p != NULL) {
        while (p < end && (isalnum((unsigned char)*p) || *p == '_' || *p == '-' || *p == ' '))
            p++;
        if (p < end && *p == '=')
            return p + 1;
        p = url_find_secret_word(url_slice(p, end));
    }
    return NULL;
}

/* Whether a parameter is to be hidden: by its name, or because its value
 * carries settings of its own, one of which sounds secret. */
static bool url_is_secret_param(struct arena *arena, struct bytes item)
{
    struct bytes decoded, value;
    if (url_decode(arena, item, &decoded) < 0)
        return true;
    value = decoded;
    struct bytes name = url_cut(&value, '=');
    return url_find_secret_word(name) != NULL || url_find_assignment(value) != NULL;
}

static void url_redact_query(struct writer *w, struct arena *arena, struct bytes query)
{
    bool hidden = false;
    url_put(w, BYTES_LIT("?"));
    for (bool first = true; !bytes_is_null(query); first = false) {
        struct bytes value = url_cut(&query, '&');
        struct bytes item = value, name = url_cut(&value, '=');
        /* What follows a secret without a name of its own may be the rest of it. */
        bool tail = hidden && bytes_is_null(value) && item.len > 0;
        hidden = tail || url_is_secret_param(arena, item);
        if (!first)
            url_put(w, BYTES_LIT("&"));
        if (!hidden) {
            url_put(w, item);
            continue;
        }
        /* An escaped name may hold more than a name: a=b written a%3Db. */
        if (!bytes_is_null(value) && url_find(name, '%') == NULL) {
            url_put(w, name);
            url_put(w, BYTES_LIT("="));
        }
        url_put(w, MASK);
    }
}

/* Some clients take a token where others have a user: nats://token@host. */
static bool url_is_user_secret(struct bytes scheme)
{
    static const char *const schemes[] = {"nats", "tls", "ws", "wss", "http", "https"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (scheme.len == strlen(schemes[i]) &&
            strncasecmp(scheme.data, schemes[i], scheme.len) == 0)
            return true;
    return false;
}

/* What may stand before the @ of user:password@host. */
enum user_form {
    USER_SHOWN,  /* user, or user:password */
    USER_SECRET, /* token, or user:password */
    USER_UNSURE, /* there should be none: "user:password@host" without a scheme */
    USER_NONE    /* a path */
};

static enum user_form url_user_form(struct bytes scheme, struct bytes body)
{
    if (url_has_slashes(body))
        return url_is_user_secret(scheme) ? USER_SECRET : USER_SHOWN;
    return body.len > 0 && strchr("/.", body.data[0]) != NULL ? USER_NONE : USER_UNSURE;
}

/* The part between scheme and query. False: it is not what it should be, and
 * what may follow is better left out. */
static bool url_redact_head(struct writer *w, struct bytes head, enum user_form form)
{
    const char *at = url_find_last(head, '@');
    const char *colon = at ? url_find(url_slice(head.data, at), ':') : NULL;
    if (at == NULL && (form == USER_SHOWN || form == USER_SECRET) && head.len > 0)
        colon = url_bad_port(url_slice(head.data, url_authority_end(head)));
    if (form == USER_UNSURE)
        colon = NULL;
    if (colon != NULL || (at != NULL && (form == USER_SECRET || form == USER_UNSURE))) {
        url_put(w, colon ? url_slice(head.data, colon + 1) : BYTES_NULL);
        url_put(w, MASK);
        if (at == NULL)
            return false;
        head = url_slice(at, head.data + head.len);
    }
    const char *assignment = url_find_assignment(head);
    url_put(w, assignment ? url_slice(head.data, assignment) : head);
    if (assignment != NULL)
        url_put(w, MASK);
    return assignment == NULL;
}

static void url_redact(struct writer *w, struct arena *arena, struct bytes text, bool with_query)
{
    size_t n = url_scheme_length(text);
    struct bytes body = n ? bytes_of(text.data + n + 1, text.len - n - 1) : text;
    enum user_form form = url_user_form(bytes_of(text.data, n), body);
    if (url_has_slashes(body))
        body = bytes_of(body.data + 2, body.len - 2);
    url_put(w, url_slice(text.data, body.data));
    struct bytes query = body, head = url_cut(&query, '?');
    if (form != USER_NONE && url_find(query, '@') != NULL) {
        /* No URL that parses: the ? may be the password's, and so may be all. */
        const char *colon = form == USER_UNSURE ? NULL : url_find(head, ':');
        url_put(w, colon ? url_slice(head.data, colon + 1) : BYTES_NULL);
        url_put(w, MASK);
    } else if (url_redact_head(w, head, form) && with_query && !bytes_is_null(query)) {
        url_redact_query(w, arena, query);
    }
}

static int url_redact_into(struct bytes text, struct arena *arena, bool with_query,
                           struct bytes *ret_text)
{
    /* A mask is three bytes for a name of at least three and its = or &. */
    struct writer w = {.size = 2 * text.len + 16};
    w.p = outrider__arena_alloc(arena, w.size + 1);
    if (w.p == NULL)
        return -1;
    if (text.len > 0)
        url_redact(&w, arena, text, with_query);
    w.p[w.len] = '\0';
    *ret_text = bytes_of(w.p, w.len);
    return 0;
}

int outrider__url_redact(struct bytes text, struct arena *arena, struct bytes *ret_text)
{
    return url_redact_into(text, arena, true, ret_text);
}

/* Whether "scheme:path" is plainly a path, so that an @ or = in it is a name's. */
static bool url_is_plain_path(struct bytes path)
{
    if (path.len == 0 || path.data[0] == '/' || path.data[0] == '.')
        return true;
    return url_find(path, '=') == NULL && url_find(path, ':') == NULL;
}

int outrider__url_identity(struct bytes text, struct arena *arena, struct bytes *ret_text)
{
    struct parts p;
    bool parses = url_split(text, &p) == NULL;
    if (!parses || (url_has_slashes(p.rest) ? url_find_assignment(p.path) != NULL
                                            : !url_is_plain_path(p.path)))
        return url_redact_into(text, arena, false, ret_text);
    struct writer w = {.size = text.len};
    w.p = outrider__arena_alloc(arena, w.size + 1);
    if (w.p == NULL)
        return -1;
    for (size_t i = 0; i < p.scheme.len; i++)
        w.p[w.len++] = (char)tolower((unsigned char)p.scheme.data[i]);
    url_put(&w, url_has_slashes(p.rest) ? BYTES_LIT("://") : BYTES_LIT(":"));
    url_put(&w, p.hosts);
    url_put(&w, p.path);
    w.p[w.len] = '\0';
    *ret_text = bytes_of(w.p, w.len);
    return 0;
}
