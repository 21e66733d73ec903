/** A device on the network. */

import type { Attributes } from "./attributes.js";
import { Allowance, backOff } from "./back-off.js";
import { Channel, type Answer, type Fetch } from "./channel.js";
import { DeviceCore } from "./core.js";
import {
  Conflict, InvalidFormat, InvalidSetting, ServerUnavailable, StoreUnavailable, Unauthorised, type ThresherError,
} from "./errors.js";
import type { Verify } from "./identity.js";
import { IndexedDBState } from "./indexeddb-state.js";
import { isToken, LONGEST_WAIT, readEnrolled, readVisited, type Request, type Visited } from "./messages.js";
import { readPolicy, type Policy } from "./policy.js";
import type { Randomness } from "./randomness.js";
import type { Fallback } from "./sealing.js";
import { decodeState, outcomesOf, type LogEntry, type Outcome, type StateStore } from "./state.js";
import { joined, sleep, type Sleep } from "./turns.js";

/** Settings of a device. */
export interface DeviceSettings {
  /** What the device holds. */
  readonly attributes: Attributes;
  /** The key to enrol with; a device that is enrolled already needs none. */
  readonly enrolmentKey?: string;
  /** A compiled policy; by default the one that Thresher ships. */
  readonly policy?: unknown;
  /** Where the state is kept: by default the browser's IndexedDB. In Node give a `FileState`. */
  readonly state?: StateStore;
  /**
   * The app's own record of the person's consent, applied at each visit: false is silence and forgetting. Without it
   * the device keeps what `consent` was last called with.
   */
  readonly consent?: boolean;
  /** Seconds that a visit waits in all for a server that does not answer; 120 by default. */
  readonly patience?: number;
  /** Seconds that the functions among the attributes may take; 5 by default. */
  readonly readingSeconds?: number;
  /** The module `@panva/hpke-noble`, for platforms whose WebCrypto has no X25519; imported if it is not given. */
  readonly fallback?: Fallback;
  /** Verifies Ed25519 signatures, for platforms whose WebCrypto has none: only enrolling again by itself needs it. */
  readonly verify?: Verify;
  /**
   * Gets the first problem of several in a row that `run` waits out, and null when a visit succeeds again. By default
   * a problem is a warning on the console.
   */
  readonly onProblem?: (problem: ThresherError | null) => void;
  /** In place of the platform's own: for tests. */
  readonly fetch?: Fetch;
  readonly clock?: () => number;
  readonly sleep?: Sleep;
  readonly randomness?: Randomness;
}

/** How a visit or a run is stopped. */
export interface Stop {
  readonly signal?: AbortSignal;
}

/** Bytes that `run` may read from its server: in one burst, and per second in the long run. */
const TRAFFIC = [64 * 1024 * 1024, 64 * 1024] as const;
/** Problems that `run` waits out. */
const PASSING = [ServerUnavailable, StoreUnavailable, InvalidFormat, Conflict] as const;
/** Seconds after which `run` looks again whether a device that is switched off was switched on. */
const SILENCE = 60;
/** Seconds after which a device that waits for an answer looks again whether another tab has changed the state. */
const WATCH = 1;

/**
 * A device that answers from what it holds and sends nothing that its policy does not allow.
 *
 *     const device = new Device("https://fleet.example", { enrolmentKey: "…", attributes: { country: "fr" } });
 *     await device.visit();
 *
 * Guarantee: see `DeviceCore`. Visits take turns, in all tabs and workers of the origin.
 * Edge cases: a device that its server does not know any more, because the server was restored from a backup, enrols
 * again by itself if it was given the enrolment key and the server proves to be the one that enrolled it; what it has
 * sealed and was charged stays.
 */
