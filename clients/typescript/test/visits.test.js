// A visit from end to end, with a server in memory.
import assert from "node:assert/strict";
import test from "node:test";
import * as noble from "@panva/hpke-noble";
import { InvalidFormat, InvalidSetting, MemoryState, ServerUnavailable, StoreUnavailable, Unauthorised } from "../dist/index.js";
import { Clock, configuration, deviceOf, newIdentity, NOW, ONE, opened, POLICY, problem, Server, stateOf, text } from "./fleet.js";

test("a visit enrols, answers, seals and hands in; the next one has nothing to do", async () => {
  const server = new Server();
  server.open(text());
  const device = deviceOf(server);
  assert.deepEqual(await device.visit(), [{ round: "q1-0", status: "taken", reason: null }]);
  assert.deepEqual(server.requests.map(({ path }) => path), ["/v2/devices", "/v2/visit", "/v2/visit"]);
  assert.deepEqual(server.requests.map(({ body }) => body.rounds), [undefined, true, false]);
  assert.match(server.requests[1].headers["thresher-nonce"], /^[0-9a-f]{32}$/);
  assert.equal(server.requests[0].headers["thresher-nonce"], undefined);
  assert.deepEqual(await opened(server.reports("q1-0")[0], text()), [["fr"]]);
  assert.deepEqual(await device.visit(), []);
  assert.equal(server.requests.length, 4);
  const { token, records, charges } = await stateOf(device);
  assert.equal(token, "token-1");
  assert.deepEqual(records, [["q1-0", { status: "taken", deadline: NOW + 86_400, time: NOW }]]);
  assert.equal(charges.length, 1);
  assert.match(charges[0][0], /^[0-9a-f]{64}$/);
  assert.deepEqual(charges[0][1].indexes, [0]);
});

test("what is kept has no value in it, whatever is held", async () => {
  const server = new Server();
  server.open(text());
  const device = deviceOf(server, { attributes: { country: "canary-value" } });
  await device.visit();
  assert.ok(!(await device.kept.read()).includes("canary"));
  assert.ok(!JSON.stringify(server.requests).includes("canary"));
});

test("values may be functions; one that throws, rejects, hangs or is not there is a decoy, and nothing else changes", async () => {
  const held = {
    value: "fr",
    function: () => "fr",
    async: async () => "fr",
    promise: Promise.resolve("fr"),
    throws: () => { throw new Error("canary"); },
    rejects: async () => { throw new Error("canary"); },
    hangs: () => new Promise(() => {}),
    missing: undefined,
    object: { toString: () => "fr" },
    proxy: new Proxy([], { get: () => { throw new Error("canary"); } }),
    long: "x".repeat(100),
    list: ["fr", "fr"],
    empty: [],
  };
  const sizes = new Set();
  for (const [name, country] of Object.entries(held)) {
    const server = new Server();
    server.open(text());
    const device = deviceOf(server, { attributes: { country }, readingSeconds: 0.02 });
    assert.deepEqual(await device.visit(), [{ round: "q1-0", status: "taken", reason: null }], name);
    const [sealed] = server.reports("q1-0");
    const [bucket] = await opened(sealed, text());
    const isValue = ["value", "function", "async", "promise", "list"].includes(name);
    assert.deepEqual(Array.isArray(bucket) ? bucket : Object.keys(bucket), isValue ? ["fr"] : ["decoy"], name);
    sizes.add(sealed.length);
    sizes.add(JSON.stringify(await device.log()).length);
  }
  assert.equal(sizes.size, 2);
});

test("all attributes may come from one function, and names of prototypes are no values", async () => {
  const columns = ["__proto__", "constructor", "toString"];
  const round = text({ question: { kind: "values", columns }, bucket_size: 128 });
  for (const [attributes, expected] of [
    [{}, null],
    [() => ({}), null],
    [async () => JSON.parse('{"__proto__": "a", "constructor": "b", "toString": "c"}'), ["a", "b", "c"]],
    [() => { throw new Error(); }, null],
    [() => null, null],
  ]) {
    const server = new Server();
    server.open(round);
    await deviceOf(server, { attributes }).visit();
    const [bucket] = await opened(server.reports("q1-0")[0], round, 128);
    assert.deepEqual(Array.isArray(bucket) ? bucket : null, expected);
  }
});

