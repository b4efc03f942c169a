-- SPDX-License-Identifier: MIT
-- As its document gives it, for MySQL and MariaDB.
CREATE TABLE outbox (
    id              BIGINT PRIMARY KEY AUTO_INCREMENT,
    aggregate_type  VARCHAR(255) NOT NULL,  -- 'Order'
    aggregate_id    VARCHAR(255) NOT NULL,  -- 'order-123'
    event_type      VARCHAR(255) NOT NULL,  -- 'OrderCreated'
    payload         TEXT NOT NULL,          -- JSON 직렬화된 이벤트
    created_at      TIMESTAMP NOT NULL,
    processed_at    TIMESTAMP NULL,
    status          VARCHAR(50) NOT NULL DEFAULT 'PENDING'
);

CREATE INDEX idx_outbox_status ON outbox(status, created_at);
