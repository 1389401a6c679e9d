-- Another workload than sqlite3.sql: orders of customers, transactions that are taken back, JSON, dates, views, text
-- keys, updates by joins, geometry in an R*-tree.
PRAGMA foreign_keys = ON;
CREATE TABLE customer(code TEXT PRIMARY KEY, city TEXT, since TEXT) WITHOUT ROWID;
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer TEXT REFERENCES customer(code), day TEXT, lines TEXT);
WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 3000)
  INSERT INTO customer SELECT printf('c%05d', i * 7 % 3001), 'city' || (i % 37), date('2001-01-01', '+' || i || ' days') FROM s;
WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20000)
  INSERT INTO orders SELECT i, printf('c%05d', (i * 31 % 3000 + 1) * 7 % 3001), date('2010-01-01', '+' || (i % 900) || ' days'),
    json_array(json_object('part', i % 101, 'n', i % 7), json_object('part', i % 53, 'n', 1)) FROM s;
CREATE INDEX orders_day ON orders(day, customer);
CREATE VIEW total AS SELECT customer, count(*) n, min(day) first, max(day) last FROM orders GROUP BY customer;
SELECT city, sum(n), min(first), max(last) FROM total JOIN customer ON code = customer GROUP BY city ORDER BY 2 DESC LIMIT 5;
SELECT json_extract(value, '$.part') part, sum(json_extract(value, '$.n')) n FROM orders, json_each(lines)
  WHERE orders.id % 5 = 0 GROUP BY part ORDER BY n DESC, part LIMIT 5;
BEGIN;
UPDATE orders SET day = date(day, '+1 month') WHERE customer IN (SELECT code FROM customer WHERE city = 'city3');
DELETE FROM orders WHERE id IN (SELECT id FROM orders ORDER BY day DESC LIMIT 2000);
SELECT count(*), max(day) FROM orders;
ROLLBACK;
SELECT count(*) FROM orders a WHERE EXISTS (SELECT 1 FROM orders b WHERE b.customer = a.customer AND b.day > a.day);
CREATE VIRTUAL TABLE box USING rtree(id, x0, x1, y0, y1);
INSERT INTO box SELECT id, id % 100, id % 100 + 3, id / 200, id / 200 + 2 FROM orders WHERE id < 5000;
SELECT count(*) FROM box WHERE x0 > 20 AND x1 < 60 AND y0 > 5 AND y1 < 20;
SELECT upper(substr(city, 1, 4)) || replace(code, 'c', '-'), length(trim(since, '0')), round(julianday(since), 1)
  FROM customer WHERE code LIKE 'c0%7' ORDER BY since DESC LIMIT 5;
SELECT strftime('%Y-%m', day) m, count(*), group_concat(DISTINCT substr(customer, 5)) FROM orders WHERE id % 97 = 0 GROUP BY m ORDER BY m LIMIT 5;
SELECT count(*) FROM (SELECT customer FROM orders EXCEPT SELECT code FROM customer WHERE city > 'city2' UNION SELECT city FROM customer);
