/* SPDX-License-Identifier: MIT */
#include "core/module.h"
#include "outrider/export.h"
#include "sink/kafka.h"

extern const struct module outrider_module;

OUTRIDER_API const struct module outrider_module = {
    .abi = OUTRIDER_MODULE_ABI,
    .name = "kafka",
    .scheme = "kafka",
    .sink = &outrider__sink_kafka,
    .client_version = "librdkafka " OUTRIDER_RDKAFKA_VERSION,
};
