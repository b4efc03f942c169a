/* SPDX-License-Identifier: MIT */
/*
 * Every command and every flag, one row each. What is written here is what
 * --help, the man page, docs/reference/commands.md and the completion say. Words between @
 * signs: command_words.h.
 */
#include "cli/cli.h"

#include <pthread.h>

#include "cli/command_words.h"

#define PIPELINE_COMMANDS "init put relay status dead replay cleanup resync pipeline slot doctor"

static struct flag flags[] = {
    {F_DB, .name = "db", .alias = "from", .kind = FLAG_URL, .value = "URL",
     .commands = "init put status dead replay cleanup resync pipeline",
     .text = "The database, for example @db@ (--from is the same)."},
    {F_DB, .name = "db", .kind = FLAG_URL, .value = "URL", .commands = "slot",
     .text = "The database, for example @server@."},
    {F_FROM_SLOT, .name = "from", .kind = FLAG_TEXT, .value = "SLOT", .commands = "slot",
     .text = "adopt: the slot to begin at. (A URL: the same as --db.)"},
    {F_OFFSET, .name = "offset", .kind = FLAG_FILE, .value = "FILE|-", .commands = "slot",
     .text = "adopt: the Debezium connector's stored offset, as GET /connectors/NAME/offsets "
             "gives it; what was published up to there is left out."},
    {F_DB, .name = "from", .alias = "db", .kind = FLAG_URL, .value = "URL",
     .commands = "relay doctor check",
     .text = "The database to read from, for example @db@ (--db is the same)."},
    {F_TO, .name = "to", .kind = FLAG_URL, .value = "URL",
     .commands = "relay replay pipeline doctor check", .text = "Where events go: @sinks@."},
    {F_NAME, .name = "name", .kind = FLAG_TEXT, .value = "NAME",
     .commands = PIPELINE_COMMANDS " check",
     .text = "The pipeline (\"default\" without a file; with one, the only pipeline in it)."},
    {F_CONFIG, .name = "config", .letter = 'c', .kind = FLAG_FILE, .value = "FILE",
     .commands = PIPELINE_COMMANDS " check", .text = "A configuration file; flags override it."},
    {F_DEBEZIUM, .name = "debezium", .kind = FLAG_FILE, .value = "FILE",
     .commands = "relay status dead cleanup resync pipeline slot doctor check",
     .text =
         "A Debezium outbox connector's configuration (JSON), run as it is; flags override it."},
    {F_SET, .name = "set", .kind = FLAG_PAIR, .value = "KEY=VALUE", .repeats = true,
     .commands = PIPELINE_COMMANDS " check",
     .text = "Sets an option of the pipeline: --set retry.max_attempts=3."},
    {F_TABLE, .name = "table", .kind = FLAG_TEXT, .value = "NAME", .repeats = true,
     .commands = "put relay doctor status dead cleanup replay resync pipeline slot",
     .text = "The outbox table (\"outbox\" if not given)."},
    {F_TABLE, .name = "table", .kind = FLAG_TEXT, .value = "NAME", .repeats = true,
     .commands = "init",
     .text = "An outbox table that is there already, in a database with roles: role outrider_relay "
             "gets the rights that a relay needs on its columns."},
    {F_MODE, .name = "mode", .kind = FLAG_CHOICE, .value = "MODE", .choices = "poll|cdc",
     .commands = "relay", .text = "How events are read: poll or cdc."},
    {F_ONCE, .name = "once", .kind = FLAG_SWITCH, .commands = "relay",
     .text = "Deliver what is committed now, then exit; what fails is parked."},
    {F_LOG_LEVEL, .name = "log-level", .kind = FLAG_CHOICE, .value = "LEVEL",
     .choices = "debug|info|warn|error", .commands = "relay replay",
     .text = "What is logged to stderr: debug, info, warn or error."},
    {F_LOG_FORMAT, .name = "log-format", .kind = FLAG_CHOICE, .value = "FORMAT",
     .choices = "logfmt|json", .commands = "relay replay", .text = "logfmt or json."},

