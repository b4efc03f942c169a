-- SPDX-License-Identifier: MIT
-- From the Java entity of its document, as Hibernate creates it; the index as written.
CREATE TABLE outbox_event (
    id              BIGINT PRIMARY KEY,
    type            VARCHAR(255),
    aggregate_id    BIGINT,
    payload         TEXT,
    published       BOOLEAN,
    created_at      TIMESTAMP
);

CREATE INDEX outbox_event_published_created_at_idx ON outbox_event(published, created_at);