export class Device {
  readonly #core: DeviceCore;
  readonly #channel: Channel;
  readonly #store: StateStore;
  readonly #settings: DeviceSettings;
  readonly #sleep: Sleep;
  readonly #traffic = new Allowance(...TRAFFIC);
  #consent: boolean | undefined;
  #silence = new AbortController();
  /** How many seconds the visit that goes on may still wait for its server, in all. */
  #patience = 0;
  /** How many visits in a row have failed. */
  #failures = 0;
  /** Why a visit of `run` could not hand in what it has sealed. */
  #undelivered: unknown;

  constructor(server: string, settings: DeviceSettings) {
    const { attributes, enrolmentKey, policy, state, consent, patience = 120, readingSeconds = 5 } = settings ?? {};
    const check = (setting: string, isRight: boolean, problem: string): void => {
      if (!isRight) throw new InvalidSetting(setting, problem);
    };
    check("attributes", Object(attributes) === attributes, 'must be what the device holds, as { colour: "red" }');
    check("enrolmentKey", enrolmentKey === undefined || isToken(enrolmentKey), "must be copied whole, without spaces");
    check("patience", patience >= 0, "must be a number of seconds");
    check("readingSeconds", readingSeconds > 0 && readingSeconds <= 3600, "must be above 0 and at most 3600 seconds");
    const clock = settings.clock ?? (() => Date.now() / 1000);
    this.#settings = settings;
    this.#consent = consent;
    this.#sleep = settings.sleep ?? sleep;
    this.#channel = new Channel(server, settings.fetch ?? ((url, init) => fetch(url, init)), clock);
    this.#store = state ?? browserState(this.#channel.url);
    const checked = policy === undefined ? loadDefaultPolicy : readPolicy(policy);
    this.#core = new DeviceCore({ ...settings, clock, readingSeconds, policy: checked, state: this.#store });
  }

