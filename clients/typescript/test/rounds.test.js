// Which configurations can be read, and what a policy decides.
import assert from "node:assert/strict";
import test from "node:test";
import { AEAD_AES_128_GCM } from "hpke";
import { configurationHash, cost, decide, openKem, readPolicy, readQuestion, readRound, seal } from "../dist/index.js";
import { fromHex, hex } from "../dist/bytes.js";
import { isSmallOrder } from "../dist/public-keys.js";
import { checkAll } from "./checks.js";
import { configuration, KEYS, NOW, ONE, POLICY, PUBLIC_KEY, SUITE, text } from "./fleet.js";

const isReadable = (changes) => readRound(JSON.stringify({ ...configuration(), ...changes }))?.round != null;
const withPlan = (plan) => isReadable({ plan: { ...configuration().plan, ...plan } });

test("a configuration is read as it came", () => {
  const { round } = readRound(text());
  assert.equal(round.name, "q1-0");
  assert.equal(round.text, text());
  assert.equal(round.samplingRate, 0.25);
  assert.ok(isReadable({}));
});

test("unreadable configurations", () => {
  for (const name of Object.keys(configuration())) {
    if (name === "round") continue;
    const { [name]: _, ...rest } = configuration();
    assert.deepEqual(readRound(JSON.stringify(rest)).round, null, name);
  }
  const wrong = [
    { more: 1 }, { version: 2 }, { version: "3" }, { fleet: "" }, { fleet: "-a" }, { fleet: "a".repeat(101) }, { query: "a/b" },
    { query: "a\n" }, { key_id: "é" }, { index: 1 }, { index: -1 }, { index: 0.5 }, { index: "0" }, { plan: null }, { plan: [] },
    { contact_rate: 0 }, { contact_rate: ONE + 1 }, { device_rate: ONE / 2 }, { aggregator_rate: 1.5 }, { bucket_size: 47 },
    { bucket_size: 4097 }, { deadline: "soon" }, { deadline: null }, { public_key: PUBLIC_KEY.toUpperCase().replace(/^./, "A") },
    { public_key: PUBLIC_KEY.slice(2) }, { public_key: "0".repeat(64) }, { question: null }, { question: { kind: "values", columns: [] } },
  ];
  for (const changes of wrong) assert.ok(!isReadable(changes), JSON.stringify(changes));
  assert.equal(readRound(text().replace(/"deadline":[0-9]+/, '"deadline":1e999')).round, null);
  assert.equal(readRound(text().replace("{", '{"__proto__":{},')).round, null);
  for (const plan of [{ threshold: 0 }, { threshold: 100_001 }, { rounds: 0 }, { rounds: 1001 }, { contributions: 0 }, { contributions: null }, { sampling_rate: 0.5 }, { sampling_rate: 0 }, { sampling_rate: "0.25" }, { rounds: 101, contributions: 10 }]) {
    assert.ok(!withPlan(plan), JSON.stringify(plan));
  }
  assert.ok(withPlan({ rounds: 100, contributions: 10, more: 1 }));
  assert.ok(!isReadable({ bucket_size: 4096, plan: { ...configuration().plan, contributions: 12 } }));
});

test("rates: the product is exact, and the contact rate has few digits", () => {
  const read = (changes) => readRound(text(changes)).round;
  assert.ok(read({ contact_rate: (2 ** 20 - 1) * 2 ** 12 }));
  assert.ok(!read({ contact_rate: (2 ** 20 + 1) * 2 ** 11 }));
  assert.ok(read({ contact_rate: 3 * 2 ** 30, aggregator_rate: 12_345_677 }));
  const odd = configuration({ contact_rate: 3, aggregator_rate: 4_000_000_007 % ONE });
  assert.ok(readRound(JSON.stringify(odd)).round);
  odd.plan.sampling_rate *= 1 + 2 ** -52;
  assert.ok(!readRound(JSON.stringify(odd)).round);
  assert.ok(!read({ contact_rate: ONE / 2, plan: { contributions: 2 } }));
});

