/* SPDX-License-Identifier: MIT */
/*
 * One scanner serves is_valid and minify: it walks the grammar with a byte per
 * open container instead of recursion, so that foreign nesting costs no stack.
 * minify copies whole runs between white space, so that a value which is
 * compact already is checked once and copied once.
 */
#include "base/json.h"

/* Bytes of a string that need a look: quote, backslash, control, not ASCII. */
static const bool is_special[256] = {
    [0 ... 31] = true, ['"'] = true, ['\\'] = true, [128 ... 255] = true};

static const bool is_space[256] = {[' '] = true, ['\t'] = true, ['\n'] = true, ['\r'] = true};

#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

/* The high bit of each special byte. A borrow can mark a byte above a true
 * one, never below it: only the lowest mark is exact, and only that is used. */
static inline uint64_t json_specials(uint64_t w)
{
    uint64_t quote = w ^ (ONES * '"'), slash = w ^ (ONES * '\\');
    uint64_t hit = ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) | ((w - ONES * 0x20) & ~w);
    return (hit | w) & HIGHS;
}

static inline const char *json_skip_plain(const char *p, const char *end)
{
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        w = __builtin_bswap64(w);
#endif
        uint64_t hit = json_specials(w);
        if (hit != 0)
            return p + (__builtin_ctzll(hit) >> 3);
        p += 8;
    }
    while (p < end && !is_special[(unsigned char)*p])
        p++;
    return p;
}

/* The value of four hexadecimal digits, or -1. */
static int json_hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i], lower = (char)(c | 0x20);
        int d = c >= '0' && c <= '9' ? c - '0' : lower - 'a' + 10;
        if (d > 15 || (d < 10 && c > '9') || c < '0')
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* p is behind the backslash; behind the escape, or NULL. */
static inline const char *json_skip_escape(const char *p, const char *end)
{
    if (p == end)
        return NULL;
    switch (*p) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 1;
    case 'u':
        return json_hex4(p + 1, end) < 0 ? NULL : p + 5;
    default:
        return NULL;
    }
}

/* p is behind the opening quote; behind the closing one, or NULL. */
static inline const char *json_skip_string(const char *p, const char *end)
{
    for (;;) {
        p = json_skip_plain(p, end);
        if (p == end)
            return NULL;
        unsigned char c = (unsigned char)*p;
        if (c == '"')
            return p + 1;
        if (c == '\\') {
            p = json_skip_escape(p + 1, end);
            if (p == NULL)
                return NULL;
        } else if (c < 0x20) {
            return NULL;
        } else {
            /* Text that is not ASCII comes in runs: stay with it. */
            do {
                size_t n = outrider__utf8_length(p, (size_t)(end - p));
                if (n == 0)
                    return NULL;
                p += n;
            } while (p < end && (unsigned char)*p >= 0x80);
        }
    }
}

static inline bool json_is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

static inline const char *json_skip_digits(const char *p, const char *end)
{
    while (p < end && json_is_digit(*p))
        p++;
    return p;
}

/* At least one digit, or NULL. */
static inline const char *json_skip_some_digits(const char *p, const char *end)
{
    const char *after = json_skip_digits(p, end);
    return after == p ? NULL : after;
}

static inline const char *json_skip_number(const char *p, const char *end)
{
    if (*p == '-')
        p++;
    if (p == end)
        return NULL;
    p = *p == '0' ? p + 1 : json_skip_some_digits(p, end);
    if (p != NULL && p < end && *p == '.')
        p = json_skip_some_digits(p + 1, end);
    if (p != NULL && p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        p = json_skip_some_digits(p, end);
    }
    return p;
}

static inline const char *json_skip_word(const char *p, const char *end, const char *word, size_t n)
{
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

/* A value that is not a container: behind it, or NULL. */
static inline const char *json_skip_scalar(const char *p, const char *end)
{
    switch (*p) {
    case '"':
        return json_skip_string(p + 1, end);
    case 't':
        return json_skip_word(p, end, "true", 4);
    case 'f':
        return json_skip_word(p, end, "false", 5);
    case 'n':
        return json_skip_word(p, end, "null", 4);
    default:
        return *p == '-' || json_is_digit(*p) ? json_skip_number(p, end) : NULL;
    }
}

static inline const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && is_space[(unsigned char)*p])
        p++;
    return p;
}

