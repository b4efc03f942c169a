-- SPDX-License-Identifier: MIT
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL row_security = off;
SELECT pg_advisory_xact_lock(hashtextextended('outrider/init', 0));