test("strings without a name are skipped, and deep ones do no harm", () => {
  for (const string of ["", "null", "[]", "{}", '{"round": "é"}', '{"round": {}}', "\ud800", `{"round": "a\ud800"}`]) assert.equal(readRound(string), null);
  assert.equal(readRound('{"round": "a"}').round, null);
  const deep = "[".repeat(50_000) + "]".repeat(50_000);
  const { name, round } = readRound(text().replace('"question":{', `"question":${deep},"other":{`)) ?? {};
  assert.ok(name === undefined || round === null);
});

test("questions: other kinds and fields are refused", () => {
  const good = [
    { kind: "values", columns: ["a", "b"] }, { kind: "bins", column: "a", edges: [0, 1] }, { kind: "cells", column: "a", lower: 0, upper: 1, cells: 2 ** 40 },
    { kind: "below", column: "a", split: 0 }, { kind: "points", column: "a", points: [0, 1] }, { kind: "dates", column: "a", every: "week" },
    { kind: "prefixes", column: "a", length: 1, known: 0, parents: [] }, { kind: "recounted_prefixes", column: "a", length: 3, known: 2, parents: ["th"], texts: ["a"] },
    { kind: "joint", parts: [{ kind: "values", columns: ["a"] }, { kind: "points", column: "b", points: [0, 1] }] },
    { kind: "filtered", question: { kind: "below", column: "a", split: 0 }, where: [{ column: "a", among: ["x"] }, { column: "b", from: "2024-02-29", below: null }] },
    { kind: "values", columns: ["__proto__"] },
  ];
  for (const question of good) {
    assert.ok(readQuestion(question), JSON.stringify(question));
    assert.equal(readQuestion({ ...question, more: 1 }), null);
    for (const name of Object.keys(question)) {
      const { [name]: _, ...rest } = question;
      assert.equal(readQuestion(rest), null, `${name} of ${question.kind}`);
      for (const value of [null, {}, [null], [{}], true]) assert.equal(readQuestion({ ...question, [name]: value }), null);
    }
  }
  const wrong = [
    { kind: "values", columns: ["a", "a"] }, { kind: "values", columns: [""] }, { kind: "values", columns: ["\ud800"] }, { kind: "bins", column: "a", edges: [1, 1] },
    { kind: "cells", column: "a", lower: -1e308, upper: 1e308, cells: 2 }, { kind: "cells", column: "a", lower: 0, upper: 1, cells: 2 ** 40 + 1 },
    { kind: "points", column: "a", points: Array.from({ length: 1001 }, (_, i) => i) }, { kind: "dates", column: "a", every: "year" },
    { kind: "prefixes", column: "a", length: 2, known: 2, parents: [] }, { kind: "prefixes", column: "a", length: 10_001, known: 2, parents: [] },
    { kind: "recounted_prefixes", column: "a", length: 3, known: 2, parents: [], texts: ["ab"] }, { kind: "recounted_prefixes", column: "a", length: 9, known: 5, parents: [], texts: ["e\u0301"] },
    { kind: "joint", parts: [{ kind: "values", columns: ["a"] }] }, { kind: "joint", parts: [{ kind: "below", column: "a", split: 0 }, { kind: "values", columns: ["b"] }] },
    { kind: "joint", parts: [{ kind: "points", column: "a", points: [0, 1] }, { kind: "points", column: "b", points: [0, 1] }] },
    { kind: "joint", parts: [{ kind: "values", columns: ["a"] }, { kind: "values", columns: ["a"] }] },
    { kind: "filtered", question: { kind: "below", column: "a", split: 0 }, where: [] }, { kind: "filtered", question: good[9], where: good[9].where },
    ...[{ from: 1, below: 1 }, { from: null, below: null }, { from: "2024-02-29", below: 1 }, { from: "2024-02-30", below: null }, { from: "12", below: null }, { from: "9007199254740992", below: null }, { from: "9223372036854775809", below: null }, { among: [] }, { among: ["\ud800"] }, { among: [1] }]
      .map((condition) => ({ kind: "filtered", question: { kind: "below", column: "a", split: 0 }, where: [{ column: "b", ...condition }] })),
  ];
  for (const question of wrong) assert.equal(readQuestion(question), null, JSON.stringify(question).slice(0, 200));
});