struct scan {
    const char *p, *end;
    const char *run; /* what is checked but not yet copied starts here */
    char *out;       /* NULL: only check */
    unsigned depth;
    char closers[JSON_DEPTH]; /* what ends each open container: } or ] */
};

/* Moves to the next byte that is not white space; false at the end. */
static inline bool json_to_token(struct scan *s)
{
    if (s->p < s->end && !is_space[(unsigned char)*s->p])
        return true;
    const char *q = json_skip_space(s->p, s->end);
    if (s->out != NULL) {
        size_t n = (size_t)(s->p - s->run);
        memcpy(s->out, s->run, n);
        s->out += n;
        s->run = q;
    }
    s->p = q;
    return q < s->end;
}

static inline bool json_open_container(struct scan *s, char closer)
{
    if (s->depth == JSON_DEPTH)
        return false;
    s->closers[s->depth++] = closer;
    s->p++;
    return true;
}

/* A key and its colon. */
static inline bool json_scan_key(struct scan *s)
{
    if (*s->p != '"')
        return false;
    s->p = json_skip_string(s->p + 1, s->end);
    if (s->p == NULL || !json_to_token(s) || *s->p != ':')
        return false;
    s->p++;
    return json_to_token(s);
}

/* Behind a value: closes what ends here and moves to the next value.
 * 1 where there is one, 0 at the end of the text, -1 where it is not JSON. */
static inline int json_scan_behind(struct scan *s)
{
    for (;;) {
        bool more = json_to_token(s);
        if (s->depth == 0)
            return more ? -1 : 0;
        if (!more)
            return -1;
        char closer = s->closers[s->depth - 1];
        char c = *s->p++;
        if (c == ',')
            return json_to_token(s) && (closer == ']' || json_scan_key(s)) ? 1 : -1;
        if (c != closer)
            return -1;
        s->depth--;
    }
}

static inline __attribute__((always_inline)) bool json_scan_text(struct scan *s)
{
    int more = json_to_token(s) ? 1 : -1;
    while (more > 0) {
        char c = *s->p;
        if (c == '{' || c == '[') {
            char closer = c == '{' ? '}' : ']';
            if (!json_open_container(s, closer) || !json_to_token(s))
                return false;
            if (*s->p == closer) {
                s->p++;
                s->depth--;
            } else {
                if (c == '{' && !json_scan_key(s))
                    return false;
                continue;
            }
        } else {
            s->p = json_skip_scalar(s->p, s->end);
            if (s->p == NULL)
                return false;
        }
        more = json_scan_behind(s);
    }
    return more == 0;
}

/* Not an initialiser: that would clear 512 levels for each event. */
static inline void json_scan_init(struct scan *s, struct bytes text, char *out)
{
    s->p = s->run = text.data;
    s->end = text.data + text.len;
    s->out = out;
    s->depth = 0;
}

bool outrider__json_is_valid(struct bytes text)
{
    struct scan s;
    if (text.len == 0)
        return false;
    json_scan_init(&s, text, NULL);
    return json_scan_text(&s);
}

ssize_t outrider__json_minify(struct bytes text, char *out)
{
    struct scan s;
    if (text.len == 0)
        return -1;
    json_scan_init(&s, text, out);
    /* The end of the text counts as white space, so the last run is copied. */
    return json_scan_text(&s) ? s.out - out : -1;
}

int outrider__json_members_begin(struct json_members *m, struct bytes text)
{
    if (!outrider__json_is_valid(text))
        return -1;
    const char *end = text.data + text.len;
    const char *p = json_skip_space(text.data, end);
    if (*p != '{')
        return -1;
    *m = (struct json_members){.p = p + 1, .end = end, .first = true};
    return 0;
}

