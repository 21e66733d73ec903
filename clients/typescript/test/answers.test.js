// Section 7 of docs/protocol/answers.md: buckets, choices and plaintexts.
import assert from "node:assert/strict";
import test from "node:test";
import { chosen, drawAll, readQuestion, secureRandomness } from "../dist/index.js";
import { checkAll } from "./checks.js";
import { vectors } from "./vectors.js";

test("buckets.json: every value, question and choice gives the plaintext of the vector", async () => {
  assert.ok((await checkAll("buckets")) > 3000);
});

test("choices.json: rounds of several contributions can choose exactly the buckets of the vector", async () => {
  assert.ok((await checkAll("choices")) > 100);
});

test("plaintexts.json: what a device pads", async () => {
  const ofDevices = vectors("plaintexts").filter((vector) => "content" in vector); // the others are for aggregators
  assert.ok((await checkAll("plaintexts", ofDevices)) > 5);
});

test("marks.json: 30 marks in a row are a value, 31 are none, and their neighbours are no marks", () => checkAll("marks"));

test("chosen: all ordered selections are equally likely", () => {
  const seen = new Map();
  for (let a = 0n; a < 12n; a += 1n) {
    for (let b = 0n; b < 12n; b += 1n) {
      const key = JSON.stringify(chosen(3n, [a, b]).map(String));
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
  }
  assert.equal(seen.size, 6);
  assert.deepEqual(new Set(seen.values()), new Set([24]));
  assert.deepEqual(chosen(1n, [0n, 0n, 0n]), [0n, null, null]);
  assert.deepEqual(chosen(1n, [1n, 0n, 0n]), [null, 0n, null]);
});

test("a Date is a time on the device's clock, and an impossible one is no value", () => {
  const question = readQuestion({ kind: "values", columns: ["at"] });
  const text = (value) => question.parts[0].element(value, 0);
  assert.equal(text(new Date(2024, 1, 29, 23, 59, 58)), "2024-02-29T23:59:58");
  assert.equal(text(new Date(2024, 1, 29, 23, 59, 58, 7)), "2024-02-29T23:59:58.007000");
  assert.equal(text(new Date(NaN)), null);
  assert.equal(text(new Date(-1e15)), null);
  assert.equal(text(new Date(8e15)), null);
  assert.equal(text(Object.create(Date.prototype)), null);
});

test("draws: always the same number of bits, and coins compare whole numbers", () => {
  const count = (round, parts, attributes) => {
    let bytes = 0;
    drawAll(round, parts, attributes, (filled) => { bytes += filled.length; secureRandomness(filled); });
    return bytes;
  };
  assert.equal(count({ deviceRate: 2 ** 32, contributions: 1 }, 1, 1), 24 + 24 + 7 + 16);
  assert.equal(count({ deviceRate: 5, contributions: 3 }, 2, 3), 3 * 4 + 3 * 24 + 3 * 20 + 7 + 3 * 16);
  const headsAt = (number) => {
    let first = true;
    return drawAll({ deviceRate: 1000, contributions: 1 }, 1, 1, (bytes) => {
      if (first) new DataView(bytes.buffer).setUint32(0, number);
      first = false;
    }).heads[0];
  };
  assert.deepEqual([0, 999, 1000, 2 ** 32 - 1].map(headsAt), [true, true, false, false]);
  const { draw } = drawAll({ deviceRate: 2 ** 32, contributions: 1 }, 1, 1, (bytes) => bytes.fill(255));
  assert.equal(draw, 1 - 2 ** -53);
});

test("coins.json: 32 bits and a rate", () => checkAll("coins"));
