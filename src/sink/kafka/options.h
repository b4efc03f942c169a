/* SPDX-License-Identifier: MIT */
/* Kafka's own options; their rows are in adapter.c. */
#ifndef SINK_KAFKA_OPTIONS_H
#define SINK_KAFKA_OPTIONS_H

#include "core/config.h"

struct kafka_options {
    struct string_map properties;    /* of librdkafka */
    struct string_map create_topics; /* partitions, replication; empty: not asked for */
    const char *progress_topic;      /* where exactly_once keeps its numbers */
};

static inline const struct kafka_options *kafka_options(const struct pipeline_config *c)
{
    static const struct kafka_options none = {.progress_topic = "outrider.progress"};
    return config_own(c, "kafka", &none);
}

#endif
