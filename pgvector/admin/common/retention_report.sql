-- The state of the setting `retention`.

-- name: theme_has_turns
SELECT EXISTS (SELECT FROM conversations WHERE agent_identity = %(theme)s) AS found;

-- name: retention_state
-- exempt: counts and times for the operator, no stored text.
SELECT max(ended_at) AS last_at, count(*) FILTER (WHERE held_until > now()) AS at_work,
       coalesce(sum(deleted) FILTER (WHERE ended_at > now() - interval '24 hours'), 0)::bigint AS deleted_in_24h,
       count(*) FILTER (WHERE begun_at IS NULL) AS announced,
       min(announced_at) FILTER (WHERE begun_at IS NULL) + make_interval(secs => %(grace_s)s) AS first_at
  FROM hermes_retention;
