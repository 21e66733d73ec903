// Answers that are not the server's own, too long, too late or malformed; waiting, and being stopped.
import assert from "node:assert/strict";
import test from "node:test";
import { backOff, InvalidFormat, isOwn, ServerUnavailable, Unauthorised } from "../dist/index.js";
import { Allowance, readRetryAfter } from "../dist/back-off.js";
import { Clock, deviceOf, NOW, problem, Server, stateOf, text } from "./fleet.js";

const answer = (body, headers = { "content-type": "application/json" }, status = 200) => new Response(body, { status, headers });

test("own answers have the form that the page says", () => {
  const body = { type: "urn:thresher:problem:busy", title: "t", status: 503, code: "busy", detail: "d" };
  assert.ok(isOwn(503, "application/problem+json", body));
  assert.ok(isOwn(503, "Application/Problem+JSON; charset=utf-8", { ...body, more: 1 }));
  assert.ok(isOwn(200, "application/json", {}));
  assert.ok(!isOwn(200, "text/html", {}));
  assert.ok(!isOwn(200, "application/problem+json", body));
  assert.ok(!isOwn(503, "application/json", body));
  assert.ok(!isOwn(502, "application/problem+json", body));
  for (const name of Object.keys(body)) assert.ok(!isOwn(503, "application/problem+json", { ...body, [name]: undefined }));
  assert.ok(!isOwn(503, "application/problem+json", { ...body, type: "urn:thresher:problem:other" }));
  assert.ok(!isOwn(503, "application/problem+json", [body]));
  assert.ok(!isOwn(503, "application/problem+json", null));
});

test("whatever a stranger answers, the device keeps its state and comes back", async () => {
  const strange = [
    () => answer("<html>", { "content-type": "text/html" }),
    () => answer("<html>"),
    () => answer("{}", { "content-type": "text/html" }, 401),
    () => answer("null"),
    () => answer("[]"),
    () => answer("{}"),
    () => answer('{"version": 3, "reports": [], "rounds": [], "come_back": 1}'),
    () => answer('{"version": 2, "reports": {}, "rounds": [], "come_back": 1}'),
    () => answer('{"version": 2, "reports": [], "rounds": {}, "come_back": 1}'),
    () => answer('{"version": 2, "reports": [], "rounds": [], "come_back": "1"}'),
    () => answer('{"version": 2, "reports": [], "rounds": [], "come_back": 1e999}'),
    () => answer('{"__proto__": {"version": 2, "reports": [], "rounds": [], "come_back": 1}}'),
    () => answer(new Uint8Array([0x22, 0xff, 0x22])),
    () => answer("[".repeat(200_000)),
    () => problem(429, "busy"),
    () => problem(500, "error"),
    () => answer("", {}, 407),
    () => { throw new TypeError("fetch failed"); },
  ];
  for (const respond of strange) {
    const server = new Server();
    const device = deviceOf(server, { patience: 1 });
    await device.visit();
    const before = await device.kept.read();
    server.before = respond;
    await assert.rejects(device.visit(), ServerUnavailable, respond.toString());
    assert.equal(await device.kept.read(), before);
    server.before = () => null;
    await device.visit();
  }
});

test("enrolling: answers without a token, or with one that fits into no header, are none", async () => {
  for (const body of [{}, { token: "" }, { token: "a\nb" }, { token: "é" }, { token: 7 }, { token: "t", identity: "x" }]) {
    const server = new Server();
    server.before = () => answer(JSON.stringify({ version: 2, ...body }));
    const device = deviceOf(server, { patience: 0 });
    await assert.rejects(device.visit(), ServerUnavailable);
    assert.equal((await stateOf(device)).token, null);
  }
});

test("an answer of more than 16 MiB is not read to its end", async () => {
  const server = new Server();
  const device = deviceOf(server, { patience: 0 });
  await device.visit();
  let pulled = 0;
  server.before = () =>
    answer(new ReadableStream({ pull: (controller) => { pulled += 1; controller.enqueue(new Uint8Array(1 << 20).fill(32)); } }));
  await assert.rejects(device.visit(), ServerUnavailable);
  assert.ok(pulled < 25, String(pulled));
});

test("an answer that takes more than 120 seconds is none", async (context) => {
  const server = new Server();
  const device = deviceOf(server, { patience: 0 });
  await device.visit();
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let isAborted = false;
  server.before = (request) => {
    queueMicrotask(() => context.mock.timers.tick(120_000));
    return new Promise((_, reject) => request.signal.addEventListener("abort", () => { isAborted = true; reject(new Error()); }));
  };
  await assert.rejects(device.visit(), ServerUnavailable);
  assert.ok(isAborted);
});

test("a status that means no: the device does not insist", async () => {
  for (const status of [400, 404, 413, 422]) {
    const server = new Server();
    const device = deviceOf(server);
    await device.visit();
    server.before = () => problem(status, "unsupported-version");
    const requests = server.requests.length;
    await assert.rejects(device.visit(), InvalidFormat);
    assert.equal(server.requests.length, requests + 1);
  }
});

