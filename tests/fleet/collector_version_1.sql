-- A collector's database as version 1 wrote it: an open round, two devices with coins, one report. It stands for what is out
-- there and is never edited or written anew. A statement ends with a semicolon at the end of a line; bytes are x'…'.
CREATE TABLE enrolment_keys ( id TEXT PRIMARY KEY, key_hash BYTEA NOT NULL UNIQUE, name TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION, devices BIGINT, enrolled BIGINT NOT NULL, revoked DOUBLE PRECISION ) WITHOUT ROWID;
CREATE TABLE devices ( device TEXT PRIMARY KEY, token_hash BYTEA NOT NULL UNIQUE, enrolment_key TEXT NOT NULL, last_hour BIGINT NOT NULL ) WITHOUT ROWID;
CREATE TABLE visits (hour BIGINT PRIMARY KEY, devices BIGINT NOT NULL) WITHOUT ROWID;
CREATE TABLE rounds ( round TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, state TEXT NOT NULL, configuration BYTEA NOT NULL, configuration_hash BYTEA NOT NULL, contact_numerator BIGINT NOT NULL, sealed_size BIGINT NOT NULL, opened DOUBLE PRECISION NOT NULL, deadline DOUBLE PRECISION NOT NULL, target BIGINT, closed DOUBLE PRECISION, asked BIGINT NOT NULL, contacted BIGINT NOT NULL, completed BIGINT NOT NULL, batch_size BIGINT ) WITHOUT ROWID;
CREATE TABLE counts ( number BIGINT NOT NULL, part TEXT NOT NULL, asked BIGINT NOT NULL, contacted BIGINT NOT NULL, completed BIGINT NOT NULL, PRIMARY KEY (number, part) ) WITHOUT ROWID;
CREATE TABLE schema_version (role TEXT PRIMARY KEY, version BIGINT NOT NULL) WITHOUT ROWID;
CREATE TABLE contacts_1 (device TEXT PRIMARY KEY, chosen BOOLEAN NOT NULL) WITHOUT ROWID;
CREATE TABLE reports_1 (device TEXT PRIMARY KEY, digest BYTEA NOT NULL) WITHOUT ROWID;
CREATE TABLE sealed_1 (position BIGINT PRIMARY KEY, sealed BYTEA NOT NULL) WITHOUT ROWID;
INSERT INTO schema_version VALUES ('collector', 1);
INSERT INTO enrolment_keys VALUES ('k1', x'0909', 'first', 1699999000.5, NULL, NULL, 2, NULL);
INSERT INTO devices VALUES ('d1', x'0102', 'k1', 472222);
INSERT INTO devices VALUES ('d2', x'0304', 'k1', 0);
INSERT INTO visits VALUES (472222, 1);
INSERT INTO rounds VALUES ('r1', 1, 'open', x'7b7d', x'aabb', 4294967296, 13, 1699999000.0, 1700003600.0, NULL, NULL, 0, 0, 0, NULL);
INSERT INTO counts VALUES (1, 'p1', 2, 1, 1);
INSERT INTO contacts_1 VALUES ('d1', true);
INSERT INTO contacts_1 VALUES ('d2', false);
INSERT INTO reports_1 VALUES ('d1', x'c6d5abaaf4579afe54ce26b88fedcfa9');
INSERT INTO sealed_1 VALUES (1234567890123456789, x'7365616c6564207265706f7274');
