// What a person sees and decides: the log, and switching the device off.
import assert from "node:assert/strict";
import test from "node:test";
import { MemoryState } from "../dist/index.js";
import { Clock, deviceOf, NOW, ONE, POLICY, problem, Server, stateOf, text } from "./fleet.js";

test("the log says what was asked and what became of it", async () => {
  const server = new Server();
  const question = { kind: "filtered", question: { kind: "values", columns: ["country"] }, where: [{ column: "age", from: 18, below: null }] };
  server.open(text({ question }), text({ query: "weak", plan: { threshold: 2 } }), '{"round": "bad", "fleet": 7}');
  const device = deviceOf(server);
  await device.visit();
  const asked = {
    fleet: "default", query: "q1", index: 0, question, attributes: ["country", "age"], threshold: 25, samplingRate: 0.25,
    rounds: 1, contributions: 1, deadline: NOW + 86_400,
  };
  const weak = { ...asked, query: "weak", question: question.question, attributes: ["country"], threshold: 2 };
  assert.deepEqual(await device.log(), [
    { time: NOW, round: "q1-0", status: "taken", reason: null, asked },
    { time: NOW, round: "weak-0", status: "refused", reason: "threshold", asked: weak },
    { time: NOW, round: "bad", status: "refused", reason: "unreadable", asked: null },
  ]);
});

test("the log is the same whether a coin was heads or tails, and whatever is held", async () => {
  const logs = new Set();
  for (const country of ["fr", null, ["a", "b"]]) {
    for (const byte of [0, 255]) {
      const server = new Server();
      server.open(text({ device_rate: ONE / 2, aggregator_rate: ONE }));
      const device = deviceOf(server, { attributes: { country }, randomness: (bytes) => bytes.fill(byte) });
      await device.visit();
      logs.add(JSON.stringify([await device.log(), await device.outcomes()]));
    }
  }
  assert.equal(logs.size, 1);
});

test("the log is bounded: 1,000 entries, and of a very long question its kind", async () => {
  const server = new Server();
  const device = deviceOf(server);
  const parents = Array.from({ length: 5000 }, (_, i) => `p${i}`);
  server.open(text({ query: "long", question: { kind: "prefixes", column: "word", length: 9, known: 2, parents } }));
  await device.visit();
  assert.deepEqual((await device.log())[0].asked.question, { kind: "prefixes" });
  for (let visit = 0; visit < 5; visit += 1) {
    server.rounds = Array.from({ length: 256 }, (_, i) => JSON.stringify({ round: `r${visit}-${i}` }));
    await device.visit();
  }
  const log = await device.log();
  assert.equal(log.length, 1000);
  assert.equal(log.at(-1).round, "r4-255");
});

test("switched off: silence, and nothing is kept but charges without names", async () => {
  const server = new Server();
  server.open(text(), text({ query: "q2" }));
  server.before = ({ body }) => (body.rounds === false ? problem(503, "busy") : null);
  const device = deviceOf(server, { patience: 0 });
  await device.visit();
  device.clockwork.time += 1000;
  assert.equal(await device.consent(), true);
  assert.equal(await device.consent(false), false);
  const state = await stateOf(device);
  assert.deepEqual({ ...state, charges: [] }, { version: 2, token: null, identity: null, consent: false, due: 0, records: [], charges: [], log: [] });
  assert.equal(state.charges.length, 2);
  for (const [key, charge] of state.charges) {
    assert.match(key, /^[0-9a-f]{64}$/);
    assert.deepEqual(Object.keys(charge).sort(), ["indexes", "terms", "time"]);
    assert.ok(Object.values(charge.terms).every(Number.isInteger));
    assert.equal(charge.time, NOW + 1000); // when the sealed bytes were dropped
  }
  const requests = server.requests.length;
  assert.deepEqual(await device.visit(), []);
  await device.enrol();
  assert.deepEqual([await device.log(), await device.outcomes()], [[], []]);
  assert.equal(await deviceOf(server, { state: device.kept }).consent(), false);
  assert.deepEqual(await deviceOf(server, { state: device.kept }).visit(), []);
  assert.equal(server.requests.length, requests);
});

test("switched off and on again: the budget is not renewed, and no round is answered twice", async () => {
  const server = new Server();
  const policy = { ...POLICY, table: { bounds: POLICY.table.bounds, rounds: [1000], rows: [{ threshold: 5, limits: [ONE - 1], rates: [ONE], costs: [600_000_000] }] } };
  server.open(text());
  const device = deviceOf(server, { policy });
  await device.visit();
  await device.consent(false);
  await device.consent(true);
  server.open(text({ query: "q2" }));
  assert.deepEqual(await device.visit(), [
    { round: "q1-0", status: "refused", reason: "answered" },
    { round: "q2-0", status: "refused", reason: "budget" },
  ]);
  assert.equal(server.devices.size, 2); // it enrolled anew
});

test("the setting consent is the app's own record, applied at each visit", async () => {
  const server = new Server();
  const state = new MemoryState();
  await deviceOf(server, { state }).visit();
  const requests = server.requests.length;
  const off = deviceOf(server, { state, consent: false });
  assert.equal(await off.consent(), false);
  await off.visit();
  assert.equal((await stateOf(off)).token, null);
  assert.equal(server.requests.length, requests);
  await deviceOf(server, { state, consent: true }).visit();
  assert.ok(server.requests.length > requests);
});