/* Behind a container that is known to be valid: only brackets count. */
static const char *json_skip_container(const char *p, const char *end)
{
    size_t depth = 0;
    while (p < end) {
        char c = *p++;
        if (c == '"') {
            p = json_skip_string(p, end);
            if (p == NULL)
                return NULL;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return p;
        }
    }
    return NULL;
}

int outrider__json_members_next(struct json_members *m, struct bytes *ret_key,
                                struct bytes *ret_value)
{
    /* members_begin checked the text, so that what is looked for is there;
     * the tests for the end only keep a changed text from being overrun. */
    const char *p = json_skip_space(m->p, m->end);
    if (p < m->end && *p == ',' && !m->first)
        p = json_skip_space(p + 1, m->end);
    if (p >= m->end || *p != '"')
        return 0;
    const char *key = p + 1;
    const char *key_end = json_skip_string(key, m->end);
    if (key_end == NULL)
        return 0;
    p = json_skip_space(key_end, m->end);
    if (p >= m->end || *p != ':')
        return 0;
    const char *value = json_skip_space(p + 1, m->end);
    if (value >= m->end)
        return 0;
    bool container = *value == '{' || *value == '[';
    p = container ? json_skip_container(value, m->end) : json_skip_scalar(value, m->end);
    if (p == NULL)
        return 0;
    m->p = p;
    m->first = false;
    *ret_key = bytes_of(key, (size_t)(key_end - 1 - key));
    *ret_value = bytes_of(value, (size_t)(p - value));
    return 1;
}

static char *json_put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

#define REPLACEMENT 0xfffdU

/* The character of \uXXXX at p (behind the u), with its second half if there is one. */
static const char *json_decode_unicode(const char *p, const char *end, unsigned *ret_char)
{
    int high = json_hex4(p, end);
    if (high < 0)
        return NULL;
    p += 4;
    *ret_char = (unsigned)high;
    if (high < 0xd800 || high > 0xdfff)
        return p;
    *ret_char = REPLACEMENT;
    if (high > 0xdbff || end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return p;
    int low = json_hex4(p + 2, end);
    if (low < 0xdc00 || low > 0xdfff)
        return p;
    *ret_char = 0x10000U + ((unsigned)(high - 0xd800) << 10) + (unsigned)(low - 0xdc00);
    return p + 6;
}

/* p is behind the backslash; behind the escape, or NULL. */
static const char *json_decode_escape(const char *p, const char *end, unsigned *ret_char)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (p == end || *p == '\0')
        return NULL;
    if (*p == 'u')
        return json_decode_unicode(p + 1, end, ret_char);
    const char *at = strchr(letters, *p);
    if (at == NULL)
        return NULL;
    *ret_char = (unsigned char)meanings[at - letters];
    return p + 1;
}

int outrider__json_unescape(struct bytes inside, struct arena *arena, struct bytes *ret_text)
{
    if (inside.len == 0 || memchr(inside.data, '\\', inside.len) == NULL) {
        *ret_text = inside;
        return 0;
    }
    /* An escape is never shorter than what it stands for. */
    char *text = outrider__arena_alloc(arena, inside.len + 1), *out = text;
    if (text == NULL)
        return -1;
    const char *p = inside.data, *end = p + inside.len;
    while (p < end) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((slash ? slash : end) - p);
        memcpy(out, p, plain);
        out += plain;
        p += plain;
        if (slash == NULL)
            break;
        unsigned c;
        p = json_decode_escape(p + 1, end, &c);
        if (p == NULL)
            return -1;
        out = json_put_utf8(out, c);
    }
    *out = '\0';
    *ret_text = bytes_of(text, (size_t)(out - text));
    return 0;
}

int outrider__json_text(struct bytes value, struct arena *arena, struct bytes *ret_text)
{
    if (value.len == 0 || value.data[0] != '"') {
        *ret_text = value;
        return 0;
    }
    if (value.len < 2 || value.data[value.len - 1] != '"')
        return -1;
    return outrider__json_unescape(bytes_of(value.data + 1, value.len - 2), arena, ret_text);
}
