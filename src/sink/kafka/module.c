/* SPDX-License-Identifier: MIT */
#include "core/module.h"
#include "sink/kafka/kafka.h"

OUTRIDER_MODULE = {
    .name = "kafka",
    .scheme = "kafka",
    .sink = &outrider__sink_kafka,
    .client_version = "librdkafka " OUTRIDER_RDKAFKA_VERSION,
};
