-- SPDX-License-Identifier: MIT
-- exactly_once: what the pipeline's last transaction settles if it is committed;
-- body NULL: it is settled. identity is this pipeline's name in the sink.
CREATE TABLE IF NOT EXISTS outrider_intent (
    pipeline TEXT NOT NULL PRIMARY KEY,
    identity TEXT NOT NULL,
    no INTEGER NOT NULL DEFAULT 0,
    stamp INTEGER NOT NULL DEFAULT 0,
    body BLOB
);
