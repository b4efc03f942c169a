/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"

#include "base/url.h"
#include "base/words.h"

const struct adapter_entry *outrider__adapter_find(const char *scheme)
{
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++)
        if (outrider__words_have(e->adapter->schemes, ' ', bytes_str(scheme)))
            return e;
    return NULL;
}

const struct adapter_entry *outrider__adapter_of_url(const char *url)
{
    char scheme[32];
    if (url == NULL || outrider__url_scheme(bytes_str(url), scheme, sizeof scheme, NULL) < 0)
        return NULL;
    return outrider__adapter_find(scheme);
}

static bool adapter_is_kind(const struct adapter *a, enum adapter_example kind)
{
    switch (kind) {
    case EXAMPLE_SOURCE:
        return a->is_source && !a->needs_server;
    case EXAMPLE_SOURCE_SERVER:
        return a->is_source && a->needs_server;
    case EXAMPLE_SINK_SERVER:
        return a->is_sink && a->needs_server;
    }
    return false;
}

const char *outrider__adapter_example(enum adapter_example kind)
{
    const char *found = NULL;
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++)
        if (adapter_is_kind(e->adapter, kind) && (found == NULL || e->adapter->is_example))
            found = e->adapter->example;
    return found != NULL ? found : "URL";
}

void outrider__adapter_sink_forms(struct strbuf *out)
{
    size_t n = 0, at = 0;
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++)
        n += e->adapter->is_sink;
    for (const struct adapter_entry *e = outrider__adapters; e->adapter != NULL; e++) {
        if (!e->adapter->is_sink)
            continue;
        strbuf_append_str(out, at == 0 ? "" : at + 1 == n ? " or " : ", ");
        strbuf_append_str(out, e->adapter->form);
        at++;
    }
}