  /**
   * Gets a token with the enrolment key, unless the device has one.
   *
   * @param again replaces a token that the server does not know any more. What was sealed and charged stays.
   */
  async enrol({ again = false, signal }: Stop & { again?: boolean } = {}): Promise<void> {
    await this.#alone(async (stop) => {
      if (again || this.#core.state.token === null) await this.#enrol(stop);
    }, signal);
  }

  /**
   * One visit: enrols if need be, asks, answers what the policy allows, and hands in.
   *
   * @returns where the device now stands with the rounds of this visit; none where the person has switched it off.
   * @throws ServerUnavailable if the server could not be asked, Unauthorised if it does not know the device,
   *   StoreUnavailable if the state cannot be saved, Conflict if another tab has changed it, and the signal's reason.
   */
  async visit({ signal }: Stop = {}): Promise<Outcome[]> {
    return (await this.#alone((stop) => this.#visit(stop), signal)) ?? [];
  }

  /**
   * Visits whenever the server wants to see the device, until the signal aborts.
   *
   * Problems that may pass are waited for. Rejects if the server itself says that the device's token or enrolment key
   * is not valid. Several tabs together visit about as often as one.
   */
  async run({ signal }: Stop = {}): Promise<void> {
    while (!signal?.aborted) {
      const before = this.#channel.read;
      let wait = 0;
      let failure: unknown;
      this.#undelivered = undefined;
      try {
        wait = (await this.#alone((stop) => this.#visitIfDue(stop), signal)) ?? SILENCE;
        failure = this.#undelivered;
      } catch (error) {
        if (signal?.aborted) return;
        if (!PASSING.some((kind) => error instanceof kind)) throw error;
        failure = error;
      }
      if (!failure && this.#failures > 0) this.#settings.onProblem?.(null);
      this.#failures = failure ? this.#failures + 1 : 0;
      if (failure) {
        if (this.#failures === 1) (this.#settings.onProblem ?? console.warn)(failure as ThresherError);
        const retryAfter = failure instanceof ServerUnavailable ? failure.retryAfter : null;
        wait = Math.max(wait, backOff(this.#failures, retryAfter));
      }
      const rest = this.#traffic.rest(this.#channel.read - before, performance.now() / 1000);
      await this.#sleep(Math.max(wait, Math.min(rest, LONGEST_WAIT)), signal).catch(() => {});
    }
  }

  /** Where the device stands with every round that it remembers. */
  async outcomes(): Promise<Outcome[]> {
    return outcomesOf(await this.#read());
  }

  /** What the device was asked and what became of it, the latest last: for the person whose device it is. */
  async log(): Promise<readonly LogEntry[]> {
    return (await this.#read()).log;
  }

  /**
   * Switches the device off or on; without an argument it says which of the two it is.
   *
   * Off is silence and forgetting: no request is made, and token, identity, sealed bytes, records and log are deleted.
   * Only charges stay, under hashes of the queries' names, so that switching off and on does not renew the budget.
   */
  async consent(consent?: boolean): Promise<boolean> {
    if (consent === undefined) return this.#consent ?? (await this.#read()).consent;
    this.#consent = consent;
    if (!consent) {
      this.#silence.abort(); // ends a visit of this object at once, and its request
      this.#silence = new AbortController();
    }
    // Without waiting for the visits of other tabs: they notice it, abort their requests, and save nothing.
    const core = this.#core.another();
    for (;;) {
      await core.load();
      try {
        await core.consent(consent);
        this.#consent = this.#settings.consent === undefined ? undefined : consent; // other tabs may change it again
        return consent;
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
      }
    }
  }

  // Inside

  /** Runs work with a state that was just read, alone; undefined where the person has switched the device off. */
  async #alone<T>(work: (stop: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T | undefined> {
    const silence = this.#silence.signal;
    const controller = joined(signal, silence);
    const stop = controller.signal;
    try {
      return await this.#store.exclusive(async () => {
        stop.throwIfAborted();
        this.#patience = this.#settings.patience ?? 120;
        const { consent } = await this.#core.load();
        if (this.#consent !== undefined && this.#consent !== consent) await this.#core.consent(this.#consent);
        return this.#core.state.consent ? work(stop) : undefined;
      }, stop);
    } catch (error) {
      if (silence.aborted && !signal?.aborted) return undefined;
      throw error;
    } finally {
      controller.abort();
    }
  }

  /** Visits unless another tab has done so lately; seconds until the next visit. */
  async #visitIfDue(stop: AbortSignal): Promise<number> {
    const left = (): number => this.#core.state.due - this.#core.now();
    if (left() > 0 && left() <= LONGEST_WAIT) return left();
    await this.#visit(stop);
    return Math.max(left(), 1);
  }

  async #visit(stop: AbortSignal): Promise<Outcome[]> {
    const core = this.#core;
    const before = core.state.records;
    if (core.state.token === null) await this.#enrol(stop);
    const [request, visited] = await this.#ask(stop);
    await core.note(request, visited);
    await core.decide(visited, stop);
    while (core.isWaiting && (await this.#handIn(stop)));
    return outcomesOf(core.state).filter(({ round }) => (before.get(round)?.status ?? "sealed") === "sealed");
  }

  /** Hands in what was sealed. False where the server does not take it now: it waits for the next visit. */
  async #handIn(stop: AbortSignal): Promise<boolean> {
    const request = this.#core.visitRequest(false);
    try {
      const visited = await this.#insist(request, readVisited, stop);
      if (visited) await this.#core.note(request, visited);
      else this.#undelivered = new ServerUnavailable("The server does not know this device.", null);
      return visited !== null; // null is a 401: the next visit tells whether that is final
    } catch (error) {
      if (!(error instanceof ServerUnavailable || error instanceof InvalidFormat)) throw error;
      this.#undelivered = error;
      return false;
    }
  }

  /** Asks for rounds. A device whose own server does not know it any more enrols again first, once. */
  async #ask(stop: AbortSignal): Promise<[Request, Visited]> {
    for (let hasEnrolled = false; ; hasEnrolled = true) {
      const request = this.#core.visitRequest(true);
      const visited = await this.#insist(request, readVisited, stop);
      if (visited) return [request, visited];
      // Without an identity there is no proof. With one, the server has just given a valid proof.
      if (!this.#core.state.identity || hasEnrolled || this.#settings.enrolmentKey === undefined) {
        throw new Unauthorised(
          "The server does not know this device.",
          "Call device.enrol({ again: true }).",
        );
      }
      await this.#enrol(stop);
    }
  }

  async #enrol(stop: AbortSignal): Promise<void> {
    const { enrolmentKey } = this.#settings;
    if (enrolmentKey === undefined) {
      throw new InvalidSetting("enrolmentKey", "is needed to enrol", "An operator makes it.");
    }
    const request = await this.#core.enrolRequest(enrolmentKey);
    const enrolled = await this.#insist(request, readEnrolled, stop);
    if (!enrolled) {
      throw new Unauthorised(
        "The server does not take this enrolment key.",
        "It is wrong, used up, expired or revoked.",
      );
    }
    await this.#core.enrolled(enrolled);
  }

  /**
   * Sends a request until the server says yes or no, or patience ends.
   *
   * @returns what was read, or null where the server itself refuses the token or key for good.
   * @throws Conflict soon after another tab has changed the state. A request that is under way is aborted.
   */
  async #insist<T>(request: Request, read: (body: unknown) => T | null, signal: AbortSignal): Promise<T | null> {
    const controller = joined(signal);
    const stop = controller.signal;
    let isLooking = false;
    const watch = setInterval(async () => {
      if (isLooking) return; // the store is slow
      isLooking = true;
      // A look that fails aborts nothing: the device looks again before its next request.
      if (!(await this.#core.isCurrent().catch(() => true))) controller.abort(new Conflict());
      isLooking = false;
    }, WATCH * 1000);
    try {
      for (let repetition = 1; ; repetition += 1) {
        if (!(await this.#core.isCurrent())) throw new Conflict();
        const began = performance.now();
        const answer = await this.#channel.ask(request, stop);
        const { status } = answer;
        const isDenied = status === 401 || status === 403;
        const result = status !== null && status < 300 ? read(answer.body) : null;
        if (result !== null) return result;
        if (isDenied && (await this.#isFinal(request, answer))) return null;
        if (status !== null && status >= 300 && !isDenied && status !== 408 && status !== 429 && status < 500) {
          throw new InvalidFormat(
            `The server refused a request (status ${status}).`,
            "Check its address and its version.",
          );
        }
        const retryAfter = isDenied ? null : answer.retryAfter;
        const wait = backOff(repetition, retryAfter);
        this.#patience -= wait + (status === null ? (performance.now() - began) / 1000 : 0);
        if (!(this.#patience >= 0)) {
          const words = answer.problem || `${this.#channel.url} has no answer yet (status ${status}).`;
          throw new ServerUnavailable(words, retryAfter);
        }
        await this.#sleep(wait, stop);
        stop.throwIfAborted();
      }
    } finally {
      controller.abort();
      clearInterval(watch);
    }
  }

  /** Whether a 401 or 403 is final: to an enrolment key, of a server without identity, or with a valid proof. */
  async #isFinal(request: Request, { status, proof }: Answer): Promise<boolean> {
    if (request.nonce === null || this.#core.state.identity === null) return true;
    return status === 401 && this.#core.isUnknown(request, proof);
  }

  async #read(): ReturnType<DeviceCore["load"]> {
    return decodeState(await this.#store.read());
  }
}

/** The default policy, in a module of its own: a page that gives another does not load it. */
async function loadDefaultPolicy(): Promise<Policy> {
  const module = await import("./default-policy.js").catch(() => {
    throw new ServerUnavailable("The default policy cannot be loaded.", null);
  });
  return readPolicy(module.defaultPolicy());
}

function browserState(name: string): StateStore {
  if (typeof indexedDB === "undefined") {
    throw new InvalidSetting(
      "state", "must be given: this platform has no IndexedDB",
      'In Node: import { FileState } from "@thresher/device/node" and give new FileState("device.json").',
    );
  }
  return new IndexedDBState(name);
}
