/* SPDX-License-Identifier: MIT */
#include "base/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

struct instant outrider__clock_now(void)
{
    return (struct instant){read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_REALTIME)};
}

/* Days since 1970-01-01 of a proleptic Gregorian date, and back. */
static int64_t clock_days_of(int64_t y, unsigned m, unsigned d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    unsigned yoe = (unsigned)(y - era * 400);
    unsigned doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + (int64_t)doe - 719468;
}

static void clock_date_of(int64_t days, int64_t *y, unsigned *m, unsigned *d)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    unsigned doe = (unsigned)(days - era * 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    *d = doy - (153 * mp + 2) / 5 + 1;
    *m = mp < 10 ? mp + 3 : mp - 9;
    *y = (int64_t)yoe + era * 400 + (*m <= 2);
}

/* By hand and not by gmtime/strftime: this runs once per published event. */
static char *clock_put_digits(char *p, unsigned v, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        p[i] = (char)('0' + v % 10);
        v /= 10;
    }
    return p + width;
}

void outrider__clock_format(int64_t wall_us, char ret_text[CLOCK_TEXT_SIZE])
{
    int64_t days = wall_us / 86400000000LL, rest = wall_us % 86400000000LL;
    if (rest < 0) {
        rest += 86400000000LL;
        days--;
    }
    int64_t y;
    unsigned m, d;
    clock_date_of(days, &y, &m, &d);
    if (y < 0 || y > 9999) {
        (void)snprintf(ret_text, CLOCK_TEXT_SIZE, "%s",
                       y < 0 ? "0000-01-01T00:00:00Z" : "9999-12-31T23:59:59Z");
        return;
    }
    unsigned secs = (unsigned)(rest / 1000000), us = (unsigned)(rest % 1000000);
    char *p = clock_put_digits(ret_text, (unsigned)y, 4);
    *p++ = '-';
    p = clock_put_digits(p, m, 2);
    *p++ = '-';
    p = clock_put_digits(p, d, 2);
    *p++ = 'T';
    p = clock_put_digits(p, secs / 3600, 2);
    *p++ = ':';
    p = clock_put_digits(p, secs / 60 % 60, 2);
    *p++ = ':';
    p = clock_put_digits(p, secs % 60, 2);
    if (us != 0) {
        *p++ = '.';
        p = us % 1000 == 0 ? clock_put_digits(p, us / 1000, 3) : clock_put_digits(p, us, 6);
    }
    *p++ = 'Z';
    *p = '\0';
}

struct cursor {
    const char *p, *end;
};

/* Exactly n digits. */
static int clock_digits(struct cursor *c, int n, int64_t *ret)
{
    int64_t v = 0;
    for (int i = 0; i < n; i++) {
        if (c->p == c->end || !isdigit((unsigned char)*c->p))
            return -1;
        v = v * 10 + (*c->p++ - '0');
    }
    *ret = v;
    return 0;
}

static int clock_literal(struct cursor *c, const char *any_of)
{
    if (c->p == c->end || strchr(any_of, *c->p) == NULL || *c->p == '\0')
        return -1;
    c->p++;
    return 0;
}

static int clock_parse_fraction(struct cursor *c, int64_t *ret_us)
{
    int64_t us = 0, scale = 100000;
    if (c->p == c->end || !isdigit((unsigned char)*c->p))
        return -1;
    for (; c->p < c->end && isdigit((unsigned char)*c->p); c->p++, scale /= 10)
        us += (*c->p - '0') * scale;
    *ret_us = us;
    return 0;
}

static int clock_parse_zone(struct cursor *c, int64_t *ret_offset_s)
{
    *ret_offset_s = 0;
    if (c->p == c->end)
        return 0;
    if (*c->p == 'Z' || *c->p == 'z') {
        c->p++;
        return 0;
    }
    int sign = *c->p == '-' ? -1 : 1;
    int64_t h, m = 0;
    if (clock_literal(c, "+-") < 0 || clock_digits(c, 2, &h) < 0)
        return -1;
    if (c->p < c->end &&
        ((*c->p == ':' && clock_literal(c, ":") < 0) || clock_digits(c, 2, &m) < 0))
        return -1;
    if (h > 23 || m > 59)
        return -1;
    *ret_offset_s = sign * (h * 3600 + m * 60);
    return 0;
}

static bool clock_is_date(int64_t y, int64_t m, int64_t d)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return m >= 1 && m <= 12 && d >= 1 && d <= month_days[m - 1] + (m == 2 && leap);
}

