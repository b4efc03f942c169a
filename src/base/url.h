/* SPDX-License-Identifier: MIT */
/*
 * URLs of sources and sinks.
 *
 *     scheme://user:password@host:port,host:port/path?name=value&name=value
 *     scheme:path?name=value           (sqlite:shop.db, file:/var/log/events, null:)
 *
 * Every part but the scheme may be absent. Percent escapes are decoded in all
 * parts but `rest`. A URL may hold a secret: log only url_redact's form.
 *
 * Behind "//" an @ that is not the end of user:password is written %40: only
 * so can a password that holds an @, a / or a ? never be taken for a path.
 */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/arena.h"
#include "base/error.h"

struct url_param {
    struct bytes name, value; /* value is empty where there is no = */
};

struct url {
    struct bytes scheme;         /* in lower case */
    struct bytes user, password; /* NULL data where absent */
    struct bytes hosts;          /* "h:p,h:p" as written, NULL data where absent */
    struct bytes path; /* behind "//host": with its leading slash; of "scheme:path": all of it */
    struct bytes rest; /* everything behind "scheme:", undecoded */
    struct url_param *params;
    size_t n_params;
};

/* Parts are copies in the arena. */
int outrider__url_parse(struct bytes text, struct arena *arena, struct url *ret_url,
                        struct outrider_error *err);
/* The scheme alone ("kafka"), in lower case, or an error that says what a URL looks like. */
int outrider__url_scheme(struct bytes text, char *ret_scheme, size_t size,
                         struct outrider_error *err);
/* Whether a setting of this name is likely to hold a secret. */
bool outrider__name_is_secret(struct bytes name);
/* For logs and for people: *** stands for the password and for each parameter
 * whose name sounds secret (password, passphrase, secret, token, key). Works on
 * any text, also on one that does not parse: in doubt it hides too much. */
int outrider__url_redact(struct bytes text, struct arena *arena, struct bytes *ret_text);
/* What a pipeline is stored with: without user, password and parameters. */
int outrider__url_identity(struct bytes text, struct arena *arena, struct bytes *ret_text);

#endif
