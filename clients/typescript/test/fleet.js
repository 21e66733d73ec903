// A fleet's server in memory, a policy, and what devices in tests are made of.
import { AEAD_AES_128_GCM, CipherSuite, KDF_HKDF_SHA256, KEM_DHKEM_X25519_HKDF_SHA256 } from "hpke";
import { configurationHash, Device, MemoryState } from "../dist/index.js";
import { hex } from "../dist/bytes.js";

export const ONE = 2 ** 32;
export const NOW = 1_790_000_000;
export const SUITE = new CipherSuite(KEM_DHKEM_X25519_HKDF_SHA256, KDF_HKDF_SHA256, AEAD_AES_128_GCM);
export const KEYS = await SUITE.GenerateKeyPair(true);
export const PUBLIC_KEY = hex(await SUITE.SerializePublicKey(KEYS.publicKey));

/** A small table, made by hand: it guarantees nothing, and is for tests only. */
export const POLICY = {
  version: 1, max_epsilon: 4, max_delta: 1e-5, period_epsilon: 20, period_delta: 1e-4, period_days: 30,
  min_threshold: 5, max_contributions: 10, hide_from_contact_list: true, coins: "any",
  attributes: null, filters: null, pinned_key: null,
  table: {
    bounds: [4, 1e-5, 20, 1e-4],
    rounds: [1, 2, 4, 1000],
    rows: [
      { threshold: 5, limits: [ONE / 8, ONE / 16, ONE / 32, 0], rates: [ONE / 64, ONE / 8], costs: [100_000_000, 400_000_000] },
      { threshold: 20, limits: [ONE / 2, ONE / 4, ONE / 4, ONE / 8], rates: [ONE / 64, ONE / 4, ONE / 2], costs: [10_000_000, 100_000_000, 300_000_000] },
    ],
  },
};

/** A configuration as an object; `changes` replace members. */
export function configuration(changes = {}) {
  const { query = "q1", index = 0, plan = {}, ...rest } = changes;
  const rates = { contact_rate: ONE, device_rate: ONE, aggregator_rate: ONE / 4, ...rest };
  const sampling_rate = Number(BigInt(rates.contact_rate) * BigInt(rates.device_rate) * BigInt(rates.aggregator_rate)) / 2 ** 96;
  return {
    version: 3, fleet: "default", query, index, round: `${query}-${index}`,
    question: { kind: "values", columns: ["country"] },
    plan: { format: "thresher-plan", version: 1, sampling_rate, threshold: 25, epsilon: 1, delta: 1e-8, adjacency: "replace", rounds: 1, ...plan },
    bucket_size: 64, deadline: NOW + 86_400, key_id: "k1", public_key: PUBLIC_KEY,
    guarantees: { analyst: {}, contact_list: {}, injected: {} },
    ...rates,
  };
}

export const text = (changes) => JSON.stringify(configuration(changes));

/** What is inside sealed bytes: parsed JSON, one for each piece. */
export async function opened(sealed, round, size = 64) {
  const bytes = Uint8Array.from(atob(sealed), (character) => character.charCodeAt(0));
  const info = await configurationHash(round);
  const pieces = [];
  for (let at = 0; at < bytes.length; at += size + 48) {
    const plain = await SUITE.Open(KEYS, bytes.slice(at, at + 32), bytes.slice(at + 32, at + size + 48), { info });
    if (plain.length !== size) throw new Error("size");
    pieces.push(JSON.parse(new TextDecoder().decode(plain.subarray(2, 2 + plain[0] * 256 + plain[1]))));
  }
  return pieces;
}

const json = (status, body, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });

export const problem = (status, code, headers = {}) =>
  new Response(JSON.stringify({ type: `urn:thresher:problem:${code}`, title: code, status, code, detail: "…" }), {
    status, headers: { "content-type": "application/problem+json; charset=utf-8", ...headers },
  });

