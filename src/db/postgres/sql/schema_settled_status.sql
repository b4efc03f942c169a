-- SPDX-License-Identifier: MIT
            -- Dead letters stay until somebody decides about them.
            EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s WHERE status NOT IN (''PUBLISHED'', ''EXPIRED'')
                OR coalesce(published_at, updated_at) >= $1)', part.relation) INTO is_settled USING cutoff;
