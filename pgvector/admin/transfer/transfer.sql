-- What an import asks beside the rows themselves.

-- name: theme_moves
-- exempt: names for the operator. Which themes were renamed or merged, the earliest first.
SELECT arguments ->> 'theme' AS theme, arguments ->> 'into' AS into
  FROM hermes_maintenance WHERE verb IN ('rename', 'merge') ORDER BY id;

-- name: noted_elsewhere
-- exempt: digests of this host's own file. Those of its entries that a session of another theme wrote.
SELECT target, digest FROM hermes_mirror
 WHERE origin = %(origin)s
 GROUP BY target, digest HAVING bool_and(agent_identity <> %(theme)s);
