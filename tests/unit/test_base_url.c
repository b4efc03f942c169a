/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"

struct fixture {
    struct arena arena;
    struct url url;
    struct outrider_error err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL)
        return -1;
    outrider__arena_init(&f->arena, 4096);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    outrider__arena_release(&f->arena);
    free(f);
    return 0;
}

static void parse(struct fixture *f, const char *text)
{
    if (outrider__url_parse(bytes_str(text), &f->arena, &f->url, &f->err) < 0)
        fail_msg("%s: %s", text, f->err.message);
}

static void all_parts_of_a_url_are_found(void **state)
{
    struct fixture *f = *state;
    parse(f, "PostgreSQL://app:s3cret@db1:5432,db2:5433/shop/x?sslmode=require&opt=a=b&flag");
    assert_true(bytes_eq_str(f->url.scheme, "postgresql"));
    assert_true(bytes_eq_str(f->url.user, "app"));
    assert_true(bytes_eq_str(f->url.password, "s3cret"));
    assert_true(bytes_eq_str(f->url.hosts, "db1:5432,db2:5433"));
    assert_true(bytes_eq_str(f->url.path, "/shop/x"));
    assert_true(bytes_eq_str(f->url.rest,
                             "//app:s3cret@db1:5432,db2:5433/shop/x?sslmode=require&opt=a=b&flag"));
    assert_int_equal(f->url.n_params, 3);
    assert_true(bytes_eq_str(f->url.params[0].name, "sslmode"));
    assert_true(bytes_eq_str(f->url.params[0].value, "require"));
    assert_true(bytes_eq_str(f->url.params[1].value, "a=b"));
    assert_true(bytes_eq_str(f->url.params[2].name, "flag"));
    assert_non_null(f->url.params[2].value.data);
    assert_int_equal(f->url.params[2].value.len, 0);
}

static void parts_are_c_strings_too(void **state)
{
    struct fixture *f = *state;
    parse(f, "sqlite:shop.db?mode=ro");
    assert_string_equal(f->url.scheme.data, "sqlite");
    assert_string_equal(f->url.path.data, "shop.db");
    assert_string_equal(f->url.params[0].value.data, "ro");
}

static void absent_parts_are_null(void **state)
{
    struct fixture *f = *state;
    parse(f, "null:");
    assert_true(bytes_is_null(f->url.user));
    assert_true(bytes_is_null(f->url.password));
    assert_true(bytes_is_null(f->url.hosts));
    assert_int_equal(f->url.path.len, 0);
    assert_int_equal(f->url.n_params, 0);
    parse(f, "kafka://broker");
    assert_true(bytes_is_null(f->url.user));
    assert_int_equal(f->url.path.len, 0);
    parse(f, "postgresql://app@h");
    assert_true(bytes_eq_str(f->url.user, "app"));
    assert_true(bytes_is_null(f->url.password));
    parse(f, "postgresql://app:@h");
    assert_false(bytes_is_null(f->url.password));
    parse(f, "sqlite:///var/lib/shop.db");
    assert_true(bytes_is_null(f->url.hosts));
    assert_true(bytes_eq_str(f->url.path, "/var/lib/shop.db"));
}

