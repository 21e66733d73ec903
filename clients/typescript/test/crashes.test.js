// A device that stops at any instant either has the sealed bytes and sends those, or has sent nothing.
import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { Conflict, MemoryState } from "../dist/index.js";
import { Clock, deviceOf, opened, Server, stateOf, text } from "./fleet.js";

/** What ends a page: nothing of the device runs after it. */
class Crash extends Error {}

/**
 * Runs visits of one device that crashes at the given steps. A step is one call of the network or the store: the crash
 * comes before it, or after it was carried out and before its result arrives.
 */
async function visits(crashes, { rounds = [text()], server = new Server() } = {}) {
  server.open(...rounds);
  const kept = new MemoryState();
  const sent = new Map();
  const clockwork = new Clock();
  let step = 0;
  let isDead = false;
  const wrap = (work) => async (...args) => {
    step += 1;
    const crash = crashes.get(step);
    if (isDead || crash === "before") {
      isDead = true;
      throw new Crash();
    }
    const result = await work(...args);
    if (crash === "after") {
      isDead = true;
      throw new Crash();
    }
    return result;
  };
  const watched = (url, init) => {
    for (const { round, sealed } of JSON.parse(init.body).reports ?? []) {
      sent.set(round, (sent.get(round) ?? new Set()).add(sealed));
    }
    return server.fetch(url, init);
  };
  let finished = 0;
  while (finished < 2) {
    isDead = false;
    const state = {
      read: wrap(() => kept.read()),
      replace: wrap((before, after) => kept.replace(before, after)),
      exclusive: (work, signal) => kept.exclusive(work, signal),
    };
    // A dead page gets no answers: fetch fails after the crash, and so does the store.
    const device = deviceOf(server, { state, clockwork, fetch: wrap(watched), patience: 0 });
    try {
      await device.visit();
      finished += 1;
    } catch (error) {
      if (!isDead) throw error;
    }
    clockwork.time += 1;
    if (step > 500) throw new Error("no end");
  }
  return { steps: step, sent, server, device: deviceOf(server, { state: kept, clockwork }) };
}

async function check({ sent, server, device }, names) {
  for (const name of names) {
    assert.equal(sent.get(name)?.size, 1, "other bytes were sent for the same round");
    assert.ok(server.reports(name).length >= 1);
  }
  const { records, charges } = await stateOf(device);
  assert.deepEqual(new Map(records.map(([name, { status }]) => [name, status])), new Map(names.map((name) => [name, "taken"])));
  assert.equal(charges.length, names.length);
  assert.ok(charges.every(([, { indexes }]) => indexes.length === 1));
}

test("a crash before or after each single step", async () => {
  const { steps } = await visits(new Map());
  assert.ok(steps > 10);
  for (let step = 1; step <= steps; step += 1) {
    for (const when of ["before", "after"]) await check(await visits(new Map([[step, when]])), ["q1-0"]);
  }
});

test("several crashes at any steps", async () => {
  const crash = fc.record({ step: fc.integer({ min: 1, max: 40 }), when: fc.constantFrom("before", "after") });
  const rounds = [text(), text({ query: "q2" })];
  await fc.assert(
    fc.asyncProperty(fc.array(crash, { maxLength: 6 }), async (crashes) => {
      const run = await visits(new Map(crashes.map(({ step, when }) => [step, when])), { rounds });
      await check(run, ["q1-0", "q2-0"]);
    }),
    { numRuns: 60 },
  );
});

test("no request hands in bytes that the store does not have", async () => {
  const server = new Server();
  server.open(text(), text({ query: "q2" }));
  const kept = new MemoryState();
  const fetch = async (url, init) => {
    const stored = await kept.read();
    for (const { round, sealed } of JSON.parse(init.body).reports ?? []) {
      const record = new Map(JSON.parse(stored).records).get(round);
      assert.equal(record.sealed, sealed);
      assert.ok(new Map(JSON.parse(stored).charges).get(record.query));
    }
    return server.fetch(url, init);
  };
  await deviceOf(server, { state: kept, fetch }).visit();
  assert.equal(server.reports("q2-0").length, 1);
});

test("two tabs at once: one device, each round answered once, whoever comes first", async () => {
  const server = new Server();
  for (let i = 0; i < 5; i += 1) server.open(text({ query: `q${i}` }));
  const state = new MemoryState();
  const tabs = Array.from({ length: 4 }, () => deviceOf(server, { state }));
  await Promise.all(tabs.map((tab) => tab.visit()));
  assert.equal(server.devices.size, 1);
  assert.equal(server.reports("q3-0").length, 1);
  assert.equal((await stateOf(tabs[0])).charges.length, 5);
});

test("two tabs without a lock: the one that saves later sends nothing", async () => {
  const server = new Server();
  server.open(text());
  const kept = new MemoryState();
  const state = { read: () => kept.read(), replace: (...texts) => kept.replace(...texts), exclusive: (work) => work() };
  await deviceOf(server, { state: kept }).enrol();
  const sent = [];
  server.before = async ({ body }) => { sent.push(...body.reports.map(({ sealed }) => sealed)); };
  const results = await Promise.allSettled([deviceOf(server, { state }).visit(), deviceOf(server, { state }).visit()]);
  assert.deepEqual(results.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  assert.ok(results.some(({ reason }) => reason instanceof Conflict));
  assert.equal(new Set(sent).size, 1);
  assert.deepEqual(await opened(sent[0], text()), [["fr"]]);
});

test("these checks can fail: a store that loses what it has acknowledged is noticed", async () => {
  const kept = new MemoryState();
  const server = new Server();
  server.open(text());
  await deviceOf(server, { state: kept }).enrol();
  const lossy = { read: () => kept.read(), replace: async () => {}, exclusive: (work) => work() };
  await assert.rejects(deviceOf(server, { state: lossy }).visit(), Conflict);
  assert.equal(server.reports("q1-0").length, 0);
});