test("points of small order are known, with and without the highest bit; others are not", () => {
  const small = [
    "0000000000000000000000000000000000000000000000000000000000000000", "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800", "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  ];
  for (const key of small) {
    assert.ok(isSmallOrder(key));
    const high = (parseInt(key.slice(62), 16) | 0x80).toString(16);
    assert.ok(isSmallOrder(key.slice(0, 62) + high));
  }
  assert.ok(!isSmallOrder(PUBLIC_KEY));
  assert.ok(!isSmallOrder(`02${"00".repeat(31)}`));
  assert.ok(!isSmallOrder(`09${"00".repeat(31)}`));
});

test("sealing: the library's own suite opens it, with the configuration's hash and no other", async () => {
  const [plaintext, info] = [new Uint8Array(64).fill(7), await configurationHash(text())];
  const sealed = await seal(await openKem(), [plaintext, plaintext], PUBLIC_KEY, info);
  assert.equal(sealed.length, 2 * (64 + 48));
  for (const at of [0, 112]) {
    const piece = sealed.slice(at, at + 112);
    assert.deepEqual(await SUITE.Open(KEYS, piece.slice(0, 32), piece.slice(32), { info }), plaintext);
    await assert.rejects(SUITE.Open(KEYS, piece.slice(0, 32), piece.slice(32), { info: await configurationHash(`${text()} `) }));
  }
  assert.notDeepEqual(sealed.slice(0, 112), sealed.slice(112));
});

test("sealing: the key schedule is that of RFC 9180, appendix A.1.1", async () => {
  // Encapsulation as in the appendix, whose ephemeral key is given.
  const enc = fromHex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431");
  const shared_secret = fromHex("fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc");
  const kem = { DeserializePublicKey: async () => ({}), Encap: async () => ({ enc, shared_secret }) };
  const info = fromHex("4f6465206f6e2061204772656369616e2055726e");
  const plaintext = fromHex("4265617574792069732074727574682c20747275746820626561757479");
  const sealed = await seal(kem, [plaintext], "00".repeat(32), info);
  assert.equal(hex(sealed.slice(0, 32)), hex(enc));
  const aead = AEAD_AES_128_GCM();
  const [key, nonce] = [fromHex("4531685d41d65f03dc48f6b8302c05b0"), fromHex("56d890e5accaaf011cff4b7d")];
  assert.deepEqual(await aead.Open(key, nonce, new Uint8Array(), sealed.slice(32)), plaintext);
});

test("configurations.json: hashes, names, and what can be read", () => checkAll("configurations"));

test("sealed.json: the library's suite opens them, and ours seals the same with the same ephemeral keys", () => checkAll("sealed"));

// Policies

const policy = ({ table = POLICY.table, ...changes }) =>
  readPolicy({ ...POLICY, ...changes, table: { bounds: POLICY.table.bounds, ...table } });
const TERMS = { rounds: 1, contributions: 1, threshold: 25, contactRate: ONE, deviceRate: ONE, aggregatorRate: ONE / 4 };
const charge = ({ indexes = [0], ...terms } = {}) => ({ terms: { ...TERMS, ...terms }, indexes, time: NOW });
const reason = (changes, policyChanges = {}, charges = {}) => decide(policy(policyChanges), text(changes), new Map(Object.entries(charges)), NOW);

test("decisions: each reason, in order", () => {
  assert.equal(reason({}), null);
  assert.equal(decide(policy({}), "{", new Map(), NOW), "unreadable");
  assert.equal(reason({ deadline: NOW + 34_560_000 }), null);
  assert.equal(reason({ deadline: NOW + 34_560_001 }), "deadline");
  assert.equal(reason({ deadline: NOW - 1e9 }), null);
  assert.equal(reason({}, { pinned_key: PUBLIC_KEY.toUpperCase() }), null);
  assert.equal(reason({}, { pinned_key: "9".repeat(64) }), "key");
  assert.equal(reason({}, { attributes: ["city"] }), "attribute");
  const question = { kind: "filtered", question: { kind: "values", columns: ["country"] }, where: [{ column: "age", from: 18, below: null }] };
  assert.equal(reason({ question }), null);
  assert.equal(reason({ question }, { attributes: ["country"] }), "filter");
  assert.equal(reason({ question }, { attributes: ["country", "age"] }), null);
  assert.equal(reason({ question }, { attributes: ["country"], filters: ["age"] }), null);
  assert.equal(reason({ question }, { filters: [] }), "filter");
  assert.equal(reason({ question }, { attributes: ["country", "age"], filters: ["country"] }), "filter");
  assert.equal(reason({ aggregator_rate: ONE, device_rate: ONE / 4 }, { coins: "aggregator" }), "coins");
  assert.equal(reason({ aggregator_rate: ONE, device_rate: ONE / 4 }), null);
  assert.equal(reason({ plan: { threshold: 4 } }), "threshold");
  assert.equal(reason({ plan: { contributions: 11 } }), "contributions");
  assert.equal(reason({ aggregator_rate: ONE / 2 }), null);
  assert.equal(reason({ aggregator_rate: ONE / 2 + 1 }), "limit");
  assert.equal(reason({ aggregator_rate: ONE / 4, plan: { rounds: 3 } }), null);
  assert.equal(reason({ aggregator_rate: ONE / 2, plan: { rounds: 3 } }), "limit");
  assert.equal(reason({ aggregator_rate: ONE / 8, plan: { threshold: 19, rounds: 1 } }), null);
  assert.equal(reason({ aggregator_rate: ONE / 64, plan: { threshold: 19, rounds: 5 } }), "limit");
  assert.equal(reason({}, {}, { "default/q1": charge({ threshold: 24 }) }), "terms");
  assert.equal(reason({}, {}, { "default/q1": charge() }), "answered");
  assert.equal(reason({}, {}, { "default/q1": charge({ indexes: [] }) }), null);
  const full = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`default/o${i}`, charge()]));
  assert.equal(reason({}, {}, full), null);
  assert.equal(reason({}, {}, { ...full, "other/q1": charge() }), "budget");
  assert.equal(reason({}, {}, { ...full, "default/q1": charge({ indexes: [] }) }), null);
});