    {F_LAYOUT, .name = "layout", .kind = FLAG_CHOICE, .value = "LAYOUT", .choices = "log|status",
     .commands = "init", .text = "How the outbox records progress (default log)."},
    {F_PAYLOAD, .name = "payload", .kind = FLAG_CHOICE, .value = "TYPE",
     .choices = "jsonb|text|bytea", .commands = "init", .text = "What the payload column holds."},
    {F_PARTITION, .name = "partition", .kind = FLAG_CHOICE, .value = "PERIOD",
     .choices = "day|month", .commands = "init", .text = "Partition the outbox by time."},
    {F_INBOX, .name = "inbox", .kind = FLAG_SWITCH, .commands = "init",
     .text = "Also make the inbox, for consumers: the events they have handled."},
    {F_INBOX, .name = "inbox", .kind = FLAG_SWITCH, .commands = "cleanup",
     .text = "Clean the inbox instead: forget events handled longer ago than the retention."},
    {F_DRY_RUN, .name = "dry-run", .kind = FLAG_SWITCH, .commands = "init",
     .text = "Print the SQL and change nothing."},

    {F_AGGREGATE_TYPE, .name = "aggregate-type", .kind = FLAG_TEXT, .value = "TYPE",
     .commands = "put", .text = "What the event is about: order."},
    {F_AGGREGATE_ID, .name = "aggregate-id", .kind = FLAG_TEXT, .value = "ID", .commands = "put",
     .text = "Which one: 42."},
    {F_TYPE, .name = "type", .kind = FLAG_TEXT, .value = "TYPE", .commands = "put",
     .text = "What happened: OrderCreated."},
    {F_PAYLOAD, .name = "payload", .kind = FLAG_TEXT, .value = "JSON|@FILE|-", .commands = "put",
     .text = "The payload itself, a file that holds it, or - for stdin."},
    {F_TOPIC, .name = "topic", .kind = FLAG_TEXT, .value = "TOPIC", .commands = "put",
     .text = "The event's own topic, instead of the route's."},
    {F_KEY, .name = "key", .alias = "partition-key", .kind = FLAG_TEXT, .value = "KEY",
     .commands = "put", .text = "The event's key, instead of the aggregate id."},
    {F_PARTITION, .name = "partition", .kind = FLAG_NUMBER, .value = "N", .max = INT32_MAX,
     .commands = "put", .text = "An explicit partition of the topic."},
    {F_HEADER, .name = "header", .kind = FLAG_PAIR, .value = "NAME=VALUE", .repeats = true,
     .commands = "put", .text = "A header; may be repeated."},
    {F_ID, .name = "id", .kind = FLAG_TEXT, .value = "UUID", .commands = "put",
     .text = "The event's id (a new UUIDv7 if not given)."},
    {F_OCCURRED_AT, .name = "occurred-at", .kind = FLAG_TIME, .value = "TIME", .commands = "put",
     .text = "When it happened: RFC 3339, or a duration before now."},
    {F_EXPIRES_AT, .name = "expires-at", .kind = FLAG_TIME, .value = "TIME", .commands = "put",
     .text = "When it is no longer wanted: RFC 3339, or a duration from now."},
    {F_JSONL, .name = "jsonl", .kind = FLAG_FILE, .value = "FILE|-", .commands = "put",
     .text = "Many events: one JSON object a line, with the outbox columns as keys."},
    {F_BATCH, .name = "batch", .kind = FLAG_NUMBER, .value = "N", .min = 1, .max = 1000000,
     .commands = "put", .text = "With --jsonl: events per transaction (default 1000)."},

    {F_ID, .name = "id", .kind = FLAG_TEXT, .value = "ID", .repeats = true, .commands = "dead",
     .text = "An event id; may be repeated."},
    {F_TYPE, .name = "type", .kind = FLAG_TEXT, .value = "TYPE", .commands = "dead",
     .text = "Only events of this type."},
    {F_SINCE, .name = "since", .kind = FLAG_TIME, .value = "TIME", .commands = "dead",
     .text = "Only those that died since then: RFC 3339, or a duration before now."},
    {F_PARKED, .name = "parked", .kind = FLAG_SWITCH, .commands = "dead",
     .text = "With list and show: also events that are parked or queue behind one."},
    {F_ALL, .name = "all", .kind = FLAG_SWITCH, .commands = "dead",
     .text = "With retry and discard: every dead letter."},

