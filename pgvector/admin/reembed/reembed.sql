-- The statements of `reembed` besides those that build the new columns.

-- name: count_cold
-- exempt: a total for the operator, no stored text.
SELECT count(*) AS count FROM conversations WHERE embedding IS NULL AND sig IS NOT NULL;
