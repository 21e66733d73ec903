// What scripts write is current, and what they pack is read again.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { moduleOf, packTable } from "../scripts/default-policy.mjs";
import { unpackTable } from "../dist/policy-table.js";
import { POLICY } from "./fleet.js";

const path = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));

test("the modules that scripts write are current", () => {
  for (const script of ["marks", "default-policy"]) execFileSync(process.execPath, [path(`scripts/${script}.mjs`), "--check"]);
});

test("a packed table is read again", () => {
  assert.deepEqual(unpackTable(packTable(POLICY.table)), POLICY.table);
  assert.ok(moduleOf(POLICY).includes("period_days: 30"));
  const numbers = fc.array(fc.nat({ max: 2 ** 32 }), { minLength: 1, maxLength: 20 });
  const row = fc.record({ threshold: fc.nat({ max: 100_000 }), limits: numbers, rates: numbers, costs: numbers }, { noNullPrototype: true });
  fc.assert(fc.property(fc.record({ rounds: numbers, rows: fc.array(row) }, { noNullPrototype: true }), (table) => {
    assert.deepEqual(unpackTable(packTable(table)), table);
  }));
});

test("the device is below its size, needs one dependency, and has nothing that a strict CSP forbids", () => {
  assert.match(execFileSync(process.execPath, [path("scripts/size.mjs")], { encoding: "utf8" }), /bytes of gzip/);
  const { dependencies } = JSON.parse(readFileSync(path("package.json"), "utf8"));
  assert.deepEqual(Object.keys(dependencies), ["hpke"]);
});