static void paths_without_a_host_are_taken_whole(void **state)
{
    struct fixture *f = *state;
    static const char *const cases[][2] = {
        {"sqlite:shop.db", "shop.db"}, {"file:/var/log/events", "/var/log/events"},
        {"file:../a:b@c", "../a:b@c"}, {"sqlite::memory:", ":memory:"},
        {"file:a%20b%3Fc", "a b?c"},   {"stdout:", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse(f, cases[i][0]);
        assert_true(bytes_eq_str(f->url.path, cases[i][1]));
        assert_true(bytes_is_null(f->url.hosts));
    }
}

static void escapes_are_decoded_in_each_part(void **state)
{
    struct fixture *f = *state;
    parse(f, "mysql://a%40b:p%3a%2F%3f%40@%2Fvar%2Frun/d%20b?n%3Dm=v%26w");
    assert_true(bytes_eq_str(f->url.user, "a@b"));
    assert_true(bytes_eq_str(f->url.password, "p:/?@"));
    assert_true(bytes_eq_str(f->url.hosts, "/var/run"));
    assert_true(bytes_eq_str(f->url.path, "/d b"));
    assert_true(bytes_eq_str(f->url.params[0].name, "n=m"));
    assert_true(bytes_eq_str(f->url.params[0].value, "v&w"));
}

static void the_last_at_sign_ends_the_password(void **state)
{
    struct fixture *f = *state;
    parse(f, "postgresql://u:p@ss:w@h/db");
    assert_true(bytes_eq_str(f->url.user, "u"));
    assert_true(bytes_eq_str(f->url.password, "p@ss:w"));
    assert_true(bytes_eq_str(f->url.hosts, "h"));
}

static void an_ipv6_address_keeps_its_colons(void **state)
{
    struct fixture *f = *state;
    parse(f, "amqp://[2001:db8::1]:5672,[::1]/vhost");
    assert_true(bytes_eq_str(f->url.hosts, "[2001:db8::1]:5672,[::1]"));
}

static void empty_parameters_are_passed_over(void **state)
{
    struct fixture *f = *state;
    parse(f, "kafka://h?&a=1&&b=2&");
    assert_int_equal(f->url.n_params, 2);
    parse(f, "kafka://h?");
    assert_int_equal(f->url.n_params, 0);
}

static void what_is_no_url_is_refused_with_an_example(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"",
                                      "shop.db",
                                      "/var/lib/shop.db",
                                      "://h",
                                      ":",
                                      "1a:x",
                                      "my_db:x",
                                      " sqlite:x",
                                      "-x:y",
                                      "kafka//h:9092",
                                      "a b:c",
                                      "file:a%",
                                      "file:a%2",
                                      "file:a%zz",
                                      "file:a%00b",
                                      "file:a\nb",
                                      "pg://h:port/db",
                                      "pg://h:/db",
                                      "pg://h:99999",
                                      "pg://h:123456",
                                      "pg://u:p",
                                      "pg://u:p/w@h/db",
                                      "pg://h?=x",
                                      "pg://h/a@b",
                                      "pg://h:1:2/",
                                      "pg://u:p?w@h",
                                      "pg://h?mail=a@b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct url before = {.n_params = 4711}, u = before;
        if (outrider__url_parse(bytes_str(bad[i]), &f->arena, &u, &f->err) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(u.n_params, 4711);
        assert_int_equal(f->err.code, OUTRIDER_URL);
        assert_int_equal(f->err.disposition, OUTRIDER_STOP);
        assert_non_null(strstr(f->err.message, "a URL looks like sqlite:shop.db"));
        assert_int_equal(outrider__url_parse(bytes_str(bad[i]), &f->arena, &u, NULL), -1);
    }
}

static void the_scheme_alone_is_found_in_lower_case(void **state)
{
    struct fixture *f = *state;
    char scheme[16] = "before";
    assert_int_equal(outrider__url_scheme(BYTES_LIT("KAFKA+ssl://h"), scheme, 16, &f->err), 0);
    assert_string_equal(scheme, "kafka+ssl");
    assert_int_equal(outrider__url_scheme(BYTES_LIT("shop.db"), scheme, 16, &f->err), -1);
    assert_string_equal(scheme, "kafka+ssl");
    assert_non_null(strstr(f->err.message, "'shop.db': no scheme; a URL looks like"));
    assert_int_equal(outrider__url_scheme(BYTES_LIT("abcdefghijklmnop:x"), scheme, 16, &f->err),
                     -1);
    assert_int_equal(outrider__url_scheme(BYTES_LIT("abcdefghijklmno:x"), scheme, 16, &f->err), 0);
}

static const char *const redacted[][2] = {
    {"sqlite:shop.db", "sqlite:shop.db"},
    {"null:", "null:"},
    {"scheme:", "scheme:"},
    {"", ""},
    {"shop.db", "shop.db"},
    {"file:/var/log/a@b", "file:/var/log/a@b"},
    {"kafka://h1:9092,h2:9092/x?acks=all", "kafka://h1:9092,h2:9092/x?acks=all"},
    {"postgresql://u@h/db", "postgresql://u@h/db"},
    {"postgresql://u:hush@h/db", "postgresql://u:***@h/db"},
    {"postgresql://u:hu@sh@h/db", "postgresql://u:***@h/db"},
    {"kafka://u:hush%40@h1:9092,h2:9092", "kafka://u:***@h1:9092,h2:9092"},
    {"redis://:hush@h", "redis://:***@h"},
    {"amqp://u:hush@[::1]:5672/", "amqp://u:***@[::1]:5672/"},
    {"pg://h/db?password=hush&sslkey=hush&a=1", "pg://h/db?password=***&sslkey=***&a=1"},
    {"pg://h/db?a=1&sasl.PASSWORD=hush", "pg://h/db?a=1&sasl.PASSWORD=***"},
    {"http://h/x?access_token=hush#top", "http://h/x?access_token=***"},
    {"http://h/x?client_secret=hush&sslpassphrase=hush",
     "http://h/x?client_secret=***&sslpassphrase=***"},
    {"pg:///db?dsn=host=h%20password%3Dhush&a=1", "pg:///db?dsn=***&a=1"},
    {"pg:///db?options=user=u password=hush", "pg:///db?options=***"},
    {"nats://hush@h:4222", "nats://***@h:4222"},
    {"https://hush@h/x", "https://***@h/x"},
};

static void a_url_is_shown_without_its_secrets(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof redacted / sizeof *redacted; i++) {
        struct bytes shown;
        assert_int_equal(outrider__url_redact(bytes_str(redacted[i][0]), &f->arena, &shown), 0);
        assert_string_equal(shown.data, redacted[i][1]);
        assert_int_equal(shown.len, strlen(shown.data));
    }
}

