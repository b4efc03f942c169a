/* SPDX-License-Identifier: MIT */
/*
 * A Debezium connector's offset: what Kafka Connect has stored of how far the connector
 * has come. Taken are the value alone ({"lsn_proc":..}), and what Kafka Connect answers
 * to GET /connectors/NAME/offsets.
 *
 *  (1) lsn_commit is the end of the last transaction that was published in whole, lsn_proc
 *      the position of the last change that was, in transaction txId.
 *  (2) messageType (Debezium 2.5 and later) says what that change was. BEGIN has the same
 *      position as the first change of its transaction, and means that nothing of it is
 *      published yet.
 *  (3) An offset out of the middle of Debezium's first snapshot is refused.
 */
#ifndef CLI_DEBEZIUM_OFFSET_H
#define CLI_DEBEZIUM_OFFSET_H

#include "core/store.h"

#define DEBEZIUM_OFFSET_MAX 65536

int outrider__debezium_offset(struct bytes json, struct stream_offset *ret_offset,
                              struct outrider_error *err);

#endif