test("each function is called once a visit, and only for rounds that are answered", async () => {
  const server = new Server();
  server.open(text(), text({ query: "q2" }), text({ query: "q3", question: { kind: "values", columns: ["secret"] } }));
  const calls = [];
  const attributes = { country: () => calls.push("country"), secret: () => calls.push("secret"), other: () => calls.push("other") };
  await deviceOf(server, { attributes, policy: { ...POLICY, attributes: ["country"] } }).visit();
  assert.deepEqual(calls, ["country"]);
});

test("a device coin: tails is a decoy; the coin's rate decides how often", async () => {
  const round = text({ device_rate: ONE / 2, aggregator_rate: ONE });
  for (const [first, expected] of [[0x7f, true], [0x80, false]]) {
    const server = new Server();
    server.open(round);
    await deviceOf(server, { randomness: (bytes) => bytes.fill(first) }).visit();
    const [bucket] = await opened(server.reports("q1-0")[0], round);
    assert.equal(Array.isArray(bucket), expected);
  }
});

test("several contributions: as many sealed pieces, distinct values, decoys for what is missing", async () => {
  const round = text({ plan: { contributions: 4 }, aggregator_rate: ONE / 8 });
  const server = new Server();
  server.open(round);
  await deviceOf(server, { attributes: { country: ["fr", "de", "fr"] } }).visit();
  const pieces = await opened(server.reports("q1-0")[0], round);
  assert.deepEqual(pieces.map((each) => (Array.isArray(each) ? each[0] : "decoy")).sort(), ["de", "decoy", "decoy", "fr"]);
});

test("the fallback seals for the same key, and is used where WebCrypto has no X25519", async (context) => {
  const generate = crypto.subtle.generateKey.bind(crypto.subtle);
  const reject = async (algorithm, ...rest) => {
    if (algorithm.name === "X25519") throw new DOMException("", "NotSupportedError");
    return generate(algorithm, ...rest);
  };
  context.mock.method(crypto.subtle, "generateKey", reject);
  for (const fallback of [noble, undefined]) {
    const server = new Server();
    server.open(text());
    await deviceOf(server, fallback ? { fallback } : {}).visit();
    assert.deepEqual(await opened(server.reports("q1-0")[0], text()), [["fr"]]);
  }
});

test("a query's rounds are answered once each, under the same terms", async () => {
  const server = new Server();
  const plan = { rounds: 2 };
  server.open(text({ plan }), text({ plan, index: 1 }), JSON.stringify({ ...configuration({ plan }), round: "again" }));
  server.open(text({ plan: { rounds: 2, threshold: 26 }, index: 1, round: "other" }));
  const reasons = Object.fromEntries((await deviceOf(server).visit()).map(({ round, reason }) => [round, reason]));
  assert.deepEqual(reasons, { "q1-0": null, "q1-1": null, again: "answered", other: "terms" });
});

test("256 new rounds a visit are looked at, and strings without a name are skipped", async () => {
  const server = new Server();
  const bad = Array.from({ length: 300 }, (_, i) => JSON.stringify({ round: `bad-${i}` }));
  server.open("", "[]", "null", '"q"', "{", '{"round": ""}', '{"round": 7}', '{"round": "a\\ud800"}', "\ud800", "[".repeat(100_000), ...bad);
  server.after = (request) => (request.body.rounds === true ? new Response(JSON.stringify({
    version: 2, reports: [], rounds: [...server.rounds, 7, null].filter((each) => typeof each === "string"), come_back: 1,
  }), { headers: { "content-type": "application/json" } }) : null);
  const device = deviceOf(server);
  const outcomes = await device.visit();
  assert.equal(outcomes.length, 256);
  assert.ok(outcomes.every(({ status, reason }) => status === "refused" && reason === "unreadable"));
  assert.equal((await device.visit()).length, 44);
});

test("10,000 rounds are remembered at most", async () => {
  const server = new Server();
  const device = deviceOf(server);
  await device.visit();
  const state = JSON.parse(await device.kept.read());
  state.records = Array.from({ length: 9_999 }, (_, i) => [`r${i}`, { status: "taken", deadline: NOW + 1e6, time: NOW }]);
  await device.kept.replace(await device.kept.read(), JSON.stringify(state));
  server.open(text(), text({ query: "q2" }));
  assert.deepEqual((await device.visit()).map(({ round }) => round), ["q1-0"]);
});