/* Whatever a person may get wrong: the word hush is the secret, in one or in
 * several pieces, and must appear neither in the text nor in any message. */
static const char *const leaky[] = {
    "postgresql://u:hush/x@h/db",
    "postgresql://u:x/hush@h/db",
    "postgresql://u:hush?x@h/db",
    "postgresql://u:x?hush@h/db",
    "postgresql://u:12?hush@h/db",
    "postgresql://u:x@y?hush@h/db",
    "postgresql://u:x#hush@h/db",
    "postgresql://u:hush",
    "postgresql://u:hush/db",
    "postgresql://u:hush?x=1",
    "postgresql://u:hush,h2:5432/db",
    "postgresql://u:%zzhush@h",
    "postgresql://u:hush%@h",
    "postgresql://u:hush @h",
    "postgresql://u:hush\n@h",
    "postgresql:/u:hush@h/db",
    "postgresql:u:hush@h/db",
    "postgresql//u:hush@h/db",
    "//u:hush@h/db",
    "://u:hush@h",
    "u:hush@h",
    "u:hush@h:5432/db",
    " postgresql://u:hush@h/db",
    "postgresql://h:5432/db?password=x@hush",
    "postgresql://h:5432/db?password=hush@x",
    "postgresql://h/db?password=x&hush",
    "postgresql://h/db?password=x&y&hush",
    "postgresql://h/db?pass%77ord=hush",
    "postgresql://h/db?password%3Dhush",
    "postgresql://h/db?a%3Db%26password%3Dhush=1",
    "postgresql://h/db?x=1?password=hush",
    "postgresql://h/db#password=hush",
    "postgresql://h/db;password=hush",
    "postgresql://h/db&password=hush",
    "postgresql://h/db?PASSWORD=hush",
    "postgresql://h/db?pwd=hush",
    "host=h user=u password=hush dbname=d",
    "host=h password = hush",
    "password=hush",
    "postgresql:host=h password=hush",
    "kafka://h?sasl.jaas.config=x%20password%3D%22hush%22",
    "amqp://u:hush@[::1",
    "amqp://[::1:hush@h",
    "nats://hush@",
    "redis://:hush@",
    "redis://:hush",
};

