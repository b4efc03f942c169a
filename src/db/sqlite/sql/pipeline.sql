-- SPDX-License-Identifier: MIT
-- What an operator changes of a pipeline: store_pipeline.c. ?1 is the pipeline in all of them.

-- name: pipeline_read
-- Columns: enum pipeline_column.
SELECT sink FROM outrider_cursor WHERE pipeline = ?1

-- name: pipeline_move
-- ?2 is the new sink's identity. The epoch moves on, so that a relay which is somehow still
-- at work cannot save over this.
UPDATE outrider_cursor SET sink = ?2, epoch = epoch + 1 WHERE pipeline = ?1

-- name: intent_reset
-- ?2 and ?3: the number and the stamp of the sink's last transaction; NULL: they stay.
UPDATE outrider_intent
SET no = ifnull(?2, no), stamp = ifnull(?3, stamp), body = NULL
WHERE pipeline = ?1

-- name: intent_reset_epoch
UPDATE outrider_cursor SET epoch = epoch + 1 WHERE pipeline = ?1
