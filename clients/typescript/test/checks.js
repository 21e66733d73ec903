// Checks of the vectors in docs/protocol/vectors, one for each file. A check throws where a vector is wrong.
import assert from "node:assert/strict";
import { KEM_DHKEM_X25519_HKDF_SHA256 } from "hpke";
import {
  candidates, configurationHash, cost, decoy, distinct, InvalidSetting, isHeads, padded, plaintexts, readPolicy,
  readQuestion, readRound, refusal, seal,
} from "../dist/index.js";
import { fromHex, hex, utf8 } from "../dist/bytes.js";
import { limit, protectingRate } from "../dist/policy.js";
import { SUITE } from "./fleet.js";
import { play } from "./traces.js";
import { untag, vectors } from "./vectors.js";

/** JavaScript reads a member that is missing as undefined, which a check may not notice. */
function hasMembers(vector, names) {
  for (const name of names.split(" ")) assert.ok(Object.hasOwn(vector, name), `${name} is missing`);
}

// docs/protocol/answers.md

const contentOf = (plaintext) =>
  plaintext && new TextDecoder("utf-8", { ignoreBOM: true }).decode(plaintext.subarray(2, 2 + plaintext[0] * 256 + plaintext[1]));
const parsed = (json) => json && JSON.parse(json);

function askedBy(vector) {
  hasMembers(vector, "question size");
  const question = readQuestion(vector.question);
  assert.ok(question, "the question cannot be read");
  const values = (vector.values ?? [vector.value]).map(untag);
  assert.equal(values.length, question.attributes.length);
  return { question, values, places: values.map(() => BigInt(vector.place ?? 0)) };
}

/** All ways to choose one of so many elements of each list, the first list changing quickest. */
function picksOf(lengths) {
  let all = [[]];
  for (const length of [...lengths].reverse()) {
    all = all.flatMap((rest) => Array.from({ length }, (_, i) => [BigInt(i), ...rest]));
  }
  return all;
}

/** How many choices a part has, also where the condition of another attribute does not hold. */
function choicesOf(part, i, { question, values, places }) {
  const conditions = question.conditions.map((each) => (each.column === part.column ? each : { ...each, holds: () => true }));
  return candidates({ ...question, conditions }, values, false, places)?.[i].length || 1;
}

function buckets(vector) {
  const asked = askedBy(vector);
  const { question, values, places } = asked;
  assert.equal("draw" in vector, question.randomised);
  const draw = Number(vector.draw);
  const sent = picksOf(question.parts.map((part, i) => choicesOf(part, i, asked)))
    .map((picks) => contentOf(plaintexts(question, values, vector.size, 1, { places, picks, draw })[0]));
  assert.deepEqual(sent, vector.plaintexts ?? [vector.plaintext]);
  assert.deepEqual(sent.map(parsed), vector.buckets ?? [vector.bucket]);
}

function choices(vector) {
  hasMembers(vector, "buckets plaintexts");
  const { question, values, places } = askedBy(vector);
  const contributions = Math.max(vector.plaintexts.length, 2);
  // Picks of 0 choose everything there is, in its order.
  const picks = Array(contributions + 3).fill(0n);
  const sent = plaintexts(question, values, vector.size, contributions, { places, picks, draw: 0 }).map(contentOf);
  const lists = candidates(question, values, true, places) ?? [[]];
  const total = lists.reduce((product, list, i) => product * distinct(question.parts[i], list, vector.size).length, 1);
  assert.equal(total, vector.plaintexts.length);
  assert.deepEqual(sent.slice(0, total).sort(), [...vector.plaintexts].sort());
  assert.ok(sent.slice(total).every((each) => each === null));
  assert.deepEqual(vector.plaintexts.map(parsed), vector.buckets);
}

/** What a device pads. Only an aggregator reads plaintexts (`read`, `wrong`), and this client is a device. */
function plaintextsOf(vector) {
  hasMembers(vector, "content size padded");
  const { content, size } = vector;
  assert.equal("random" in vector, content.startsWith('{"decoy"'));
  if ("random" in vector) assert.equal(hex(decoy(fromHex(vector.random), size)), vector.padded);
  assert.equal(hex(padded(content, size)), vector.padded);
  assert.equal(padded(content, utf8(content).length + 1), null);
}

const word = readQuestion({ kind: "values", columns: ["word"] }).parts[0];
const isValue = (text) => word.element(text, 0) !== null;

/** 30 marks in a row are a value, 31 are none. What is beside a range of marks is no mark. */
function marks({ first, last }) {
  const range = [parseInt(first, 16), parseInt(last, 16)];
  assert.ok(range[0] <= range[1]);
  for (let point = range[0] - 1; point <= range[1] + 1; point += 1) {
    if (point >= 0xd800 && point < 0xe000) continue;
    assert.ok(isValue(`a${String.fromCodePoint(point).repeat(30)}`));
    const isMark = point >= range[0] && point <= range[1];
    assert.equal(isValue(`a${String.fromCodePoint(point).repeat(31)}`), !isMark, point.toString(16));
  }
}

// docs/protocol/rounds.md