static void no_mistake_in_a_url_shows_a_secret(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof leaky / sizeof *leaky; i++) {
        struct bytes shown;
        char scheme[32];
        struct bytes text = bytes_str(leaky[i]);
        assert_int_equal(outrider__url_redact(text, &f->arena, &shown), 0);
        if (strstr(shown.data, "hush") != NULL)
            fail_msg("redact: %s -> %s", leaky[i], shown.data);
        memset(&f->err, 0, sizeof f->err);
        (void)outrider__url_parse(text, &f->arena, &f->url, &f->err);
        if (strstr(f->err.message, "hush") != NULL)
            fail_msg("parse: %s -> %s", leaky[i], f->err.message);
        (void)outrider__url_scheme(text, scheme, sizeof scheme, &f->err);
        if (strstr(f->err.message, "hush") != NULL)
            fail_msg("scheme: %s -> %s", leaky[i], f->err.message);
    }
}

static void what_parses_with_a_password_is_never_shown_with_it(void **state)
{
    struct fixture *f = *state;
    static const char *const odd[] = {"hush",    "hush:x", "x:hush", "x@hush", "hush@x",
                                      "=hush",   "&hush=", "#hush",  "[hush]", "hush,x",
                                      "%68hush", "?",      "/"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char text[100];
        struct bytes shown, identity;
        (void)snprintf(text, sizeof text, "mysql://app:%s@h:3306/shop?x=1", odd[i]);
        assert_int_equal(outrider__url_redact(bytes_str(text), &f->arena, &shown), 0);
        assert_null(strstr(shown.data, "hush"));
        assert_int_equal(outrider__url_identity(bytes_str(text), &f->arena, &identity), 0);
        assert_null(strstr(identity.data, "hush"));
    }
}

static const char *const identities[][2] = {
    {"KAFKA://u:hush@h1:9092,h2:9092/x?acks=all&password=hush", "kafka://h1:9092,h2:9092/x"},
    {"kafka://h1:9092,h2:9092/x", "kafka://h1:9092,h2:9092/x"},
    {"nats://hush@h", "nats://h"},
    {"file:/var/log/events?rotate=1MiB", "file:/var/log/events"},
    {"file:/var/a:1@b", "file:/var/a:1@b"},
    {"file:/var/key=1/x", "file:/var/key=1/x"},
    {"file:a@1", "file:a@1"},
    {"File:Events", "file:Events"},
    {"null:", "null:"},
    {"stdout:", "stdout:"},
    {"pg:host=h password=hush", "pg:host=h password=***"},
    {"pg:u:hush@h", "pg:***@h"},
    {"pg://u:x/hush@h/db?a=1", "pg://u:***@h/db"},
    {"pg://h/db;password=hush", "pg://h/db;password=***"},
    {"", ""},
};

static void a_pipeline_is_stored_with_place_but_without_credentials(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
        struct bytes id;
        assert_int_equal(outrider__url_identity(bytes_str(identities[i][0]), &f->arena, &id), 0);
        assert_string_equal(id.data, identities[i][1]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_parts_of_a_url_are_found),
        TEST(parts_are_c_strings_too),
        TEST(absent_parts_are_null),
        TEST(paths_without_a_host_are_taken_whole),
        TEST(escapes_are_decoded_in_each_part),
        TEST(the_last_at_sign_ends_the_password),
        TEST(an_ipv6_address_keeps_its_colons),
        TEST(empty_parameters_are_passed_over),
        TEST(what_is_no_url_is_refused_with_an_example),
        TEST(the_scheme_alone_is_found_in_lower_case),
        TEST(a_url_is_shown_without_its_secrets),
        TEST(no_mistake_in_a_url_shows_a_secret),
        TEST(what_parses_with_a_password_is_never_shown_with_it),
        TEST(a_pipeline_is_stored_with_place_but_without_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
