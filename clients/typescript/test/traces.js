// Plays the traces of docs/protocol/vectors/traces.json: visits of a device with a fake clock and a fake server.
import assert from "node:assert/strict";
import { configurationHash, Device, MemoryState, readRound, Unauthorised } from "../dist/index.js";
import { defaultPolicy } from "../dist/default-policy.js";
import { fromHex, hex, sha256, utf8 } from "../dist/bytes.js";
import { SUITE } from "./fleet.js";

/** The power goes. */
class Crash extends Error {}
/** What `fetch` throws where no answer comes. */
class NoAnswer extends TypeError {}

/** PKCS 8 of an Ed25519 secret. */
const PREFIX = "302e020100300506032b657004220420";

async function proofOf(secret, nonce, token) {
  const key = await crypto.subtle.importKey("pkcs8", fromHex(PREFIX + secret), { name: "Ed25519" }, false, ["sign"]);
  const statement = new Uint8Array([...utf8("thresher unknown token 1\0"), ...fromHex(nonce), ...(await sha256(utf8(token)))]);
  return hex(new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, key, statement)));
}

const keyOf = async (query) => hex(await sha256(utf8(`thresher query 1\0${query}`)));

/** The private key of all traces. */
const RECEIVER = await SUITE.DeserializePrivateKey(Uint8Array.from({ length: 32 }, (_, i) => i), true);

