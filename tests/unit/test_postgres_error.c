/* SPDX-License-Identifier: MIT */
/* What a relay does after an error of the server: by SQLSTATE, and by what was being done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "postgres/client/client.h"

#define RETRY OUTRIDER_RETRY
#define STOP OUTRIDER_STOP

static const struct {
    const char *state;
    enum outrider_disposition reading, settling;
} rules[] = {
    {"", RETRY, RETRY},      /* the connection is lost */
    {"08006", RETRY, RETRY}, /* connection_failure */
    {"57P01", RETRY, RETRY}, /* admin_shutdown */
    {"57P03", RETRY, RETRY}, /* cannot_connect_now */
    {"25006", RETRY, RETRY}, /* read_only_sql_transaction: a failover is under way */
    {"25P03", RETRY, RETRY}, /* idle_in_transaction_session_timeout */
    {"53100", RETRY, RETRY}, /* disk_full */
    {"53200", RETRY, RETRY}, /* out_of_memory */
    {"53300", RETRY, RETRY}, /* too_many_connections */
    {"58030", RETRY, RETRY}, /* io_error */
    {"40001", RETRY, RETRY}, /* serialization_failure */
    {"40P01", RETRY, RETRY}, /* deadlock_detected */
    {"55P03", RETRY, RETRY}, /* lock_not_available: lock_timeout */
    {"57014", RETRY, RETRY}, /* query_canceled: statement_timeout */
    {"22012", RETRY, RETRY}, /* our own check of the epoch */
    {"XX000", RETRY, RETRY}, /* internal_error: the engine stops at the second */
    {"42501", RETRY, RETRY}, /* insufficient_privilege: checked when the source is opened */
    {"42P01", RETRY, RETRY}, /* undefined_table: the same */
    {"42703", RETRY, RETRY}, /* undefined_column: the same */
    {"3F000", RETRY, RETRY}, /* invalid_schema_name: the same */
    {"0A000", RETRY, RETRY}, /* cached plan must not change result type */
    {"42804", RETRY, STOP},  /* datatype_mismatch */
    {"42846", RETRY, STOP},  /* cannot_coerce */
    {"22001", RETRY, STOP},  /* string_data_right_truncation */
    {"22P02", RETRY, STOP},  /* invalid_text_representation */
    {"23502", RETRY, STOP},  /* not_null_violation */
    {"23503", RETRY, STOP},  /* foreign_key_violation */
    {"23505", RETRY, STOP},  /* unique_violation */
    {"23514", RETRY, STOP},  /* check_violation */
    {"44000", RETRY, STOP},  /* with_check_option_violation */
    {"54000", RETRY, STOP},  /* program_limit_exceeded */
    {"55000", RETRY, STOP},  /* no replica identity; a view that cannot be updated */
    {"P0001", RETRY, STOP},  /* raise_exception: a trigger */
    {"P0004", RETRY, STOP},  /* assert_failure */
    {"28P01", STOP, STOP},   /* invalid_password */
    {"3D000", STOP, STOP},   /* invalid_catalog_name */
};

static void every_state_has_the_disposition_of_its_purpose(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        enum outrider_disposition reading = outrider__pg_disposition(rules[i].state, PG_READS);
        enum outrider_disposition settling = outrider__pg_disposition(rules[i].state, PG_SETTLES);
        if (reading != rules[i].reading || settling != rules[i].settling)
            fail_msg("%s: %d when reading, %d when settling", rules[i].state, (int)reading,
                     (int)settling);
    }
}

/* A relay's statement is over many events: none of them is at fault alone. */
static void none_is_dead(void **state)
{
    char text[6] = "00000";
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    (void)state;
    for (size_t a = 0; a < sizeof digits - 1; a++) {
        for (size_t b = 0; b < sizeof digits - 1; b++) {
            text[0] = digits[a];
            text[1] = digits[b];
            for (int purpose = PG_READS; purpose <= PG_SETTLES; purpose++)
                assert_true(outrider__pg_disposition(text, (enum pg_purpose)purpose) !=
                            OUTRIDER_DEAD);
        }
    }
}

/* A statement that is only prepared: what the server says of it, it says each time. */
static void what_cannot_be_prepared_stops_and_a_lost_server_does_not(void **state)
{
    static const struct {
        const char *state;
        enum outrider_disposition disposition;
    } tried[] = {{"42703", STOP},  {"42804", STOP},  {"42501", STOP},  {"428C9", STOP},
                 {"22P02", STOP},  {"42P01", RETRY}, {"08006", RETRY}, {"57P01", RETRY},
                 {"40001", RETRY}, {"55P03", RETRY}, {"", RETRY}};
    (void)state;
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        if (outrider__pg_disposition(tried[i].state, PG_TRIES) != tried[i].disposition)
            fail_msg("%s", tried[i].state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_has_the_disposition_of_its_purpose),
        cmocka_unit_test(none_is_dead),
        cmocka_unit_test(what_cannot_be_prepared_stops_and_a_lost_server_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
