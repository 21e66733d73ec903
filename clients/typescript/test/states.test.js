// Where a state is kept: one contract for all stores, and what each of them can meet.
import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { Conflict, Device, IndexedDBState, InvalidSetting, MemoryState, StoreUnavailable } from "../dist/index.js";
import { FileState } from "../dist/node.js";
import { Turns } from "../dist/turns.js";
import { deviceOf, POLICY, Server, text } from "./fleet.js";

const folder = await mkdtemp(join(tmpdir(), "thresher-device-"));
test.after(() => rm(folder, { recursive: true }));
let count = 0;

/** Web Locks, which Node 20 does not have: work under one name takes turns, and waiting can be called off. */
class Locks {
  #turns = new Map();

  request(name, { signal }, work) {
    if (!this.#turns.has(name)) this.#turns.set(name, new Turns());
    return this.#turns.get(name).take(work, signal);
  }
}

const browserOf = (locks) => Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
browserOf(new Locks());

/** Each kind of store: two objects that share one state, as two tabs do. */
const stores = {
  MemoryState: () => { const state = new MemoryState(); return [state, state]; },
  IndexedDBState: () => { const name = `https://fleet.example/${(count += 1)}`; return [new IndexedDBState(name), new IndexedDBState(name)]; },
  FileState: () => { const path = join(folder, `device-${(count += 1)}.json`); return [new FileState(path), new FileState(path)]; },
};

for (const [name, make] of Object.entries(stores)) {
  test(`${name}: keeps text, and replaces only what it was said to replace`, async () => {
    const [first, second] = make();
    assert.equal(await first.read(), null);
    await first.replace(null, "a\0é😀");
    assert.equal(await second.read(), "a\0é😀");
    await assert.rejects(second.replace(null, "b"), Conflict);
    await assert.rejects(second.replace("b", "c"), Conflict);
    assert.equal(await first.read(), "a\0é😀");
    await second.replace("a\0é😀", "d");
    await first.replace("d", "d");
    assert.equal(await first.read(), "d");
  });

  test(`${name}: work takes turns, and waiting can be called off`, async () => {
    const [first, second] = make();
    const events = [];
    let release;
    const held = first.exclusive(() => new Promise((resolve) => { events.push("first"); release = resolve; }));
    while (events.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const stop = new AbortController();
    const called = second.exclusive(async () => events.push("never"), stop.signal);
    const waiting = second.exclusive(async () => { events.push("second"); return 7; });
    stop.abort();
    await assert.rejects(called, { name: "AbortError" });
    assert.deepEqual(events, ["first"]);
    release();
    await held;
    assert.equal(await waiting, 7);
    await assert.rejects(first.exclusive(async () => { throw new Error("broken"); }), /broken/);
    assert.equal(await second.exclusive(async () => 8), 8);
    assert.deepEqual(events, ["first", "second"]);
  });

  test(`${name}: two devices with one state are one device`, async () => {
    const server = new Server();
    server.open(text());
    const devices = make().map((state) => deviceOf(server, { state }));
    await Promise.all(devices.map((device) => device.visit()));
    assert.equal(server.devices.size, 1);
    assert.equal(server.reports("q1-0").length, 1);
  });
}

test("FileState: only its owner can read it; nothing else is left beside it; a folder that is not there is an error", async () => {
  const path = join(folder, "own.json");
  const state = new FileState(path);
  await state.replace(null, "a");
  await state.replace("a", "b");
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.deepEqual((await readdir(folder)).filter((name) => name.startsWith("own")), ["own.json"]);
  await assert.rejects(new FileState(join(folder, "no", "such.json")).replace(null, "a"), StoreUnavailable);
  await assert.rejects(new FileState(folder).read(), StoreUnavailable);
});

test("FileState: a folder that cannot be written means that nothing is sent", async (context) => {
  if (process.getuid?.() === 0) context.diagnostic("as root a folder can always be written: a file stands in its place");
  const place = join(folder, "file");
  await writeFile(place, "");
  const server = new Server();
  server.open(text());
  await assert.rejects(deviceOf(server, { state: new FileState(join(place, "device.json")) }).visit(), StoreUnavailable);
  assert.equal(server.requests.length, 0);
  await chmod(place, 0o600);
  assert.equal(await readFile(place, "utf8"), "");
});

test("IndexedDBState: without Web Locks nothing is sent", async () => {
  delete globalThis.navigator;
  const server = new Server();
  server.open(text());
  await assert.rejects(deviceOf(server, { state: new IndexedDBState("x") }).visit(), { code: "missing-extra" });
  assert.equal(server.requests.length, 0);
  browserOf(new Locks());
});

test("IndexedDBState: a browser without a database, and a full quota, mean that nothing is sent", async (context) => {
  for (const failure of ["open", "put"]) {
    const server = new Server();
    server.open(text());
    const quota = () => { throw new DOMException("", "QuotaExceededError"); };
    const mock = failure === "open" ? context.mock.method(indexedDB, "open", quota) : context.mock.method(IDBObjectStore.prototype, "put", quota);
    const device = new Device("https://fleet.example", { enrolmentKey: "key", attributes: {}, policy: POLICY, fetch: server.fetch });
    await assert.rejects(device.visit(), (error) => error instanceof StoreUnavailable && error.cause.name === "QuotaExceededError");
    assert.equal(server.requests.length, 0);
    mock.mock.restore();
  }
});

test("a quota that fills up between two visits: nothing is sealed, nothing is sent, and it passes", async () => {
  const server = new Server();
  const kept = new MemoryState();
  let isFull = false;
  const state = {
    read: () => kept.read(), exclusive: (work) => work(),
    replace: async (before, after) => { if (isFull) throw new StoreUnavailable("full"); return kept.replace(before, after); },
  };
  const device = deviceOf(server, { state });
  await device.visit();
  server.open(text());
  isFull = true;
  await assert.rejects(device.visit(), StoreUnavailable);
  assert.equal(server.reports("q1-0").length, 0);
  isFull = false;
  assert.equal((await device.visit())[0].status, "taken");
});

test("without IndexedDB a state must be given", () => {
  const { indexedDB } = globalThis;
  delete globalThis.indexedDB;
  try {
    assert.throws(() => new Device("https://fleet.example", { attributes: {}, policy: POLICY }), (error) => error instanceof InvalidSetting && error.setting === "state");
  } finally {
    globalThis.indexedDB = indexedDB;
  }
  for (const address of ["", "fleet.example", "ftp://fleet.example", "https://", "https://user:secret@fleet.example", "https://fleet.example/?a", "https://fleet.example/#a", "https://fleet example"]) {
    assert.throws(() => new Device(address, { attributes: {}, policy: POLICY }), (error) => error.setting === "server" && !error.message.includes("secret"));
  }
});