/** What is in a report: the JSON of its pieces, sorted, and "" for a decoy. */
async function contents(sealed, { text, bucketSize, terms }) {
  assert.match(sealed, /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
  assert.equal(btoa(atob(sealed)), sealed);
  const raw = Uint8Array.from(atob(sealed), (character) => character.charCodeAt(0));
  const [info, size] = [await configurationHash(text), bucketSize + 48];
  assert.equal(raw.length, terms.contributions * size);
  const found = [];
  for (let at = 0; at < raw.length; at += size) {
    const plain = await SUITE.Open(RECEIVER, raw.slice(at, at + 32), raw.slice(at + 32, at + size), { info }).catch(() => assert.fail("a report does not open"));
    const end = 2 + plain[0] * 256 + plain[1];
    assert.equal(plain.length, bucketSize);
    assert.ok(plain.subarray(end).every((byte) => byte === 0));
    const json = new TextDecoder().decode(plain.subarray(2, end));
    found.push(/^\{"decoy":"[0-9a-f]{32}"\}$/.test(json) ? "" : json);
  }
  return found.sort();
}

/** What a device keeps, as `after` describes it. */
async function keptIn(state) {
  const { token, records, charges } = JSON.parse(await state.read());
  const refused = records.filter(([, { status }]) => status === "refused");
  return {
    token,
    records: Object.fromEntries(records.map(([name, { status }]) => [name, status])),
    remembered: records.length,
    reasons: Object.fromEntries(refused.map(([name, { reason }]) => [name, reason])),
    charged: charges.map(([key]) => key).sort(),
  };
}

/** Plays a trace for one device. */
export async function play(trace) {
  const state = new MemoryState();
  const [sealed, shown, nonces, sent] = [new Map(), new Map(), new Set(), new Set()];
  const policy = { ...defaultPolicy(), ...trace.policy };
  let [now, exchanges, isDead, wrong] = [0, [], false, null];

  async function serve(url, init) {
    assert.ok(exchanges.length > 0, "a request too many");
    const { expect, answer } = exchanges.shift();
    assert.equal(init.method, "POST");
    assert.equal(new URL(url).pathname, expect.path);
    const body = JSON.parse(init.body);
    const token = init.headers.authorization.replace("Bearer ", "");
    const nonce = init.headers["thresher-nonce"];
    if (expect.path === "/v2/devices") {
      assert.deepEqual([body, token], [{ versions: [2] }, trace.enrolment_key]);
    } else {
      assert.equal(token, expect.token);
      const names = body.reports.map(({ round }) => round).sort();
      assert.deepEqual(typeof expect.reports === "number" ? names.length : names, typeof expect.reports === "number" ? expect.reports : [...expect.reports].sort());
      assert.equal(new Set(names).size, names.length);
      assert.ok(expect.rounds || !names.some((name) => sent.has(name)));
      for (const name of names) sent.add(name);
      assert.ok(utf8(init.body).length <= 256 * 1024);
      assert.deepEqual({ ...body, reports: [] }, { versions: [2], reports: [], rounds: expect.rounds });
      assert.match(nonce, /^[0-9a-f]{32}$/);
      assert.ok(!nonces.has(nonce));
      nonces.add(nonce);
    }
    if (answer.crash) {
      isDead = true;
      throw new Crash();
    }
    for (const report of body.reports ?? []) {
      if (!sealed.has(report.round)) sealed.set(report.round, report.sealed);
      assert.equal(sealed.get(report.round), report.sealed);
      const expected = trace.plaintexts[report.round].map((each) => each ?? "").sort();
      assert.deepEqual(await contents(report.sealed, shown.get(report.round)), expected);
    }
    if (answer.none) throw new NoAnswer();
    for (const text of answer.body?.rounds ?? []) {
      const { round } = (typeof text === "string" && readRound(text)) || {};
      if (round && !shown.has(round.name)) shown.set(round.name, round);
    }
    const headers = { "content-type": "application/json", ...answer.headers };
    if (answer.proof) headers["thresher-proof"] = await proofOf(answer.proof === "valid" ? trace.identity_secret : "00".repeat(32), nonce, token);
    const content = typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body);
    if (answer.status >= 300 && answer.status < 400) throw new NoAnswer(); // as fetch does with a redirect
    return new Response(content, { status: answer.status, headers });
  }

  // What goes wrong in here must not count as an answer that did not come.
  const note = (error) => {
    if (!(error instanceof Crash) && !(error instanceof NoAnswer)) wrong ??= error;
    throw error;
  };
  // A device that has crashed reaches neither store nor network any more.
  const alive = (work) => async (...args) => {
    if (isDead) throw new Crash();
    return work(...args);
  };
  const start = (sleep) => {
    isDead = false;
    return new Device("http://fleet.test", {
      enrolmentKey: trace.enrolment_key, attributes: trace.attributes, policy, patience: 0, clock: () => now, sleep,
      onProblem: () => {},
      state: { read: alive(() => state.read()), replace: alive((...texts) => state.replace(...texts)), exclusive: (work) => work() },
      fetch: alive((...args) => serve(...args).catch(note)),
    });
  };

  /** `after` may name some of what holds; what it does not name is not looked at. */
  async function check(after, slept, hasEnded) {
    if (wrong) throw wrong;
    assert.deepEqual(exchanges, [], "a request is missing");
    if (!after) return;
    const { wait, ends = false, ...named } = after;
    const expected = named.charged ? { ...named, charged: (await Promise.all(named.charged.map(keyOf))).sort() } : named;
    const kept = await keptIn(state);
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, kept[name]])), expected);
    assert.equal(hasEnded, ends);
    if (wait) assert.ok(slept >= wait[0] - 1e-6 && slept <= wait[1] + 1e-6, `${slept} is not within ${wait}`);
  }

  let [device, stop, slept] = [null, null, null];
  for (const step of trace.steps) {
    if (step.restart) {
      device = null;
      continue;
    }
    now = step.now;
    exchanges = [...step.exchanges];
    sent.clear();
    slept = null;
    let hasEnded = false;
    // The trace says when the device visits, also where it is not due yet.
    const kept = await state.read();
    if (kept) await state.replace(kept, JSON.stringify({ ...JSON.parse(kept), due: 0 }));
    // `run` visits once: its pause ends it.
    stop = new AbortController();
    device ??= start(async (seconds) => { slept = seconds; stop.abort(); });
    try {
      await device.run({ signal: stop.signal });
    } catch (error) {
      if (!(error instanceof Crash) && !(error instanceof Unauthorised)) throw error;
      hasEnded = error instanceof Unauthorised;
    }
    if (isDead || hasEnded) device = null;
    await check(step.after, slept, hasEnded);
  }
}
