-- SPDX-License-Identifier: MIT
CREATE TABLE event_outbox (
    id              UUID PRIMARY KEY,
    aggregate_id    VARCHAR(255) NOT NULL,    -- 이벤트 발생 엔티티 ID
    aggregate_type  VARCHAR(100) NOT NULL,    -- 엔티티 타입 (Order, Payment 등)
    event_type      VARCHAR(100) NOT NULL,    -- 이벤트 타입 (Created, Updated 등)
    topic           VARCHAR(255) NOT NULL,    -- 대상 Kafka 토픽
    partition_key   VARCHAR(255) NOT NULL,    -- 파티션 키 (순서 보장용)
    payload         TEXT NOT NULL,            -- 이벤트 페이로드 (JSON)
    headers         TEXT,                     -- 추가 헤더 (correlation-id 등)
    status          VARCHAR(20) NOT NULL,     -- PENDING, PUBLISHED, FAILED, DEAD_LETTER
    retry_count     INT DEFAULT 0,            -- 재시도 횟수
    last_error      TEXT,                     -- 마지막 에러 메시지
    created_at      TIMESTAMPTZ NOT NULL,
    processed_at    TIMESTAMPTZ,
    next_retry_at   TIMESTAMPTZ               -- 다음 재시도 예정 시간
);

-- 처리 대상 조회용 인덱스
CREATE INDEX idx_outbox_status_created
    ON event_outbox(status, created_at);

-- 재시도 대상 조회용 인덱스
CREATE INDEX idx_outbox_status_retry
    ON event_outbox(status, next_retry_at)
    WHERE status IN ('PENDING', 'FAILED');