test("switching off in one tab counts in a tab that had switched on", async () => {
  const server = new Server();
  const one = deviceOf(server);
  const other = deviceOf(server, { state: one.kept });
  await one.consent(true);
  await one.visit();
  await other.consent(false);
  const requests = server.requests.length;
  assert.deepEqual(await one.visit(), []);
  assert.equal(await one.consent(), false);
  assert.equal(server.requests.length, requests);
  assert.equal((await stateOf(one)).token, null);
});

test("switching off during a visit ends it, in this tab and in others, at every request", async () => {
  for (const others of [false, true]) {
    for (let n = 1; n <= 3; n += 1) {
      const server = new Server();
      server.open(text());
      const device = deviceOf(server);
      const person = others ? deviceOf(server, { state: device.kept }) : device;
      let count = 0;
      server.before = async () => {
        count += 1;
        if (count === n) await person.consent(false);
        return null;
      };
      const result = await device.visit().catch((error) => error.code);
      assert.ok(result === "conflict" || result.length === 0, String(result));
      assert.equal(count, n, "a request was made after switching off");
      const { token, records, log, consent } = await stateOf(device);
      assert.deepEqual([token, records, log, consent], [null, [], [], false]);
    }
  }
});

/** Waits until the signal aborts. */
const aborted = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("switching off ends a request that is under way", async () => {
  const server = new Server();
  const device = deviceOf(server);
  let isEnded = false;
  server.before = (request) => {
    setTimeout(() => void device.consent(false), 5);
    return aborted(request.signal).finally(() => (isEnded = true));
  };
  assert.deepEqual(await device.visit(), []);
  assert.ok(isEnded);
  assert.equal(await device.consent(), false);
});

test("switching off in another tab ends a request that is under way, each of a visit", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  for (let n = 1; n <= 3; n += 1) {
    const server = new Server();
    server.open(text());
    const device = deviceOf(server);
    let signal;
    server.before = (request) => (server.requests.length < n ? null : aborted((signal = request.signal)));
    const visit = device.visit().catch((error) => error.code);
    while (!signal) await new Promise(setImmediate);
    context.mock.timers.tick(3000);
    await new Promise(setImmediate);
    assert.ok(!signal.aborted, "nobody has changed the state");
    await deviceOf(server, { state: device.kept }).consent(false);
    context.mock.timers.tick(1000);
    await new Promise(setImmediate);
    assert.ok(signal.aborted, "the request goes on");
    assert.equal(await visit, "conflict");
    assert.equal(server.requests.length, n);
    const { token, records, log, consent } = await stateOf(device);
    assert.deepEqual([token, records, log, consent], [null, [], [], false]);
  }
});

test("switching off in another tab ends the wait before the next request", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const server = new Server();
  server.before = () => problem(503, "busy");
  const device = deviceOf(server, { sleep: (_, signal) => { setImmediate(off); return aborted(signal); } });
  const off = async () => {
    await deviceOf(server, { state: device.kept }).consent(false);
    context.mock.timers.tick(1000);
  };
  await assert.rejects(device.visit(), { code: "conflict" });
  assert.equal(server.requests.length, 1);
});

test("a store that is slow, or fails, while a request waits: one look at a time, and nothing is aborted", async (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const server = new Server();
  server.open(text());
  const kept = new MemoryState();
  const looks = [];
  let isWaiting = false;
  const state = {
    read: () => (isWaiting ? new Promise((resolve, reject) => looks.push({ resolve, reject })) : kept.read()),
    replace: (...texts) => kept.replace(...texts),
    exclusive: (work) => work(),
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  server.before = async () => {
    isWaiting = true;
    context.mock.timers.tick(5000);
    await turn();
    assert.equal(looks.length, 1);
    looks[0].reject(new Error("a look failed"));
    await turn();
    context.mock.timers.tick(1000);
    await turn();
    assert.equal(looks.length, 2);
    isWaiting = false;
    looks.pop().resolve(await kept.read());
    looks.length = 0;
  };
  const outcomes = await deviceOf(server, { state }).visit();
  assert.deepEqual(outcomes.map(({ status }) => status), ["taken"]);
});

test("no timer goes on after a visit", async () => {
  const timers = () => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
  const before = timers();
  const server = new Server();
  await deviceOf(server).visit();
  server.before = () => problem(503, "busy");
  await assert.rejects(deviceOf(server, { patience: 0 }).visit(), { code: "server-unavailable" });
  assert.equal(timers(), before);
});

test("run while switched off makes no request and goes on when it is switched on", async () => {
  const server = new Server();
  const stop = new AbortController();
  const clockwork = new Clock();
  const device = deviceOf(server, { clockwork, sleep: async (seconds) => {
    clockwork.time += seconds;
    if (clockwork.time > NOW + 200 && !(await device.consent())) {
      assert.equal(server.requests.length, 0);
      await device.consent(true);
    }
    if (server.requests.length > 2) stop.abort();
  } });
  await device.consent(false);
  await device.run({ signal: stop.signal });
  assert.ok(server.requests.length > 2);
});
