/* SPDX-License-Identifier: MIT */
#include "core/module.h"
#include "sink/kafka/kafka.h"

extern const struct adapter outrider__adapter_kafka;

OUTRIDER_MODULE = {
    .adapter = &outrider__adapter_kafka,
    .sink = &outrider__sink_kafka,
    .client_version = "librdkafka " OUTRIDER_RDKAFKA_VERSION,
};
