-- name: get(namespace, agent_id, instance, section, item)^
-- An item of a section.
SELECT instance, section, item, revision, body, size, content_hash, visibility, source, updated_at
FROM agent_sections
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
  AND section = :section AND item = :item;

-- name: of_envelope(namespace, agent_id, instance, section)
-- The items of an envelope, or of one section of it.
SELECT instance, section, item, revision, body, size, content_hash, visibility, source, updated_at
FROM agent_sections
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
  AND (:section::text IS NULL OR section = :section)
ORDER BY section, item;

-- name: of_siblings(namespace, agent_id, instance, section, item, limit, most_bytes)
-- What an agent's other instances let it see of a section, as far as there is room: the first one always. Each row says how
-- many there are.
SELECT s.instance, s.section, s.item, s.revision, s.body, s.size, s.content_hash, s.visibility, s.source, s.updated_at,
       m.total
FROM (
    SELECT instance, item, count(*) OVER () AS total, row_number() OVER place AS place, sum(size) OVER place AS sum
    FROM agent_sections
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance NOT IN ('', :instance)
      AND section = :section AND (:item::text IS NULL OR item = :item) AND visibility = 'instances'
    WINDOW place AS (ORDER BY instance, item)
) AS m
JOIN agent_sections AS s
  ON s.namespace = :namespace AND s.agent_id = :agent_id AND s.instance = m.instance
 AND s.section = :section AND s.item = m.item
WHERE m.place = 1 OR (m.place <= :limit::bigint AND m.sum <= :most_bytes::bigint)
ORDER BY s.instance, s.item;

-- name: states(namespace, agent_id, instance)
-- What an envelope has, without the contents.
SELECT section, item, revision, content_hash, visibility, size
FROM agent_sections
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance;

-- name: write(namespace, agent_id, instance, revision, source, sections, items, bodies, content_hashes, visibilities)
-- Write items of an envelope that is held. What they said before, if it was something else, becomes history.
WITH given AS MATERIALIZED (
    SELECT g.section, g.item, g.body, g.content_hash, g.visibility
    FROM unnest(:sections::text[], :items::text[], :bodies::bytea[], :content_hashes::bytea[], :visibilities::text[])
         AS g (section, item, body, content_hash, visibility)
), former AS (
    INSERT INTO agent_section_history
        (namespace, agent_id, instance, section, item, revision, body, content_hash, visibility, source, updated_at)
    SELECT s.namespace, s.agent_id, s.instance, s.section, s.item, s.revision, s.body, s.content_hash, s.visibility,
           s.source, s.updated_at
    FROM given AS g
    JOIN agent_sections AS s
      ON s.namespace = :namespace AND s.agent_id = :agent_id AND s.instance = :instance
     AND s.section = g.section AND s.item = g.item
    WHERE s.content_hash <> g.content_hash
)
INSERT INTO agent_sections AS s
    (namespace, agent_id, instance, section, item, revision, body, content_hash, visibility, source)
SELECT :namespace, :agent_id, :instance, g.section, g.item, :revision::bigint, g.body, g.content_hash, g.visibility, :source
FROM given AS g
ON CONFLICT (namespace, agent_id, instance, section, item) DO UPDATE
SET revision = excluded.revision, body = excluded.body, content_hash = excluded.content_hash,
    visibility = excluded.visibility, source = excluded.source, updated_at = now()
RETURNING instance, section, item, revision, body, size, content_hash, visibility, source, updated_at;

-- name: remove(namespace, agent_id, instance, sections, items)!
-- Take items out of an envelope that is held. What they said becomes history.
WITH gone AS (
    DELETE FROM agent_sections AS s
    USING unnest(:sections::text[], :items::text[]) AS g (section, item)
    WHERE s.namespace = :namespace AND s.agent_id = :agent_id AND s.instance = :instance
      AND s.section = g.section AND s.item = g.item
    RETURNING s.*
)
INSERT INTO agent_section_history
    (namespace, agent_id, instance, section, item, revision, body, content_hash, visibility, source, updated_at)
SELECT namespace, agent_id, instance, section, item, revision, body, content_hash, visibility, source, updated_at
FROM gone;

-- name: forget(namespace, agent_id, instance, section, item)!
-- Take an item out of an envelope that is held, and all that it ever said.
WITH former AS (
    DELETE FROM agent_section_history
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
      AND section = :section AND item = :item
)
DELETE FROM agent_sections
WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance AND section = :section AND item = :item;

-- name: trim(namespace, agent_id, instance, keep, keep_removed)!
-- Let go of what is too far back: of each item beyond so many, and of those that are gone beyond so many in all.
DELETE FROM agent_section_history AS h
USING (
    SELECT p.section, p.item, p.revision,
           row_number() OVER (PARTITION BY p.section, p.item ORDER BY p.revision DESC) AS place,
           s.item IS NULL AS removed,
           row_number() OVER (PARTITION BY s.item IS NULL ORDER BY p.revision DESC, p.section, p.item) AS place_in_all
    FROM agent_section_history AS p
    LEFT JOIN agent_sections AS s
      ON s.namespace = p.namespace AND s.agent_id = p.agent_id AND s.instance = p.instance
     AND s.section = p.section AND s.item = p.item
    WHERE p.namespace = :namespace AND p.agent_id = :agent_id AND p.instance = :instance
) AS ranked
WHERE h.namespace = :namespace AND h.agent_id = :agent_id AND h.instance = :instance
  AND h.section = ranked.section AND h.item = ranked.item AND h.revision = ranked.revision
  AND (ranked.place > :keep::bigint OR (ranked.removed AND ranked.place_in_all > :keep_removed::bigint));

-- name: history(namespace, agent_id, instance, section, item, limit, most_bytes)
-- What a section, or an item of it, said before, newest first, as far as there is room: the newest always. Each row says how
-- much there is.
SELECT h.instance, h.section, h.item, h.revision, h.body, octet_length(h.body) AS size, h.content_hash, h.visibility,
       h.source, h.updated_at, h.replaced_at, m.total
FROM (
    SELECT item, revision, count(*) OVER () AS total, row_number() OVER place AS place,
           sum(octet_length(body)) OVER place AS sum
    FROM agent_section_history
    WHERE namespace = :namespace AND agent_id = :agent_id AND instance = :instance
      AND section = :section AND (:item::text IS NULL OR item = :item)
    WINDOW place AS (ORDER BY revision DESC, item)
) AS m
JOIN agent_section_history AS h
  ON h.namespace = :namespace AND h.agent_id = :agent_id AND h.instance = :instance
 AND h.section = :section AND h.item = m.item AND h.revision = m.revision
WHERE m.place = 1 OR (m.place <= :limit::bigint AND m.sum <= :most_bytes::bigint)
ORDER BY h.revision DESC, h.item;
