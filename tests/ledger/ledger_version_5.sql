-- A ledger as version 5 wrote it: two charges, one of them with two rounds reserved.
PRAGMA application_id = 1414025811;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL,
    created TEXT NOT NULL, unit TEXT
, composition TEXT NOT NULL DEFAULT 'sum', renyi_order TEXT, delta_plain TEXT, delta_renyi TEXT, delta_atom TEXT, data_set TEXT, period TEXT, current_period INTEGER NOT NULL DEFAULT 0, sum_epsilon TEXT NOT NULL DEFAULT '0', sum_delta TEXT NOT NULL DEFAULT '0', sum_renyi TEXT NOT NULL DEFAULT '0', sum_bad TEXT NOT NULL DEFAULT '0');
INSERT INTO "budget" VALUES(1,'3.0','1e-06','replace','2026-11-18T16:48:42.012561+00:00','column:user_id','adaptive','9.06445','1e-07','8e-07','1e-07','visits',NULL,0,'2.0','2E-8','0.204738763862753084','5.5401488997658448E-9');
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reference TEXT NOT NULL UNIQUE, time TEXT NOT NULL, what TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL, rounds INTEGER NOT NULL, unit TEXT
, sampling_rate TEXT, threshold INTEGER, cut INTEGER, renyi TEXT NOT NULL DEFAULT '0.0', bad TEXT NOT NULL DEFAULT '0.0', drawn INTEGER NOT NULL DEFAULT 0, given_back INTEGER NOT NULL DEFAULT 0, ended TEXT, contributions INTEGER NOT NULL DEFAULT 1);
INSERT INTO "charges" VALUES(1,'first','2026-11-18T16:48:55.691949+00:00','histogram of tags','1.0','1e-08','replace',1,'column:user_id','0.23118215572321787',22,28,'0.09882451581393294','2.570208087730058e-09',1,0,'2026-11-18T16:48:55.691949+00:00',3);
INSERT INTO "charges" VALUES(2,'second','2026-11-18T16:48:58.501756+00:00','heavy_hitters of page, trie','1.0','1e-08','replace',4,'column:user_id','0.20093633187934756',20,26,'0.026478562012205036','7.424852030089467e-10',2,0,NULL,1);
CREATE TABLE draws (
    charge INTEGER NOT NULL, position INTEGER NOT NULL, time TEXT NOT NULL, period INTEGER NOT NULL,
    PRIMARY KEY (charge, position)
) WITHOUT ROWID;
INSERT INTO "draws" VALUES(1,0,'2026-11-18T16:48:55.691949+00:00',0);
INSERT INTO "draws" VALUES(2,0,'2026-11-18T16:48:58.501756+00:00',0);
INSERT INTO "draws" VALUES(2,1,'2026-11-18T16:48:58.501756+00:00',0);
CREATE TABLE promises (id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, epsilon TEXT NOT NULL);
INSERT INTO "promises" VALUES(1,'2026-11-18T16:48:42.012561+00:00','3.0');
CREATE TABLE same_units (unit TEXT PRIMARY KEY);
CREATE INDEX open_charges ON charges (id) WHERE ended IS NULL;
CREATE INDEX draws_of_periods ON draws (period);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('promises',1);
INSERT INTO "sqlite_sequence" VALUES('charges',2);
COMMIT;