test("a query may cost more than a period has room for only if it is alone", () => {
  const table = { rounds: [1000], rows: [{ threshold: 1, limits: [ONE - 1], rates: [ONE / 8], costs: [1] }] };
  assert.equal(cost(policy({ table }), TERMS), 1_000_000_001);
  assert.equal(reason({}, { table }), null);
  assert.equal(reason({}, { table }, { "default/o": charge({ aggregatorRate: 1 }) }), "budget");
  assert.equal(reason({}, { table: { rounds: [1], rows: [{ ...table.rows[0], threshold: 99_999 }] } }), "limit");
});

test("the protecting rate: which coins a device relies on, rounded up", () => {
  const table = { rounds: [1], rows: [{ threshold: 1, limits: [ONE - 1], rates: [1, 2, 3, ONE], costs: [1, 2, 3, 4] }] };
  const terms = (contactRate, deviceRate, aggregatorRate) => ({ ...TERMS, contactRate, deviceRate, aggregatorRate });
  const at = (changes, ...rates) => cost(policy({ table, ...changes }), terms(...rates));
  assert.equal(at({ hide_from_contact_list: true }, 1, ONE, 3), 3);
  assert.equal(at({ hide_from_contact_list: true }, 1, 2, ONE), 2);
  assert.equal(at({ hide_from_contact_list: false }, ONE / 2, ONE, 3), 2);
  assert.equal(at({ hide_from_contact_list: false }, ONE / 2, ONE, 2), 1);
  assert.equal(at({ hide_from_contact_list: false }, 1, 1, ONE), 1);
  assert.equal(at({ coins: "aggregator", hide_from_contact_list: false }, 1, ONE, 3), 3);
});

test("policies.json: every limit, rate, cost and decision", async () => {
  assert.ok((await checkAll("policies")) >= 1000);
});

test("policy-checks.json: which files are accepted", () => checkAll("policy-checks"));

test("policy-files.json: a file is refused without its table, and with a table that was made for others", () => checkAll("policy-files"));