    {F_FOLLOW, .name = "follow", .letter = 'f', .kind = FLAG_SWITCH, .commands = "tail",
     .text = "Go on as events are appended, across rotation."},
    {F_LINES, .name = "lines", .letter = 'n', .kind = FLAG_NUMBER, .value = "N", .commands = "tail",
     .text = "Begin with the last N events (default: all of them)."},

    {F_SINCE, .name = "since", .kind = FLAG_TIME, .value = "TIME", .commands = "replay",
     .text = "Events created since then: RFC 3339, or a duration before now."},
    {F_FROM_SEQ, .name = "from-seq", .kind = FLAG_NUMBER, .value = "N", .min = 1,
     .commands = "replay", .text = "Events from this sequence number on."},

    {F_PROGRESS, .name = "progress", .kind = FLAG_TEXT, .value = "NUMBER:STAMP",
     .commands = "resync",
     .text = "exactly_once, where the relay says that database and sink do not fit: this was the "
             "sink's last transaction of the pipeline (0: there was none). The relay's message "
             "has the value. Changes nothing else."},
    {F_FORGET_INTENT, .name = "forget-intent", .kind = FLAG_SWITCH, .commands = "resync",
     .text = "exactly_once was left, or the pipeline has other tables now: forget the last "
             "transaction, of which nobody knows whether it was committed. Its events may be "
             "published twice. Changes nothing else."},

    {F_RETENTION, .name = "retention", .kind = FLAG_DURATION, .value = "AGE", .commands = "cleanup",
     .text = "Remove settled events older than this (default: the option "
             "cleanup.retention). 0 is refused, because there it means for ever."},
    {F_PRINT, .name = "print", .kind = FLAG_SWITCH, .commands = "check",
     .text = "Print the effective configuration, secrets redacted."},
    {F_RENDER, .name = "render", .kind = FLAG_CHOICE, .value = "PAGE",
     .choices = "man|completion|commands|options|sample", .hidden = true, .commands = "help",
     .text = "Render a page that is kept in the source tree."},
    {F_JSON, .name = "json", .kind = FLAG_SWITCH,
     .commands = "put status dead cleanup resync pipeline doctor check version",
     .text = "Output for programs; stable."},
    {F_HELP, .name = "help", .letter = 'h', .kind = FLAG_SWITCH, .commands = "*",
     .text = "This text."},
};

