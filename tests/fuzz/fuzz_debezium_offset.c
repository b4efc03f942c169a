/* SPDX-License-Identifier: MIT */
/* Any bytes as a connector's stored offset. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/debezium_offset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream_offset offset = {0};
    struct outrider_error err = {0};
    if (outrider__debezium_offset(bytes_of(data, size), &offset, &err) < 0 &&
        (err.code != OUTRIDER_CONFIG || err.message[0] != '-'))
        abort();
    return 0;
}
