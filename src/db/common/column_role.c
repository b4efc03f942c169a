/* SPDX-License-Identifier: MIT */
#include "common/column_role.h"

#include <string.h>

#define KINDS(...) ((const enum map_kind[]){__VA_ARGS__, KIND_OTHER})

/* Names as outrider__map_normalise() leaves them. */
static const struct role {
    const char *option;
    const char *names;
    const enum map_kind *kinds;
} roles[ROLE_COUNT] = {
    [ROLE_ID] = {"map.id", " eventid messageid id uuid outboxid eventuuid ",
                 KINDS(KIND_UUID, KIND_INTEGER, KIND_TEXT)},
    [ROLE_SEQ] = {"map.seq",
                  " seq sequence sequencenum sequencenumber sequenceno seqno seqnum eventseq "
                  "globalseq globalposition position ",
                  KINDS(KIND_INTEGER)},
    [ROLE_AGGREGATE_TYPE] = {"map.aggregate_type",
                             " aggregatetype aggregatename entitytype aggregate ",
                             KINDS(KIND_TEXT, KIND_ENUM)},
    [ROLE_AGGREGATE_ID] = {"map.aggregate_id",
                           " aggregateid aggregatekey entityid streamid recordkey ",
                           KINDS(KIND_TEXT, KIND_UUID, KIND_INTEGER, KIND_BYTES)},
    [ROLE_EVENT_TYPE] = {"map.event_type",
                         " eventtype eventname messagetype recordtype type kind event ",
                         KINDS(KIND_TEXT, KIND_ENUM)},
    [ROLE_PAYLOAD] = {"map.payload",
                      " payload eventpayload payloadjson eventdata eventbody data body message "
                      "content json value serializedevent ",
                      KINDS(KIND_JSON, KIND_TEXT, KIND_BYTES)},
    [ROLE_HEADERS] = {"map.headers", " headers eventheaders messageheaders header metadata ",
                      KINDS(KIND_JSON, KIND_TEXT, KIND_BYTES)},
    [ROLE_TOPIC] = {"map.topic", " topic topicname targettopic kafkatopic destination ",
                    KINDS(KIND_TEXT)},
    [ROLE_PARTITION_KEY] = {"map.partition_key",
                            " partitionkey messagekey kafkakey routingkey eventkey ",
                            KINDS(KIND_TEXT, KIND_UUID, KIND_INTEGER, KIND_BYTES)},
    [ROLE_PARTITION] = {"map.partition", " partition kafkapartition partitionno partitionnumber ",
                        KINDS(KIND_INTEGER)},
    [ROLE_OCCURRED_AT] = {"map.occurred_at",
                          " occurredat occurredon eventtime eventtimestamp timestamp ",
                          KINDS(KIND_TIME)},
    [ROLE_CREATED_AT] = {"map.created_at",
                         " createdat createdon created createdtime createtime createddate "
                         "insertedat enqueuedat publicationdate added ",
                         KINDS(KIND_TIME)},
    [ROLE_EXPIRES_AT] = {"map.expires_at", " expiresat expireat expiry expireson validuntil ",
                         KINDS(KIND_TIME)},
    [ROLE_IDEMPOTENCY_KEY] = {"map.idempotency_key",
                              " idempotencykey idempotentkey deduplicationkey dedupkey "
                              "deduplicationid ",
                              KINDS(KIND_TEXT, KIND_UUID, KIND_INTEGER)},
    [ROLE_REQUEST_DIGEST] = {"map.request_digest", " requestdigest requesthash digest ",
                             KINDS(KIND_TEXT, KIND_BYTES)},
    [ROLE_STATUS] = {"map.status",
                     " status eventstatus outboxstatus publishstatus processingstatus "
                     "deliverystatus state statusname ",
                     KINDS(KIND_TEXT, KIND_ENUM, KIND_INTEGER)},
    [ROLE_PUBLISHED] = {"map.published",
                        " published ispublished sent issent dispatched isdispatched delivered "
                        "isdelivered processed isprocessed ",
                        KINDS(KIND_BOOLEAN, KIND_INTEGER)},
    [ROLE_PUBLISHED_AT] = {"map.published_at",
                           " publishedat publishedon sentat senton dispatchedat deliveredat "
                           "processedat processedon completedat completiondate succeededat ",
                           KINDS(KIND_TIME)},
    [ROLE_ATTEMPTS] = {"map.attempts",
                       " attempts attemptcount retrycount retries tries failurecount "
                       "deliveryattempts attempt completionattempts ",
                       KINDS(KIND_INTEGER)},
    [ROLE_NEXT_ATTEMPT_AT] = {"map.next_attempt_at",
                              " nextattemptat nextretryat nextattempt nextretry retryat "
                              "retryafter dueat availableat ",
                              KINDS(KIND_TIME)},
    [ROLE_LAST_ERROR] = {"map.last_error",
                         " lasterror lasterrormsg lasterrormessage lasterrortext errormessage "
                         "errormsg error failurereason ",
                         KINDS(KIND_TEXT)},
    [ROLE_LAST_ERROR_CODE] = {"map.last_error_code", " lasterrorcode errorcode failurecode ",
                              KINDS(KIND_TEXT)},
    [ROLE_LOCKED_BY] = {"map.locked_by",
                        " lockedby lockowner claimedby processingby workerid owner ",
                        KINDS(KIND_TEXT, KIND_UUID)},
    [ROLE_LOCKED_AT] = {"map.locked_at",
                        " lockedat claimedat lockedsince lockedon processingstartedat ",
                        KINDS(KIND_TIME)},
    [ROLE_LOCKED_UNTIL] = {"map.locked_until",
                           " lockeduntil leaseuntil leaseexpiresat lockexpiresat ",
                           KINDS(KIND_TIME)},
    [ROLE_CLAIM] = {"map.claim", " claim claimno claimnumber fencingtoken ", KINDS(KIND_INTEGER)},
    [ROLE_UPDATED_AT] = {"map.updated_at",
                         " updatedat updatedon modifiedat modifiedon lastmodified lastmodifiedat "
                         "lastupdated updatetime ",
                         KINDS(KIND_TIME)},
};

const char *outrider__map_option(enum column_role role)
{
    return roles[role].option;
}

bool outrider__map_is_time(enum column_role role)
{
    return roles[role].kinds[0] == KIND_TIME;
}

bool outrider__map_is_written(enum column_role role)
{
    return role >= ROLE_STATUS;
}

bool outrider__map_normalise(struct bytes name, char *ret_text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (c == '_' || c == '-' || c == ' ')
            continue;
        if (n + 1 >= size)
            return false;
        ret_text[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    ret_text[n] = '\0';
    return n > 0;
}

int outrider__names_rank(const char *names, const char *column)
{
    char word[80];
    word[0] = ' ';
    if (!outrider__map_normalise(bytes_str(column), word + 1, sizeof word - 2))
        return ROLE_RANK_NONE;
    size_t n = strlen(word);
    word[n] = ' ';
    word[n + 1] = '\0';
    const char *at = strstr(names, word);
    return at != NULL ? (int)(at - names) : ROLE_RANK_NONE;
}

int outrider__role_rank(enum column_role role, const char *column)
{
    return outrider__names_rank(roles[role].names, column);
}

bool outrider__role_takes(enum column_role role, const struct map_column *c)
{
    for (const enum map_kind *kind = roles[role].kinds; *kind != KIND_OTHER; kind++)
        if (c->kind == *kind)
            return true;
    return false;
}
