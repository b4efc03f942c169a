/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"
#include "postgres/options.h"

#define AT(field) offsetof(struct postgres_options, field)

/* What SQL takes without quotes. */
static int adapter_publication_check(struct bytes value, struct outrider_error *err)
{
    bool is_name = value.len < 64;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        is_name &= (c >= 'a' && c <= 'z') || c == '_' || (i > 0 && c >= '0' && c <= '9');
    }
    if (is_name)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "'%.*s' is not a publication's name: at most 63 small letters, digits "
                          "and '_'",
                          value.len > 60 ? 60 : (int)value.len, value.data);
}

/* clang-format off */
static const struct option options[] = {
    {"source.publication", OPTION_STRING, AT(publication), .example = "dbz_publication", .check = adapter_publication_check,
     .text = "postgresql, mode cdc: the publication that is read, which is made if it is missing; unset: outrider_ and the pipeline's name."},
    {"source.slot_failover", OPTION_BOOL, AT(slot_failover), .initial = "false",
     .text = "postgresql 17 and newer, mode cdc: the replication slot is kept on standbys too, so that the relay goes on there after a failover."},
};
/* clang-format on */

OUTRIDER_ADAPTER(postgres) = {
    .name = "postgres",
    .schemes = "postgresql postgres",
    .is_source = true,
    .needs_server = true,
    .is_example = true,
    .example = "postgresql://relay@db/shop",
    .form = "postgresql://USER@HOST/DATABASE",
    .library = "libpq",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .config_size = sizeof(struct postgres_options),
};