/* "2026-01-02", as days since 1970. */
static int clock_parse_date(struct cursor *c, int64_t *ret_days)
{
    int64_t y, m, d;
    if (clock_digits(c, 4, &y) < 0 || clock_literal(c, "-") < 0 || clock_digits(c, 2, &m) < 0 ||
        clock_literal(c, "-") < 0 || clock_digits(c, 2, &d) < 0 || !clock_is_date(y, m, d))
        return -1;
    *ret_days = clock_days_of(y, (unsigned)m, (unsigned)d);
    return 0;
}

/* ":05.678" behind hours and minutes, which may be missing. */
static int clock_parse_seconds(struct cursor *c, int64_t *ret_s, int64_t *ret_us)
{
    if (clock_literal(c, ":") < 0)
        return 0;
    if (clock_digits(c, 2, ret_s) < 0)
        return -1;
    return clock_literal(c, ".") < 0 ? 0 : clock_parse_fraction(c, ret_us);
}

/* "T03:04:05.678+02:00" behind the date, in microseconds of the day in UTC. */
static int clock_parse_time(struct cursor *c, int64_t *ret_us)
{
    int64_t h, m, s = 0, us = 0, zone;
    if (clock_literal(c, "Tt ") < 0 || clock_digits(c, 2, &h) < 0 || clock_literal(c, ":") < 0 ||
        clock_digits(c, 2, &m) < 0 || clock_parse_seconds(c, &s, &us) < 0 ||
        clock_parse_zone(c, &zone) < 0)
        return -1;
    if (h > 23 || m > 59 || s > 60)
        return -1;
    *ret_us = (h * 3600 + m * 60 + s - zone) * 1000000 + us;
    return 0;
}

int outrider__clock_parse(struct bytes text, int64_t *ret_wall_us)
{
    if (text.len == 0)
        return -1;
    struct cursor c = {text.data, text.data + text.len};
    int64_t days, us = 0;
    if (clock_parse_date(&c, &days) < 0 || (c.p < c.end && clock_parse_time(&c, &us) < 0) ||
        c.p != c.end)
        return -1;
    *ret_wall_us = days * 86400 * 1000000 + us;
    return 0;
}

static const struct {
    const char *name;
    int64_t us;
} units[] = {{"d", 86400000000LL}, {"h", 3600000000LL}, {"m", 60000000LL},
             {"s", 1000000LL},     {"ms", 1000LL},      {"us", 1LL}};

int outrider__duration_parse(struct bytes text, int64_t *ret_us)
{
    if (text.len == 0)
        return -1;
    struct cursor c = {text.data, text.data + text.len};
    int64_t total = 0;
    if (bytes_eq_str(text, "0")) {
        *ret_us = 0;
        return 0;
    }
    while (c.p < c.end) {
        int64_t v = 0, add = 0;
        if (!isdigit((unsigned char)*c.p))
            return -1;
        for (; c.p < c.end && isdigit((unsigned char)*c.p); c.p++)
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c.p - '0', &v))
                return -1;
        const char *unit = c.p;
        while (c.p < c.end && isalpha((unsigned char)*c.p))
            c.p++;
        size_t i = 0, n = sizeof units / sizeof *units;
        while (i < n && !bytes_eq_str(bytes_of(unit, (size_t)(c.p - unit)), units[i].name))
            i++;
        if (i == n || __builtin_mul_overflow(v, units[i].us, &add) ||
            __builtin_add_overflow(total, add, &total))
            return -1;
    }
    *ret_us = total;
    return 0;
}

void outrider__duration_format(int64_t us, char ret_text[CLOCK_TEXT_SIZE])
{
    if (us == 0) {
        (void)snprintf(ret_text, CLOCK_TEXT_SIZE, "0");
        return;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (us % units[i].us == 0) {
            (void)snprintf(ret_text, CLOCK_TEXT_SIZE, "%lld%s", (long long)(us / units[i].us),
                           units[i].name);
            return;
        }
    }
}

int outrider__day_time_parse(struct bytes text, int64_t *ret_us)
{
    int64_t digits[4];
    if (text.len != 5 || text.data[2] != ':')
        return -1;
    for (size_t i = 0; i < 4; i++) {
        char c = text.data[i < 2 ? i : i + 1];
        if (c < '0' || c > '9')
            return -1;
        digits[i] = c - '0';
    }
    int64_t hour = digits[0] * 10 + digits[1], minute = digits[2] * 10 + digits[3];
    if (hour > 23 || minute > 59)
        return -1;
    *ret_us = (hour * 60 + minute) * 60 * 1000000;
    return 0;
}
