/* SPDX-License-Identifier: MIT */
#include "cli/debezium_offset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

static int offset_not_understood(struct outrider_error *err, const char *what)
{
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "--offset: %s; wanted is a PostgreSQL connector's offset, "
                          "{\"lsn_proc\":..}, or Kafka Connect's answer to "
                          "GET /connectors/NAME/offsets",
                          what);
}

/* The member's raw value; NULL data where there is none. Of two, the last. */
static struct bytes offset_member(struct bytes object, const char *name)
{
    struct json_members m;
    struct bytes key, value, found = BYTES_NULL;
    if (outrider__json_members_begin(&m, object) < 0)
        return found;
    while (outrider__json_members_next(&m, &key, &value) > 0)
        if (bytes_eq_str(key, name))
            found = value;
    return found;
}

static bool offset_is_given(struct bytes value)
{
    return !bytes_is_null(value) && !bytes_eq_str(value, "null");
}

static bool offset_is_yes(struct bytes value)
{
    return bytes_eq_str(value, "true") || bytes_eq_str(value, "\"true\"");
}

static int offset_number(struct bytes object, const char *name, uint64_t *ret,
                         struct outrider_error *err)
{
    struct bytes value = offset_member(object, name);
    char text[24], *end = NULL;
    if (!offset_is_given(value)) {
        *ret = 0;
        return 0;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)(value.len < 23 ? value.len : 23), value.data);
    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || text[0] == '-')
        return offset_not_understood(err, "a position in it is no number");
    return 0;
}

/* The one object of an array. */
static struct bytes offset_only_one(struct bytes array)
{
    if (array.len < 2 || array.data[0] != '[')
        return BYTES_NULL;
    struct bytes inside = bytes_of(array.data + 1, array.len - 2);
    struct json_members m;
    return outrider__json_members_begin(&m, inside) < 0 ? BYTES_NULL : inside;
}

static int offset_check_snapshot(struct bytes offset, struct outrider_error *err)
{
    bool is_over = offset_is_yes(offset_member(offset, "snapshot_completed")) ||
                   offset_is_yes(offset_member(offset, "last_snapshot_record"));
    if (!offset_is_given(offset_member(offset, "snapshot")) || is_over)
        return 0;
    return outrider__fail(err, OUTRIDER_CONFIG, OUTRIDER_STOP,
                          "--offset: Debezium is in the middle of its first snapshot; let that "
                          "come to its end first");
}

int outrider__debezium_offset(struct bytes json, struct stream_offset *ret_offset,
                              struct outrider_error *err)
{
    struct json_members m;
    struct stream_offset o = {0};
    struct bytes offset = json;
    uint64_t xid = 0;
    if (outrider__json_members_begin(&m, json) < 0)
        return offset_not_understood(err, "this is no JSON object");
    if (offset_is_given(offset_member(json, "offsets"))) {
        struct bytes one = offset_only_one(offset_member(json, "offsets"));
        if (bytes_is_null(one))
            return offset_not_understood(err, "there is not just one offset in it");
        offset = offset_member(one, "offset");
    } else if (offset_is_given(offset_member(json, "offset"))) {
        offset = offset_member(json, "offset");
    }
    if (!offset_is_given(offset_member(offset, "lsn")) &&
        !offset_is_given(offset_member(offset, "lsn_proc")))
        return offset_not_understood(err, "there is no position in it");
    if (offset_check_snapshot(offset, err) < 0 ||
        offset_number(offset, "lsn_commit", &o.commit_lsn, err) < 0 ||
        offset_number(offset, "lsn_proc", &o.event_lsn, err) < 0 ||
        offset_number(offset, "txId", &xid, err) < 0)
        return -1;
    struct bytes type = offset_member(offset, "messageType");
    o.xid = (uint32_t)xid;
    o.is_begin = bytes_eq_str(type, "\"BEGIN\"") || bytes_eq_str(type, "\"COMMIT\"");
    o.is_sure = offset_is_given(type);
    *ret_offset = o;
    return 0;
}
