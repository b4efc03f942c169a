/* SPDX-License-Identifier: MIT */
/*
 * A bank that hears of deposits through Kafka and keeps balances in PostgreSQL:
 * each deposit counts once, however often its message comes and whenever the
 * bank is killed.
 *
 *     bank BROKERS TOPIC POSTGRES-URL [--once]
 *
 * The order of things is all there is to it:
 *
 *  (1) begin; ask the inbox; if the event is new, change the balance; commit.
 *      The mark and the change are one transaction.
 *  (2) Only then tell Kafka. Killed in between, the message comes again, and
 *      the inbox has seen it.
 *
 * --once ends at the end of all partitions; otherwise it runs until SIGTERM.
 */
#include <librdkafka/rdkafka.h>
#include <outrider/postgres.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONSUMER "bank"
#define COMMIT_EVERY 50

static const char sql_table[] =
    "CREATE TABLE IF NOT EXISTS account (id text PRIMARY KEY, balance bigint NOT NULL)";
static const char sql_deposit[] =
    "INSERT INTO account SELECT d->>'account', (d->>'amount')::bigint FROM (SELECT $1::jsonb AS d) "
    "x ON CONFLICT (id) DO UPDATE SET balance = account.balance + excluded.balance";

static volatile sig_atomic_t is_stopped;

static void on_signal(int number)
{
    (void)number;
    is_stopped = 1;
}

/* This program ends on any error: started again, it goes on where it was. */
static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bank: %s: %s\n", what, why);
    exit(1);
}

static void run_sql(PGconn *db, const char *sql, int n, const char *const *values)
{
    PGresult *res = PQexecParams(db, sql, n, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(res) != PGRES_COMMAND_OK)
        die(sql, PQerrorMessage(db));
    PQclear(res);
}

static PGconn *open_database(const char *url)
{
    struct outrider_error err;
    PGconn *db = PQconnectdb(url);
    if (PQstatus(db) != CONNECTION_OK)
        die("cannot connect", PQerrorMessage(db));
    run_sql(db, "SET client_min_messages = warning", 0, NULL);
    run_sql(db, sql_table, 0, NULL);
    if (outrider_inbox_init_pg(db, &err) < 0)
        die("cannot make the inbox", err.message);
    return db;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(name, why);
}

static rd_kafka_t *open_kafka(const char *brokers, const char *topic)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    set(conf, "group.id", CONSUMER);
    /* A fixed name: started again after a kill, it has its partitions at once. */
    set(conf, "group.instance.id", CONSUMER "-1");
    set(conf, "enable.auto.commit", "false");
    set(conf, "auto.offset.reset", "earliest");
    set(conf, "enable.partition.eof", "true");
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (rk == NULL)
        die("cannot make a consumer", why);
    (void)rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    (void)rd_kafka_topic_partition_list_add(topics, topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t rc = rd_kafka_subscribe(rk, topics);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        die("cannot subscribe", rd_kafka_err2str(rc));
    rd_kafka_topic_partition_list_destroy(topics);
    return rk;
}

/* The relay puts the event's id into this header. */
static void read_id(const rd_kafka_message_t *m, char ret_id[OUTRIDER_ID_SIZE])
{
    rd_kafka_headers_t *headers = NULL;
    const void *value = NULL;
    size_t len = 0;
    if (rd_kafka_message_headers(m, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get_last(headers, "event-id", &value, &len) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        len >= OUTRIDER_ID_SIZE)
        die("a message", "has no event-id");
    memcpy(ret_id, value, len);
    ret_id[len] = '\0';
}

/* Whether it was new. */
static int handle(PGconn *db, const rd_kafka_message_t *m)
{
    struct outrider_error err;
    char id[OUTRIDER_ID_SIZE], payload[1024];
    read_id(m, id);
    if (m->len >= sizeof payload)
        die("a message", "is no deposit");
    memcpy(payload, m->payload, m->len);
    payload[m->len] = '\0';
    run_sql(db, "BEGIN", 0, NULL);
    int answer = outrider_inbox_pg(db, CONSUMER, id, &err);
    if (answer < 0)
        die("the inbox", err.message);
    if (answer == OUTRIDER_INBOX_NEW)
        run_sql(db, sql_deposit, 1, (const char *const[]){payload});
    run_sql(db, "COMMIT", 0, NULL);
    return answer == OUTRIDER_INBOX_NEW;
}

/* Whether every partition that is ours was read to its end. */
static int is_at_end(rd_kafka_t *rk, int ends)
{
    rd_kafka_topic_partition_list_t *mine = NULL;
    if (rd_kafka_assignment(rk, &mine) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    int n = mine->cnt;
    rd_kafka_topic_partition_list_destroy(mine);
    return n > 0 && ends >= n;
}

static void consume(rd_kafka_t *rk, PGconn *db, int once)
{
    long applied = 0, seen = 0;
    int ends = 0;
    while (!is_stopped && !(once && is_at_end(rk, ends))) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);
        if (m == NULL)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            ends++;
        else if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            (void)fprintf(stderr, "bank: kafka: %s\n", rd_kafka_message_errstr(m));
        else if (handle(db, m))
            applied++;
        else
            seen++;
        rd_kafka_message_destroy(m);
        if ((applied + seen) % COMMIT_EVERY == 0)
            (void)rd_kafka_commit(rk, NULL, 1);
    }
    (void)rd_kafka_commit(rk, NULL, 0);
    printf("%ld applied, %ld seen before\n", applied, seen);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    if (argc < 4) {
        (void)fprintf(stderr, "usage: bank BROKERS TOPIC POSTGRES-URL [--once]\n");
        return 2;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    PGconn *db = open_database(argv[3]);
    rd_kafka_t *rk = open_kafka(argv[1], argv[2]);
    consume(rk, db, argc > 4 && strcmp(argv[4], "--once") == 0);
    (void)rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    PQfinish(db);
    return 0;
}
