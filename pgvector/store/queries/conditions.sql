-- Conditions that statements share, so that each is one rule. `readable(t)` in a statement stands for the condition of that
-- name on its row t.

-- condition: readable
-- Whether a session may read the row: one of its own theme, one that was not said in a chat of a messaging platform, or one
-- from a chat that is shared. See domain/privacy.py.
CASE WHEN t.agent_identity = %(own)s::text THEN true
     WHEN left(t.agent_identity, 1) = '@' OR coalesce(t.metadata ->> 'platform', '') <> ALL (
          '{"",acp,api_server,background,cli,cron,desktop,flush,local,subagent,tui}'::text[])
     THEN CASE WHEN left(t.agent_identity, 1) = '@' THEN t.agent_identity
               ELSE concat('@', t.metadata ->> 'platform', '/', coalesce(t.metadata ->> 'profile', 'default'), '/') END
          || CASE WHEN t.metadata ->> 'chat_type' IN ('channel', 'forum', 'group', 'room', 'supergroup', 'thread')
                  THEN ' group' ELSE ' direct' END LIKE ANY (%(shared)s::text[])
     ELSE true END

-- condition: reachable
-- Whether a session may read some row of this theme: what can be told without the row, from an index or of a part of it.
CASE WHEN t.agent_identity = %(own)s::text THEN true
     WHEN left(t.agent_identity, 1) = '@' THEN t.agent_identity || ' group' LIKE ANY (%(shared)s::text[])
     ELSE true END
