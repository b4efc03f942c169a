/* SPDX-License-Identifier: MIT */
/*
 * The inbox: an event's effect once, however often the event is delivered.
 *
 * A consumer remembers the ids of the events it has handled in a table of the
 * database that their effects go to (outrider_inbox; `outrider init --inbox`
 * makes it), in the same transaction as the effect. The calls are in
 * outrider/postgres.h and outrider/sqlite.h, two ways for each:
 *
 *   first-insert     outrider_inbox_X() at the start of the transaction marks
 *                    the event and says NEW or SEEN. A concurrent duplicate
 *                    waits there until the first one's transaction has ended.
 *   check-then-mark  outrider_inbox_check_X() only looks, and may be called
 *                    outside a transaction; outrider_inbox_mark_X() marks the
 *                    event at the end. Of two concurrent duplicates both may do
 *                    the work, and the later one's mark fails with
 *                    OUTRIDER_DUPLICATE: it must roll back.
 *
 * Take first-insert unless the work is done elsewhere before the transaction
 * starts. Either way, commit before the message is acknowledged to the broker.
 *
 * An id is any UTF-8 text of 1 to 255 bytes, and so is the consumer's name: it
 * separates several consumers that share a database.
 */
#ifndef OUTRIDER_INBOX_H
#define OUTRIDER_INBOX_H

/* What the calls that look answer; an error is negative. */
#define OUTRIDER_INBOX_NEW 0  /* handle it */
#define OUTRIDER_INBOX_SEEN 1 /* its effect is committed: only acknowledge it */

/* Longest consumer's name and longest event id, in bytes. */
#define OUTRIDER_INBOX_TEXT_MAX 255

#endif
