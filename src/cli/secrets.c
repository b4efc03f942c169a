/* SPDX-License-Identifier: MIT */
#include "cli/secrets.h"

#include "base/url.h"
#include "core/options.h"

/* "--set=NAME=VALUE", "NAME=VALUE": where NAME begins; NULL: there is no "=". */
static char *secrets_assignment_begin(char *arg)
{
    char *equals = strchr(arg, '=');
    if (equals == NULL)
        return NULL;
    bool is_flag = arg[0] == '-' && strchr(equals + 1, '=') != NULL;
    return is_flag ? equals + 1 : arg;
}

/* Contracts (1) and (2). */
static bool is_secret(struct bytes name, struct bytes value)
{
    struct bytes item = BYTES_NULL;
    const struct option *o = outrider__option_resolve(name, &item);
    if (o == NULL)
        return outrider__name_is_secret(name);
    if (!o->has_secrets)
        return false;
    if (o->type != OPTION_MAP)
        return true;
    return outrider__name_is_secret(item.len > 0 ? item : value);
}

/* Contract (3). */
static void secrets_hide_url(char *arg, struct arena *arena)
{
    struct bytes shown;
    char *colon = strchr(arg, ':'), *start = arg;
    if (colon == NULL)
        return;
    /* --from=URL and key=URL: the URL begins behind the last "=" before its colon. */
    for (char *p = arg; p < colon; p++) {
        if (*p == '=')
            start = p + 1;
    }
    size_t len = strlen(start);
    if (outrider__url_redact(bytes_of(start, len), arena, &shown) < 0) {
        memset(start, 'x', len);
        return;
    }
    if (bytes_eq(shown, bytes_of(start, len)))
        return;
    size_t keep = shown.len < len ? shown.len : len;
    memcpy(start, shown.data, keep);
    memset(start + keep, 0, len - keep);
}

void outrider__hide_secrets(char *arg, struct arena *arena)
{
    char *name = secrets_assignment_begin(arg), *equals = name != NULL ? strchr(name, '=') : NULL;
    if (equals != NULL) {
        size_t len = strlen(equals + 1);
        bool is_url = strstr(equals, "://") != NULL;
        struct bytes value = bytes_of(equals + 1, len);
        if (!is_url && is_secret(bytes_of(name, (size_t)(equals - name)), value)) {
            memset(equals + 1, '*', len);
            return;
        }
    }
    secrets_hide_url(arg, arena);
}
