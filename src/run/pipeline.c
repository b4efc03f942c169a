/* SPDX-License-Identifier: MIT */
#include "run/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "run/modules.h"

/* The directory as the system knows it; one that is yet to be made is known by
 * its parent. NULL where not even that exists: the sink will say so. */
static char *pipeline_real_directory(const char *path)
{
    char *found = realpath(path, NULL), *copy = NULL, *parent = NULL, *joined = NULL;
    if (found != NULL)
        return found;
    copy = strdup(path);
    if (copy == NULL)
        return NULL;
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    char *slash = strrchr(copy, '/');
    const char *name = slash != NULL ? slash + 1 : copy;
    if (slash != NULL)
        *slash = '\0';
    parent = realpath(slash == NULL ? "." : slash == copy ? "/" : copy, NULL);
    if (parent != NULL &&
        asprintf(&joined, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name) < 0)
        joined = NULL;
    free(parent);
    free(copy);
    return joined;
}

/* A file sink is the same one from wherever the relay is started: its
 * directory counts, not how the path was written. */
static int pipeline_file_identity(struct pipeline_config *c, struct outrider_error *err)
{
    struct url url;
    if (outrider__url_parse(bytes_str(c->sink.url), c->arena, &url, err) < 0)
        return -1;
    char *directory = pipeline_real_directory(url.path.data);
    const char *path = directory != NULL ? directory : url.path.data;
    size_t size = strlen(path) + sizeof "file:";
    char *identity = outrider__arena_alloc(c->arena, size);
    if (identity != NULL)
        (void)snprintf(identity, size, "file:%s", path);
    c->sink_identity = identity;
    free(directory);
    return identity != NULL ? 0 : outrider__fail_nomem(err);
}

int outrider__pipeline_identify(struct pipeline_config *c, struct outrider_error *err)
{
    struct bytes identity;
    if (c->sink.url == NULL)
        return 0;
    if (strncmp(c->sink.url, "file:", 5) == 0)
        return pipeline_file_identity(c, err);
    if (outrider__url_identity(bytes_str(c->sink.url), c->arena, &identity) < 0)
        return outrider__fail_nomem(err);
    c->sink_identity = identity.data;
    return 0;
}

int outrider__pipeline_sink(const struct pipeline_config *c, struct relay_setup *setup,
                            struct outrider_error *err)
{
    char scheme[32];
    if (outrider__url_scheme(bytes_str(c->sink.url), scheme, sizeof(scheme), err) < 0 ||
        outrider__sink_find(scheme, &setup->sink_ops, err) < 0)
        return -1;
    return setup->sink_ops->check != NULL ? setup->sink_ops->check(c, err) : 0;
}

int outrider__pipeline_adapters(const struct pipeline_config *c, struct relay_setup *setup,
                                struct outrider_error *err)
{
    char scheme[32];
    if (outrider__url_scheme(bytes_str(c->source.url), scheme, sizeof(scheme), err) < 0 ||
        outrider__source_find(scheme, &setup->source_ops, err) < 0)
        return -1;
    return outrider__pipeline_sink(c, setup, err);
}