test("reports that do not fit into one request are handed in by further ones", async () => {
  const server = new Server();
  const changes = { bucket_size: 4096, plan: { contributions: 10 }, aggregator_rate: ONE / 64 };
  for (let i = 0; i < 10; i += 1) server.open(text({ ...changes, query: `q${i}` }));
  const outcomes = await deviceOf(server).visit();
  assert.deepEqual(new Set(outcomes.map(({ status }) => status)), new Set(["taken"]));
  assert.equal(outcomes.length, 10);
  assert.ok(server.requests.every(({ length }) => length <= 256 * 1024));
  assert.equal(server.requests.length, 2 + 3);
});

test("a report without a final status is handed in again, the same bytes, at the next visit", async () => {
  for (const reports of [[], [{ round: "q1-0" }], [{ round: "q1-0", status: "later" }], [{ round: "other", status: "taken" }], [null], ["taken"]]) {
    const server = new Server();
    server.open(text());
    const sealed = [];
    server.before = ({ body }) => {
      sealed.push(...(body.reports ?? []).map((each) => each.sealed));
      return body.rounds === false ? new Response(JSON.stringify({ version: 2, reports, rounds: [], come_back: 1 }), { headers: { "content-type": "application/json" } }) : null;
    };
    const device = deviceOf(server);
    assert.deepEqual((await device.visit()).map(({ status }) => status), ["sealed"]);
    assert.deepEqual((await device.visit()).map(({ status }) => status), ["taken"]);
    assert.equal(sealed.length, 2);
    assert.equal(sealed[0], sealed[1]);
  }
});

test("statuses of reports: closed, conflict and rejected end a round, and delete the bytes", async () => {
  for (const status of ["closed", "conflict", "rejected"]) {
    const server = new Server();
    server.open(text());
    server.after = ({ body }) => body.rounds === false ? new Response(JSON.stringify({ version: 2, reports: [{ round: "q1-0", status }], rounds: [], come_back: 1 }), { headers: { "content-type": "application/json" } }) : null;
    const device = deviceOf(server);
    assert.deepEqual(await device.visit(), [{ round: "q1-0", status, reason: null }]);
    assert.ok(!(await device.kept.read()).includes('"sealed"'));
    assert.equal((await device.log())[0].status, status);
  }
});

test("a deadline that has passed closes a round only if the server does not list it", async () => {
  const server = new Server();
  server.open(text());
  server.before = ({ body }) => (body.reports?.length ? problem(503, "busy") : null);
  const device = deviceOf(server, { patience: 0 });
  assert.deepEqual((await device.visit()).map(({ status }) => status), ["sealed"]);
  device.clockwork.time += 86_401;
  server.before = () => null;
  server.after = ({ body }) => new Response(JSON.stringify({ version: 2, reports: [], rounds: body.rounds ? server.rounds : [], come_back: 1 }), { headers: { "content-type": "application/json" } });
  assert.deepEqual((await device.visit()).map(({ status }) => status), ["sealed"]);
  server.rounds = [];
  assert.deepEqual(await device.visit(), [{ round: "q1-0", status: "closed", reason: null }]);
  assert.equal((await stateOf(device)).charges[0][1].time, device.clockwork.time);
});

test("charges: their time never goes back, they count for a period, and then they are forgotten with their records", async () => {
  const server = new Server();
  const clock = new Clock();
  const device = deviceOf(server, { clockwork: clock });
  server.open(text());
  clock.time = NOW + 1000;
  await device.visit();
  clock.time = NOW - 1e6; // the clock was set back
  await device.visit();
  assert.equal((await stateOf(device)).charges[0][1].time, NOW + 1000);
  clock.time = NOW + 1000 + 30 * 86_400 - 1;
  server.rounds = [];
  await device.visit();
  assert.equal((await stateOf(device)).charges.length, 1);
  clock.time += 1;
  await device.visit();
  const { charges, records, log } = await stateOf(device);
  assert.deepEqual([charges, records], [[], []]);
  assert.equal(log.length, 1);
});

test("charges: a later round that is sealed on a clock that was set back does not make them older", async () => {
  const server = new Server();
  const clock = new Clock();
  const device = deviceOf(server, { clockwork: clock, patience: 0 });
  const plan = { rounds: 2 };
  server.open(text({ plan }));
  await device.visit();
  clock.time = NOW - 1000;
  server.open(text({ plan, index: 1 }));
  server.before = ({ body }) => (body.rounds === false ? problem(503, "busy") : null);
  await device.visit();
  const [[, { indexes, time }]] = (await stateOf(device)).charges;
  assert.deepEqual([indexes, time], [[0, 1], NOW]);
});