static struct command commands[] = {
    {.name = "init",
     .usage = "--db URL [--dry-run]",
     .summary = "make the outbox in a database, or bring it up to date",
     .text = "Makes the table outbox and its companions where they are missing and upgrades an "
             "older schema. Safe to run twice, and beside a running relay.",
     .examples = "outrider init --db @db@\n"
                 "outrider init --db @server@ --table payment_outbox --dry-run",
     .run = outrider__cmd_init},
    {.name = "put",
     .usage =
         "--db URL --aggregate-type TYPE --aggregate-id ID --type TYPE --payload JSON|@FILE|-\n"
         "--db URL --jsonl FILE|- [--batch N]",
     .summary = "write events into the outbox",
     .text = "Writes one event and prints its id, or many from a file of JSON lines. A line is an "
             "object with the keys aggregate_type, aggregate_id, event_type and payload (or "
             "payload_text, payload_base64), and, as needed, id, topic, partition_key, partition, "
             "headers, occurred_at and expires_at. A JSON payload is stored as the bytes that "
             "were given.",
     .examples = "outrider put --db @db@ --aggregate-type order --aggregate-id 42 --type "
                 "OrderCreated --payload '{\"total\":10}'\n"
                 "outrider put --db @db@ --jsonl events.jsonl",
     .run = outrider__cmd_put},
    {.name = "relay",
     .usage = "--from URL --to URL [--name NAME] [--once] [--set KEY=VALUE]...\n"
              "-c FILE [--name NAME] [--once]\n"
              "--debezium FILE --to URL [--from URL]",
     .summary = "carry committed events to their receiver",
     .text =
         "Runs until it is stopped. SIGTERM and SIGINT finish what is in flight, within "
         "shutdown_timeout; a second one ends at once, unless it comes within half a second of "
         "the first, as those of timeout(1) do: both are one then. SIGHUP reads the configuration "
         "file again "
         "and takes over what can be changed while running. One relay is active per pipeline; "
         "others wait and take over. A password does not belong on a command line, which every "
         "user of the machine can read (it is blanked as soon as the relay runs): write the URL "
         "as ${NAME} in a file for -c, which takes it from the environment.",
     .examples = "outrider relay --from @db@ --to file:events\n"
                 "outrider relay --from @db@ --to stdout: --once\n"
                 "outrider relay -c outrider.yaml\n"
                 "outrider relay --debezium connector.json --to @broker@",
     .run = outrider__cmd_relay},
    {.name = "status",
     .usage = "--db URL [--name NAME] [--json]",
     .summary = "what is pending, parked and dead, per pipeline",
     .text = "Shows, for each pipeline that the database knows: the events that wait and the age "
             "of the oldest, what is parked, queued behind a parked event, or dead, how far the "
             "pipeline has come, its sink, and whether a relay is active.",
     .examples = "outrider status --db @db@",
     .run = outrider__cmd_status},
    {.name = "dead",
     .operands = "list|show|retry|discard",
     .words = "list|show|retry|discard",
     .max_operands = 1,
     .usage = "list|show --db URL [--id ID]... [--type TYPE] [--since TIME] [--json]\n"
              "retry|discard --db URL --id ID...|--type TYPE|--since TIME|--all",
     .summary = "list, show, retry or discard dead letters",
     .text = "A dead letter is an event that used up its attempts or can never be delivered. list "
             "prints one line each, show everything including the payload; retry hands them to "
             "the relay again with their attempts counted anew; discard forgets them.",
     .examples = "outrider dead list --db @db@\n"
                 "outrider dead retry --db @db@ --type OrderCreated --since 1h",
     .run = outrider__cmd_dead},
    {.name = "tail",
     .operands = "DIR [TOPIC]",
     .max_operands = 2,
     .usage = "DIR [TOPIC] [-f] [-n N]",
     .summary = "read what the file sink wrote",
     .text = "Prints the events of a topic, one JSON object a line; without a topic, the topics "
             "there are.",
     .examples = "outrider tail events order.OrderCreated -f",
     .run = outrider__cmd_tail},
    {.name = "replay",
     .usage = "--db URL --since TIME --to URL\n--db URL --from-seq N --to URL",
     .summary = "deliver settled events again",
     .text = "Reads the outbox from a point on and delivers what it still holds, without touching "
             "any pipeline's position. What fails is told and not parked.",
     .examples = "outrider replay --db @db@ --since 2h --to file:again",
     .run = outrider__cmd_replay},
    {.name = "cleanup",
     .usage = "--db URL [--retention AGE]",
     .summary = "remove settled events that are past their retention",
     .text = "Works in small portions with a pause between them (cleanup.batch, cleanup.pause) "
             "until nothing is left to remove. Never removes an event that a pipeline has not "
             "settled.",
     .examples = "outrider cleanup --db @db@ --retention 7d",
     .run = outrider__cmd_cleanup},
    {.name = "resync",
     .usage = "--db URL [--name NAME]\n"
              "--db URL [--name NAME] --progress NUMBER:STAMP|--forget-intent",
     .summary = "set a pipeline right after its outbox was restored or emptied",
     .text = "When the history of an outbox was rewritten (a restore, a table emptied by hand) the "
             "relay stops rather than guess. This command looks at what the table still holds and "
             "moves the pipeline there; it may deliver events again, and says what it did. With "
             "--progress or --forget-intent it decides instead what became of the last "
             "transaction of exactly_once, where a relay says that only a person can.",
     .examples = "outrider resync --db @db@ --name orders",
     .run = outrider__cmd_resync},
    {.name = "pipeline",
     .operands = "move",
     .words = "move",
     .max_operands = 1,
     .usage = "move --to URL --db URL [--name NAME]",
     .summary = "let a pipeline go on to another sink",
     .text = "A pipeline remembers its sink, and a relay with another one stops: two sinks would "
             "each get a part of the events. move makes the new sink the pipeline's: the next "
             "relay delivers there what is not delivered yet. What the old sink has got is not "
             "copied (see replay). Stop the pipeline's relays first.",
     .examples = "outrider pipeline move --db @db@ --name orders --to file:/srv/events",
     .run = outrider__cmd_pipeline},
    {.name = "slot",
     .operands = "drop|adopt",
     .words = "drop|adopt",
     .max_operands = 1,
     .usage = "drop --db URL [--name NAME]\n"
              "adopt --from SLOT --db URL [--name NAME] [--offset FILE|-]",
     .summary = "drop a pipeline's replication slot, or begin at Debezium's",
     .text =
         "In mode cdc a server with slots keeps its log for the pipeline's slot until the relay "
         "has read it, for ever if no relay comes. Drop the slot when the pipeline is no longer "
         "wanted, so that the server's disk does not fill. `outrider status` shows what is kept. "
         "adopt copies the slot of a stopped Debezium connector for a pipeline that has delivered "
         "nothing yet: the relay in mode cdc then begins exactly there, without the rows that the "
         "table holds. Debezium's slot stays as it is.",
     .examples = "outrider slot drop --db @server@ --name orders\n"
                 "outrider slot adopt --from debezium --db @server@ --name orders "
                 "--offset offset.json",
     .run = outrider__cmd_slot},
    {.name = "doctor",
     .usage = "--from URL [--to URL]",
     .summary = "what works, what does not, and what to do about it",
     .text = "Looks at the database and, if one is given, the sink. Exits with 1 if there is a "
             "problem.",
     .examples = "outrider doctor --from @db@ --to file:events",
     .run = outrider__cmd_doctor},
    {.name = "check",
     .usage = "-c FILE [--print]\n--debezium FILE [--from URL] [--to URL]",
     .summary = "check a configuration file",
     .text = "Reads the file as relay would, and tells what is wrong, or a line per pipeline. Of a "
             "Debezium connector it prints the configuration that it amounts to, as a file for "
             "-c, without passwords.",
     .examples = "outrider check -c outrider.yaml --print\n"
                 "outrider check --debezium connector.json --to @broker@",
     .run = outrider__cmd_check},
    {.name = "version",
     .usage = "[--json]",
     .summary = "print the version, and the adapters there are",
     .text = "Also names the version of each adapter's client library.",
     .examples = "outrider version",
     .run = outrider__cmd_version},
    {.name = "help",
     .operands = "[COMMAND]",
     .max_operands = 1,
     .usage = "[COMMAND]",
     .summary = "explain a command",
     .text = "The same as COMMAND --help; without a command, the list of them.",
     .examples = "outrider help relay",
     .run = outrider__cmd_help},
};

static pthread_once_t words_once = PTHREAD_ONCE_INIT;

/* The texts get their words once, before anybody reads them. */
static void commands_fill_words(void)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        commands[i].text = outrider__command_words(commands[i].text);
        commands[i].examples = outrider__command_words(commands[i].examples);
    }
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        flags[i].text = outrider__command_words(flags[i].text);
}

const struct command *outrider__commands(size_t *ret_n)
{
    (void)pthread_once(&words_once, commands_fill_words);
    *ret_n = sizeof(commands) / sizeof(commands[0]);
    return commands;
}

const struct flag *outrider__flags(size_t *ret_n)
{
    (void)pthread_once(&words_once, commands_fill_words);
    *ret_n = sizeof(flags) / sizeof(flags[0]);
    return flags;
}