test("back-off: between half and the whole of 0.5 × 2^(n−1) seconds, 300 at most; Retry-After is added, a day at most", () => {
  for (const [n, longest] of [[1, 0.5], [2, 1], [5, 8], [10, 256], [11, 300], [1000, 300]]) {
    const waits = Array.from({ length: 200 }, () => backOff(n));
    assert.ok(Math.min(...waits) >= longest / 2 && Math.max(...waits) <= longest);
    // Each quarter of the range is hit: missing one has a chance of 4 × 0.75^200 < 1e-24.
    for (let i = 0; i < 4; i += 1) assert.ok(waits.some((wait) => wait >= (longest / 8) * (4 + i) && wait <= (longest / 8) * (5 + i)));
  }
  assert.ok(backOff(1, 100) >= 100.25 && backOff(1, 100) <= 100.5);
  assert.ok(backOff(1, 1e9) <= 86_400.5);
});

test("Retry-After is a number or a date", () => {
  assert.equal(readRetryAfter(null, NOW), null);
  assert.equal(readRetryAfter("120", NOW), 120);
  assert.equal(readRetryAfter(new Date((NOW + 60) * 1000).toUTCString(), NOW), 60);
  assert.equal(readRetryAfter(new Date((NOW - 60) * 1000).toUTCString(), NOW), null);
  assert.equal(readRetryAfter("soon", NOW), null);
  assert.equal(readRetryAfter("2999-01-01", NOW), null);
});

test("a busy server is asked again with the same reports, as long as patience lasts", async () => {
  const server = new Server();
  server.open(text());
  let failures = 3;
  const bodies = [];
  server.before = ({ body }) => {
    if (body.rounds === false) bodies.push(JSON.stringify(body));
    return body.rounds === false && failures-- > 0 ? problem(503, "busy", { "retry-after": "2" }) : null;
  };
  const device = deviceOf(server);
  assert.deepEqual((await device.visit()).map(({ status }) => status), ["taken"]);
  assert.equal(new Set(bodies).size, 1);
  assert.deepEqual(device.clockwork.slept.map(Math.floor), [2, 2, 3]);
  server.before = () => problem(503, "busy", { "retry-after": "100" });
  await assert.rejects(device.visit(), (error) => error instanceof ServerUnavailable && error.retryAfter === 100);
});

test("a stranger cannot keep a device away for more than 300 seconds", async () => {
  const server = new Server();
  const device = deviceOf(server, { patience: 0 });
  server.before = () => answer("<html>", { "content-type": "text/html", "retry-after": "86400" }, 503);
  await assert.rejects(device.visit(), (error) => error.retryAfter === 300);
});

test("come_back is read as 1 to 86,400 seconds", async () => {
  for (const [comeBack, seconds] of [[-5, 1], [0, 1], [0.5, 1], [60, 60], [1e9, 86_400]]) {
    const server = new Server();
    server.comeBack = comeBack;
    const device = deviceOf(server);
    await device.visit();
    assert.equal((await stateOf(device)).due - NOW, seconds);
  }
});

test("run: visits until it is stopped, waits problems out, and tabs do not add up", async () => {
  const server = new Server();
  const stop = new AbortController();
  const problems = [];
  const clockwork = new Clock();
  let visits = 0;
  server.before = ({ body }) => {
    if (body.rounds === undefined) return null;
    visits += 1;
    if (visits === 3) return problem(400, "odd");
    if (visits === 6) stop.abort();
    return null;
  };
  const first = deviceOf(server, { clockwork, onProblem: (error) => problems.push(error?.code ?? null) });
  await first.run({ signal: stop.signal });
  assert.equal(visits, 6);
  assert.deepEqual(problems, ["invalid-format", null]); // and it has passed
  assert.ok(clockwork.time > NOW + 4 * 60 && clockwork.time < NOW + 5 * 60);
  // Another tab that starts now finds that the server was visited.
  const again = new AbortController();
  const other = deviceOf(server, { state: first.kept, clockwork, sleep: async (seconds) => { again.abort(seconds); } });
  clockwork.time -= 5;
  visits = 6;
  await other.run({ signal: again.signal });
  assert.ok(visits <= 7);
});

test("run: a token or key that the server itself refuses ends it", async () => {
  await assert.rejects(deviceOf(new Server(), { enrolmentKey: "wrong" }).run(), Unauthorised);
});

test("abort: before, during a request, during a pause; what is sealed waits for the next visit", async () => {
  const server = new Server();
  server.open(text());
  const device = deviceOf(server);
  await assert.rejects(device.visit({ signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(server.requests.length, 0);
  const stop = new AbortController();
  server.before = (request) => {
    if (request.body.rounds !== false) return null;
    stop.abort(new Error("the page is hidden"));
    return new Promise((_, reject) => {
      if (request.signal.aborted) reject(request.signal.reason);
      request.signal.addEventListener("abort", () => reject(request.signal.reason));
    });
  };
  await assert.rejects(device.visit({ signal: stop.signal }), /the page is hidden/);
  const sealed = server.requests.at(-1).body.reports[0].sealed;
  const again = new AbortController();
  server.before = () => problem(503, "busy");
  const paused = deviceOf(server, { state: device.kept, sleep: (_, signal) => { again.abort(); return Promise.reject(signal.reason); } });
  await assert.rejects(paused.visit({ signal: again.signal }), { name: "AbortError" });
  server.before = () => null;
  await device.visit();
  assert.deepEqual(server.reports("q1-0"), [sealed]);
});

test("a server that is expensive to visit is visited less often", () => {
  const allowance = new Allowance(100, 10);
  assert.equal(allowance.rest(100, 0), 0);
  assert.equal(allowance.rest(50, 0), 5);
  assert.equal(allowance.rest(0, 5), 0);
});
