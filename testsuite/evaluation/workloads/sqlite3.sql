-- Joins, sorting, grouping, triggers, full text, recursive queries. Deterministic.
PRAGMA journal_mode = OFF;
CREATE TABLE item(id INTEGER PRIMARY KEY, a INT, b INT, name TEXT);
CREATE TABLE log(item INT, what TEXT, old INT, new INT);
CREATE TABLE total(bucket INTEGER PRIMARY KEY, n INT, sum INT);
CREATE TRIGGER item_insert AFTER INSERT ON item BEGIN
  INSERT INTO total VALUES (new.a % 50, 1, new.b) ON CONFLICT(bucket) DO UPDATE SET n = n + 1, sum = sum + excluded.sum;
END;
CREATE TRIGGER item_update AFTER UPDATE OF b ON item WHEN new.b > old.b BEGIN
  INSERT INTO log VALUES (new.id, 'up', old.b, new.b);
  UPDATE total SET sum = sum + new.b - old.b WHERE bucket = new.a % 50;
END;
CREATE TRIGGER item_delete BEFORE DELETE ON item BEGIN
  INSERT INTO log SELECT old.id, 'gone', old.b, NULL WHERE old.a % 3 = 0;
END;
WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 40000)
  INSERT INTO item SELECT i, (i * 7919) % 10007, (i * 104729) % 997, 'w' || ((i * 31) % 5003) FROM s;
CREATE INDEX item_a ON item(a);
CREATE INDEX item_name ON item(name);
SELECT count(*), sum(x.b), max(y.name) FROM item x JOIN item y ON x.a = y.a WHERE y.b < 150;
SELECT x.name, count(*) n, sum(y.b) FROM item x LEFT JOIN item y ON y.id = x.b GROUP BY x.name HAVING n > 7 ORDER BY n DESC, x.name LIMIT 10;
SELECT name, a, b FROM item ORDER BY b DESC, name, id LIMIT 10;
SELECT count(*) FROM item WHERE name LIKE '%99%' OR name GLOB '*1?3*';
UPDATE item SET b = b + 1 WHERE a % 3 = 0;
DELETE FROM item WHERE a % 11 = 5;
SELECT what, count(*), sum(old), sum(new) FROM log GROUP BY what ORDER BY what;
SELECT sum(n), sum(sum) FROM total;
CREATE VIRTUAL TABLE doc USING fts5(body);
INSERT INTO doc SELECT name || ' ' || a || ' word' || b FROM item WHERE id <= 10000;
SELECT count(*) FROM doc WHERE doc MATCH 'word12* OR w77';
WITH RECURSIVE q(n, s) AS (SELECT 1, '' UNION ALL SELECT n + 1, substr(s || hex(n), 1, 60) FROM q WHERE n < 5000)
  SELECT max(length(s)), count(*) FROM q;
SELECT a % 10 AS k, group_concat(DISTINCT b % 5), avg(b) FROM item GROUP BY k ORDER BY k;
SELECT id, b, sum(b) OVER (PARTITION BY a % 7 ORDER BY id ROWS 3 PRECEDING) FROM item WHERE id % 4001 = 0 ORDER BY id;
