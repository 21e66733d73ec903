// Whatever a server sends and whatever an app holds: no error, no other size, nothing inherited.
import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { drawAll, plaintexts, readEnrolled, readQuestion, readRound, readVisited, secureRandomness } from "../dist/index.js";
import { parseJson } from "../dist/objects.js";
import { configuration, text } from "./fleet.js";

const QUESTIONS = [
  { kind: "values", columns: ["a", "b"] },
  { kind: "bins", column: "a", edges: [-1, 0, 1e300] },
  { kind: "cells", column: "a", lower: -5, upper: 5, cells: 7 },
  { kind: "below", column: "a", split: 0 },
  { kind: "points", column: "a", points: [-1, 0, 1] },
  { kind: "dates", column: "a", every: "week" },
  { kind: "prefixes", column: "a", length: 3, known: 1, parents: ["a", "\u0301", "\ud83d\ude00"] },
  { kind: "recounted_prefixes", column: "a", length: 3, known: 2, parents: ["ab"], texts: ["x", ""] },
  { kind: "joint", parts: [{ kind: "values", columns: ["a"] }, { kind: "dates", column: "b", every: "month" }] },
  { kind: "filtered", question: { kind: "values", columns: ["a"] }, where: [{ column: "a", among: ["1"] }, { column: "b", from: 0, below: null }] },
].map(readQuestion);

const single = fc.oneof(
  fc.string({ unit: "binary" }), fc.double(), fc.bigInt(), fc.boolean(), fc.constantFrom(null, undefined), fc.date({ noInvalidDate: false }),
  fc.string().map((each) => `${each}\ud800`), fc.object(), fc.func(fc.anything()), fc.constant(Symbol("s")),
);
const held = fc.oneof(single, fc.array(single), single.map((each) => Array(1001).fill(each)), fc.anything());

test("any value, in any question and any round, is one plaintext of the round's size for each contribution, or a decoy", () => {
  fc.assert(
    fc.property(fc.constantFrom(...QUESTIONS), held, held, fc.constantFrom(1, 2, 5), fc.constantFrom(48, 64), (question, a, b, contributions, size) => {
      const several = question.randomised ? 1 : contributions;
      const draws = drawAll({ deviceRate: 1, contributions: several }, question.parts.length, question.attributes.length, secureRandomness);
      const found = plaintexts(question, [a, b].slice(0, question.attributes.length), size, several, draws);
      assert.equal(found.length, several);
      assert.ok(found.every((each) => each === null || each.length === size));
      const kinds = new Set(found.filter((each) => each !== null).map(String));
      assert.equal(kinds.size, found.filter((each) => each !== null).length);
    }),
    { numRuns: 300 },
  );
});

test("any JSON of a server is read or refused, and never an error", () => {
  fc.assert(
    fc.property(fc.json(), fc.constantFrom(...Object.keys(configuration())), (json, name) => {
      readRound(json);
      readQuestion(parseJson(json));
      readVisited(parseJson(json));
      readEnrolled(parseJson(json));
      const changed = text().replace(new RegExp(`"${name}":("[^"]*"|[-0-9.e]+|\\{)`), (whole, value) => (value === "{" ? whole : `"${name}":${json}`));
      readRound(changed);
    }),
    { numRuns: 500 },
  );
});

test("a page that changes Object.prototype changes nothing", () => {
  const inherited = { contributions: 5, more: 1, identity: "x", token: "evil", round: "evil", version: 2, among: ["x"] };
  for (const [name, value] of Object.entries(inherited)) Object.defineProperty(Object.prototype, name, { value, configurable: true, writable: true });
  try {
    assert.equal(readRound(text()).round.terms.contributions, 1);
    assert.equal(readRound("{}"), null);
    assert.equal(readEnrolled(parseJson("{}")), null);
    assert.equal(readVisited(parseJson('{"reports": [], "rounds": [], "come_back": 1}')), null);
    assert.equal(readRound('{"__proto__": {"round": "a"}}'), null);
  } finally {
    for (const name of Object.keys(inherited)) delete Object.prototype[name];
  }
});