/** A server that knows what every device has handed in, and refuses what breaks the protocol. */
export class Server {
  requests = [];
  rounds = [];
  comeBack = 60;
  identity = null;
  /** token → round → sealed */
  devices = new Map();
  /** Called with each request before it is answered; what it returns is the answer. */
  before = () => null;
  /** Called after it was answered: what it returns replaces the answer. */
  after = () => null;

  open(...rounds) {
    this.rounds.push(...rounds);
  }

  fetch = async (url, init) => {
    if (init.redirect !== "error" || init.credentials !== "omit" || init.cache !== "no-store" || init.referrerPolicy !== "no-referrer") {
      throw new Error("options");
    }
    const request = { path: new URL(url).pathname, ...init, body: JSON.parse(init.body), length: init.body.length };
    this.requests.push(request);
    return (await this.before(request)) ?? (await this.after(request, await this.#answer(request))) ?? this.last;
  };

  async #answer(request) {
    return (this.last = await this.#respond(request));
  }

  async #respond({ path, headers, body, length }) {
    const token = headers.authorization.replace("Bearer ", "");
    if (length > 256 * 1024) return problem(413, "too-long");
    if (JSON.stringify(body.versions) !== "[2]") return problem(400, "invalid-format");
    if (path === "/v2/devices") {
      if (token !== "key") return problem(401, "unauthorised");
      const name = `token-${this.devices.size + 1}`;
      this.devices.set(name, new Map());
      return json(201, { version: 2, token: name, identity: this.identity?.public ?? null, extra: 1 });
    }
    const handed = this.devices.get(token);
    if (!handed) return problem(401, "unauthorised", this.identity ? { "thresher-proof": await this.identity.proof(headers["thresher-nonce"], token) } : {});
    if (body.reports.length > 256) return problem(422, "too-many");
    const reports = body.reports.map(({ round, sealed }) => {
      if (!this.rounds.some((each) => JSON.parse(each).round === round)) return { round, status: "closed" };
      if (handed.has(round) && handed.get(round) !== sealed) return { round, status: "conflict" };
      handed.set(round, sealed);
      return { round, status: "taken" };
    });
    const rounds = body.rounds ? this.rounds.filter((each) => !handed.has(nameOf(each))) : [];
    return json(200, { version: 2, reports, rounds, come_back: this.comeBack, more: null });
  }

  /** All that was handed in for a round, by all devices. */
  reports(round) {
    return [...this.devices.values()].map((handed) => handed.get(round)).filter((sealed) => sealed !== undefined);
  }
}

function nameOf(text) {
  try {
    return JSON.parse(text).round;
  } catch {
    return null;
  }
}

/** A server's identity. */
export async function newIdentity() {
  const keys = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const bytes = (digits) => Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16));
  return {
    public: hex(new Uint8Array(await crypto.subtle.exportKey("raw", keys.publicKey))),
    async proof(nonce, token) {
      const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
      const statement = new Uint8Array([...new TextEncoder().encode("thresher unknown token 1\0"), ...bytes(nonce), ...hash]);
      return hex(new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, keys.privateKey, statement)));
    },
  };
}

/** A clock that only tests move; sleeping moves it too, and is written down. */
export class Clock {
  time = NOW;
  slept = [];
  now = () => this.time;
  sleep = async (seconds, signal) => {
    signal?.throwIfAborted();
    this.slept.push(seconds);
    this.time += seconds;
  };
}

/** A device of a server. */
export function deviceOf(server, settings = {}) {
  const clock = settings.clockwork ?? new Clock();
  const state = settings.state ?? new MemoryState();
  const device = new Device("https://fleet.example/", {
    enrolmentKey: "key", attributes: { country: "fr" }, policy: POLICY, state, fetch: server.fetch, clock: clock.now,
    sleep: clock.sleep, onProblem: () => {}, ...settings,
  });
  return Object.assign(device, { clockwork: clock, kept: state });
}

export const stateOf = async (device) => JSON.parse(await device.kept.read());
