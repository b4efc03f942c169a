/* SPDX-License-Identifier: MIT */
#include "core/adapter.h"
#include "sink/kafka/options.h"

#define AT(field) offsetof(struct kafka_options, field)

/* clang-format off */
static const struct option options[] = {
    {"sink.kafka", OPTION_MAP, AT(properties), .initial = "{}", .example = "{compression.type: lz4, linger.ms: 5}", .has_secrets = true,
     .text = "kafka: librdkafka properties (see its CONFIGURATION.md); also one by one as sink.kafka.NAME."},
    {"sink.create_topics", OPTION_MAP, AT(create_topics), .initial = "{}", .example = "{partitions: 6, replication: 3}",
     .text = "kafka: topics that are missing are made, with so many partitions and replicas; {auto: true} leaves it to the broker "
             "(auto.create.topics.enable); empty: they are not made."},
    {"sink.progress_topic", OPTION_STRING, AT(progress_topic), .initial = "outrider.progress",
     .text = "kafka: the compacted topic in which exactly_once keeps the number of each pipeline's last transaction; made where it is missing."},
};
/* clang-format on */

OUTRIDER_ADAPTER(kafka) = {
    .name = "kafka",
    .schemes = "kafka",
    .is_sink = true,
    .needs_server = true,
    .is_example = true,
    .example = "kafka://localhost:9092",
    .form = "kafka://HOST:PORT",
    .library = "librdkafka",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .config_size = sizeof(struct kafka_options),
};
