-- SPDX-License-Identifier: MIT
CREATE TABLE IF NOT EXISTS outbox_orders (
  id                BIGSERIAL PRIMARY KEY,
  created_at        TIMESTAMPTZ NOT NULL DEFAULT now(),
  updated_at        TIMESTAMPTZ NOT NULL DEFAULT now(),

  -- 冪等識別
  idempotency_key   TEXT NOT NULL UNIQUE,

  -- 送信対象
  order_request_json JSONB NOT NULL,  -- OrderRequest v1.1 (正規化済み推奨)
  request_digest     TEXT NOT NULL,   -- 送信同一性の検証用（SHA-256）

  -- ステータス
  status            TEXT NOT NULL CHECK (status IN ('pending','sending','succeeded','failed','aborted')),
  attempts          INT NOT NULL DEFAULT 0,
  last_error_code   TEXT,
  last_error_msg    TEXT,

  -- ワーカー取得管理
  locked_by         TEXT,             -- ワーカ名/ホスト名
  locked_at         TIMESTAMPTZ,

  -- TTL/可観測
  expires_at        TIMESTAMPTZ,      -- 任意
  CONSTRAINT uq_outbox_idempo UNIQUE (idempotency_key)
);

CREATE INDEX IF NOT EXISTS idx_outbox_status ON outbox_orders (status);
CREATE INDEX IF NOT EXISTS idx_outbox_locked_at ON outbox_orders (locked_at);