test("settings that are wrong are named, and wrong policies too", () => {
  const server = new Server();
  const fails = (settings, setting) =>
    assert.throws(() => deviceOf(server, settings), (error) => error instanceof InvalidSetting && error.setting === setting);
  fails({ attributes: null }, "attributes");
  fails({ enrolmentKey: "a b" }, "enrolmentKey");
  fails({ patience: NaN }, "patience");
  fails({ readingSeconds: 0 }, "readingSeconds");
  fails({ policy: { ...POLICY, atributes: [] } }, "policy.atributes");
  fails({ policy: { ...POLICY, period_days: 0 } }, "policy.period_days");
  fails({ policy: { ...POLICY, table: { bounds: POLICY.table.bounds, rounds: [2, 1], rows: [] } } }, "policy.table");
  const row = POLICY.table.rows[0];
  for (const wrong of [{ ...row, limits: [1] }, { ...row, rates: [2, 1] }, { ...row, costs: [1] }, { ...row, costs: [-1, 0] }, { ...row, costs: [0.5, 1] }]) {
    fails({ policy: { ...POLICY, table: { ...POLICY.table, rows: [wrong] } } }, "policy.table");
  }
});

test("a state that cannot be saved: nothing is sent, and the error says so", async () => {
  const server = new Server();
  server.open(text());
  const state = new MemoryState();
  state.replace = async () => { throw new StoreUnavailable("The browser does not keep the device's state."); };
  await assert.rejects(deviceOf(server, { state }).visit(), StoreUnavailable);
  assert.equal(server.requests.length, 0);
});

test("a state that cannot be read is an error, never an empty one", async () => {
  for (const kept of ["", "{}", '{"version": 1}', "[]", '{"version": 2, "records": 7}']) {
    const state = new MemoryState();
    await state.replace(null, kept);
    await assert.rejects(deviceOf(new Server(), { state }).visit(), InvalidFormat);
  }
});

test("401: a device enrols again only with a valid proof of its own server, once a visit, and keeps its charges", async () => {
  const [own, other] = [await newIdentity(), await newIdentity()];
  const server = new Server();
  server.identity = own;
  server.open(text());
  const device = deviceOf(server, { patience: 1 });
  await device.visit();
  server.devices.clear();
  server.identity = other;
  await assert.rejects(device.visit(), ServerUnavailable);
  assert.equal(server.devices.size, 0);
  server.identity = null;
  await assert.rejects(device.visit(), ServerUnavailable);
  server.identity = own;
  const before = server.requests.length;
  assert.deepEqual(await device.visit(), []);
  assert.deepEqual(server.requests.slice(before).map(({ path }) => path), ["/v2/visit", "/v2/devices", "/v2/visit"]);
  assert.equal((await stateOf(device)).charges.length, 1);
  // A server that forgets at once is not enrolled with again and again.
  server.after = () => { server.devices.clear(); return null; };
  server.devices.clear();
  await assert.rejects(device.visit(), Unauthorised);
});

test("401: without an identity the server's word counts; without a key it is an error; a 403 is no reason to enrol", async () => {
  const server = new Server();
  const device = deviceOf(server);
  await device.visit();
  server.devices.clear();
  await assert.rejects(device.visit(), Unauthorised);
  assert.equal(server.devices.size, 0);
  const keyless = deviceOf(server, { state: device.kept, enrolmentKey: undefined });
  await assert.rejects(keyless.visit(), Unauthorised);
  server.before = () => problem(403, "forbidden");
  const requests = server.requests.length;
  await assert.rejects(device.visit(), Unauthorised);
  assert.equal(server.requests.length, requests + 1);
  await assert.rejects(deviceOf(new Server(), { enrolmentKey: "wrong" }).visit(), Unauthorised);
  await assert.rejects(deviceOf(new Server(), { enrolmentKey: undefined }).visit(), InvalidSetting);
});

test("enrol: once, or again when it is asked for", async () => {
  const server = new Server();
  const device = deviceOf(server);
  await device.enrol();
  await device.enrol();
  assert.equal(server.devices.size, 1);
  await device.enrol({ again: true });
  assert.equal((await stateOf(device)).token, "token-2");
});