async function configurations(vector) {
  hasMembers(vector, "text hash round readable");
  const listed = readRound(vector.text);
  assert.equal(vector.text.isWellFormed(), vector.hash !== null);
  if (vector.hash !== null) assert.equal(hex(await configurationHash(vector.text)), vector.hash);
  assert.equal(listed?.name ?? null, vector.round);
  assert.equal(listed?.round != null, vector.readable);
}

function coins(vector) {
  hasMembers(vector, "bits device_rate heads");
  assert.equal(isHeads(vector.bits, vector.device_rate), vector.heads);
}

/** A key encapsulation that takes these secrets in place of random ones. */
function sealingWith(secrets) {
  const kem = KEM_DHKEM_X25519_HKDF_SHA256();
  const left = [...secrets];
  return { ...kem, GenerateKeyPair: async () => SUITE.DeserializePrivateKey(fromHex(left.shift()), true).then(pairOf) };
}

async function pairOf(privateKey) {
  const { kty, crv, x } = await crypto.subtle.exportKey("jwk", privateKey);
  return { privateKey, publicKey: await crypto.subtle.importKey("jwk", { kty, crv, x }, { name: "X25519" }, true, []) };
}

/** The library's suite opens what is sealed, and the client seals the same with the same ephemeral keys. */
async function sealed(vector) {
  hasMembers(vector, "private_key text hash sealed plaintexts");
  const info = await configurationHash(vector.text);
  assert.equal(hex(info), vector.hash);
  const receiver = await SUITE.DeserializePrivateKey(fromHex(vector.private_key), true);
  const open = async (piece) => hex(await SUITE.Open(receiver, piece.slice(0, 32), piece.slice(32), { info }));
  const [bytes, size] = [fromHex(vector.sealed), readRound(vector.text).round.bucketSize + 48];
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size));
  if (vector.plaintexts === null) {
    for (const parts of [[bytes], pieces]) await assert.rejects(Promise.all(parts.map(open)));
    return;
  }
  assert.deepEqual(await Promise.all(pieces.map(open)), vector.plaintexts);
  const again = await seal(sealingWith(vector.ephemeral_keys), vector.plaintexts.map(fromHex), vector.public_key, info);
  assert.equal(hex(again), vector.sealed);
}

// docs/protocol/policy.md

const TERMS = "rounds contributions threshold contact_rate device_rate aggregator_rate";
const policies = new Map(vectors("policy-files").map(({ name, policy }) => [name, readPolicy(policy)]));
const decisions = vectors("policies");

function termsOf(vector) {
  hasMembers(vector, TERMS);
  const { rounds, contributions, threshold, contact_rate, device_rate, aggregator_rate } = vector;
  return { rounds, contributions, threshold, contactRate: contact_rate, deviceRate: device_rate, aggregatorRate: aggregator_rate };
}

function chargeOf(vector, time) {
  hasMembers(vector, "query indexes");
  return [vector.query, { terms: termsOf(vector), indexes: vector.indexes, time }];
}

function decided(vector, policy) {
  hasMembers(vector, "now round charged limit rate cost reason");
  const { round, now } = vector;
  hasMembers(round, "fleet query index deadline public_key question");
  const charges = new Map(vector.charged.map((each) => chargeOf(each, now)));
  const name = `${round.fleet}/${round.query}`;
  const others = [...charges].filter(([query]) => query !== name).map(([, charge]) => charge);
  const terms = termsOf(round);
  const readable = { ...round, terms, question: readQuestion(round.question), publicKey: round.public_key };
  assert.equal(limit(policy, terms), vector.limit);
  assert.equal(protectingRate(policy, terms), vector.rate);
  assert.equal(cost(policy, terms), vector.cost);
  assert.equal(refusal(policy, readable, charges.get(name), others, now), vector.reason);
}

function policyChecks(vector) {
  hasMembers(vector, "policy accepted");
  if (vector.accepted) readPolicy(vector.policy);
  else assert.throws(() => readPolicy(vector.policy), (error) => error instanceof InvalidSetting && error.setting.startsWith("policy."));
}

/** A file is read as it is, is refused without its table, and decides what the vectors with its name say. */
function policyFiles({ name, policy }) {
  assert.deepEqual(readPolicy(policy), policy);
  const { table, ...rest } = policy;
  for (const wrong of [rest, { ...policy, max_epsilon: policy.max_epsilon / 2 }, { ...policy, table: { ...table, bounds: undefined } }]) {
    assert.throws(() => readPolicy(wrong), (error) => error.setting === "policy.table");
  }
  const own = decisions.filter((vector) => vector.policy === name);
  assert.ok(own.length > 0, "no vector of policies.json names it");
  for (const vector of own) decided(vector, policy);
}

/** The check of each file. */
export const checks = {
  buckets, choices, plaintexts: plaintextsOf, marks, configurations, coins, sealed,
  policies: (vector) => decided(vector, policies.get(vector.policy)),
  "policy-checks": policyChecks, "policy-files": policyFiles, traces: play,
};

/** Checks all vectors of a file; returns how many there are. */
export async function checkAll(name, all = vectors(name)) {
  for (const vector of all) {
    try {
      await checks[name](vector);
    } catch (error) {
      throw new Error(`${name}.json: ${JSON.stringify(vector).slice(0, 900)}`, { cause: error });
    }
  }
  return all.length;
}
