// Section 7 of docs/protocol/answers.md: buckets, choices and plaintexts.
import assert from "node:assert/strict";
import test from "node:test";
import { candidates, chosen, decoy, distinct, drawAll, isHeads, padded, plaintexts, readQuestion, secureRandomness } from "../dist/index.js";
import { fromHex, hex } from "../dist/bytes.js";
import { untag, vectors } from "./vectors.js";

const valuesOf = (vector) => (vector.values ?? [vector.value]).map(untag);
const contentOf = (plaintext) =>
  plaintext && new TextDecoder("utf-8", { ignoreBOM: true }).decode(plaintext.subarray(2, 2 + plaintext[0] * 256 + plaintext[1]));

/** All ways to choose one element of each list, the first list changing quickest. */
function picksOf(lists) {
  let all = [[]];
  for (const { length } of [...lists].reverse()) {
    all = all.flatMap((rest) => Array.from({ length: length || 1 }, (_, i) => [BigInt(i), ...rest]));
  }
  return all;
}

test("buckets.json: every value, question and choice gives the plaintext of the vector", () => {
  let checked = 0;
  for (const vector of vectors("buckets")) {
    const question = readQuestion(vector.question);
    assert.ok(question, JSON.stringify(vector.question));
    const values = valuesOf(vector);
    assert.equal(values.length, question.attributes.length);
    const places = values.map(() => BigInt(vector.place ?? 0));
    const draw = vector.draw === undefined ? NaN : Number(vector.draw);
    // Where a condition does not hold every choice is null, and the vector says how many choices there are.
    const lists = candidates(question, values, false, places);
    const picks = lists ? picksOf(lists) : Array((vector.plaintexts ?? [0]).length).fill(values.map(() => 0n));
    const sent = picks.map((each) => contentOf(plaintexts(question, values, vector.size, 1, { places, picks: each, draw })[0]));
    const expected = vector.plaintexts ?? [vector.plaintext];
    assert.deepEqual(sent, expected, JSON.stringify(vector).slice(0, 500));
    assert.deepEqual(sent.map((json) => json && JSON.parse(json)), vector.buckets ?? [vector.bucket]);
    checked += 1;
  }
  assert.ok(checked > 3000);
});

test("choices.json: rounds of several contributions can choose exactly the buckets of the vector", () => {
  for (const vector of vectors("choices")) {
    const question = readQuestion(vector.question);
    const values = valuesOf(vector);
    const places = values.map(() => BigInt(vector.place ?? 0));
    const contributions = Math.max(vector.plaintexts.length, 2);
    // Picks of 0 choose everything there is, in its order.
    const picks = Array(contributions + 3).fill(0n);
    const sent = plaintexts(question, values, vector.size, contributions, { places, picks, draw: 0 }).map(contentOf);
    const lists = candidates(question, values, true, places) ?? [[]];
    const total = lists.reduce((product, list, i) => product * distinct(question.parts[i], list, vector.size).length, 1);
    assert.equal(total, vector.plaintexts.length, JSON.stringify(vector).slice(0, 500));
    assert.deepEqual(sent.slice(0, total).sort(), [...vector.plaintexts].sort());
    assert.ok(sent.slice(total).every((each) => each === null));
  }
});

test("plaintexts.json: what a device pads", () => {
  let checked = 0;
  for (const vector of vectors("plaintexts")) {
    if (!("content" in vector)) continue; // what an aggregator reads
    checked += 1;
    if ("random" in vector) assert.equal(hex(decoy(fromHex(vector.random), vector.size)), vector.padded);
    assert.equal(hex(padded(vector.content, vector.size)), vector.padded);
    assert.equal(padded(vector.content, new TextEncoder().encode(vector.content).length + 1), null);
  }
  assert.ok(checked > 5);
});

test("marks.json: 30 marks in a row are a value, 31 are none, and their neighbours are no marks", () => {
  const question = readQuestion({ kind: "values", columns: ["word"] });
  const isValue = (text) => question.parts[0].element(text, 0) !== null;
  const ranges = vectors("marks").map(({ first, last }) => [parseInt(first, 16), parseInt(last, 16)]);
  const isMark = (point) => ranges.some(([first, last]) => point >= first && point <= last);
  for (const [first, last] of ranges) {
    for (const point of [first - 1, first, last, last + 1]) {
      if (point >= 0xd800 && point < 0xe000) continue;
      assert.ok(isValue(`a${String.fromCodePoint(point).repeat(30)}`));
      assert.equal(isValue(`a${String.fromCodePoint(point).repeat(31)}`), !isMark(point), point.toString(16));
    }
  }
});

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

test("coins.json: 32 bits and a rate", () => {
  for (const { bits, device_rate, heads } of vectors("coins")) assert.equal(isHeads(bits, device_rate), heads);
});
