// What scripts write is current, and what they pack is read again.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { moduleOf, packRows } from "../scripts/default-policy.mjs";
import { defaultPolicy } from "../dist/default-policy.js";
import { unpackRows } from "../dist/policy-table.js";
import { POLICY } from "./fleet.js";

const path = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));

test("the modules that scripts write are current", () => {
  for (const script of ["marks", "default-policy"]) execFileSync(process.execPath, [path(`scripts/${script}.mjs`), "--check"]);
});

test("a packed table is read again", () => {
  assert.deepEqual(unpackRows(...packRows(POLICY.table.rows)), POLICY.table.rows);
  assert.ok(moduleOf(POLICY).includes("period_days: 30"));
  const numbers = fc.array(fc.nat({ max: 2 ** 32 }), { minLength: 1, maxLength: 20 });
  const cost = fc.tuple(fc.nat({ max: 999 }), fc.nat({ max: 7 })).map(([digits, zeros]) => digits * 10 ** zeros);
  const costs = fc.array(cost, { minLength: 1, maxLength: 20 });
  const row = fc.record({ threshold: fc.nat({ max: 100_000 }), limits: numbers, rates: numbers, costs }, { noNullPrototype: true });
  fc.assert(fc.property(fc.array(row, { minLength: 1 }), (rows) => assert.deepEqual(unpackRows(...packRows(rows)), rows)));
});

test("the default policy is the one that Python has", () => {
  const python = JSON.parse(readFileSync(path("../../src/thresher/device/default_policy.json"), "utf8"));
  assert.deepEqual(defaultPolicy(), python);
});

test("the device is below its size, needs one dependency, and has nothing that a strict CSP forbids", () => {
  assert.match(execFileSync(process.execPath, [path("scripts/size.mjs")], { encoding: "utf8" }), /bytes of gzip/);
  const { dependencies } = JSON.parse(readFileSync(path("package.json"), "utf8"));
  assert.deepEqual(Object.keys(dependencies), ["hpke"]);
});
