/** A device without its network: the requests that it sends, and what answers mean. */

import type { KEM } from "hpke";
import { readAttributes, type Attributes } from "./attributes.js";
import { base64, hex, sha256, utf8, type Bytes } from "./bytes.js";
import { chosen, plaintexts } from "./choices.js";
import { proves, type Verify } from "./identity.js";
import { continued, logEntry } from "./log.js";
import { decidedReports, enrolRequest, visitRequest, type Enrolled, type Request, type Visited } from "./messages.js";
import { decoy } from "./plaintext.js";
import { queryName, refusal, type Charge, type Policy, type Reason } from "./policy.js";
import { drawAll, randomWhole, secureRandomness, type Draws, type Randomness } from "./randomness.js";
import { readRound, reportSize, type Listed, type Round } from "./rounds.js";
import { configurationHash, openKem, seal, type Fallback } from "./sealing.js";
import {
  decodeState, EMPTY, encodeState, type DeviceState, type LogEntry, type StateStore, type Status,
} from "./state.js";

/** What a core is made of. */
export interface CoreSettings {
  readonly attributes: Attributes;
  /** What the device agrees to, or a function that loads it once. */
  readonly policy: Policy | (() => Promise<Policy>);
  readonly state: StateStore;
  /** Seconds since 1970. */
  readonly clock?: (() => number) | undefined;
  /** For tests only. */
  readonly randomness?: Randomness | undefined;
  readonly readingSeconds?: number | undefined;
  readonly fallback?: Fallback | undefined;
  readonly verify?: Verify | undefined;
}

/** New rounds that a device looks at in one visit. */
const MOST_LOOKS = 256;
/** Rounds that a device remembers at a time. */
const MOST_RECORDS = 10_000;
/** Bytes of reports that wait at a time. */
const MOST_SEALED = 2 ** 20;

/**
 * One device: what it holds, its policy and its state. `Device` drives it over HTTP.
 *
 * Guarantee: a round's coins are tossed once. The sealed bytes, which hide the outcome, are saved before a request has
 * them, and it always has the same bytes, also after a crash. Whether a round is answered, and with how many bytes,
 * never depends on what the device holds: a device without a value sends a decoy.
 * Edge cases: if saving fails, nothing was sealed, and the round is decided anew at the next visit.
 */
export class DeviceCore {
  readonly #settings: CoreSettings;
  readonly #clock: () => number;
  readonly #randomness: Randomness;
  #kem: KEM | undefined;
  #kept: DeviceState = EMPTY;
  #text: string | null = null;
  #tried = new Set<string>();
  #policy!: Policy;

  constructor(settings: CoreSettings) {
    this.#settings = settings;
    this.#clock = settings.clock ?? (() => Date.now() / 1000);
    this.#randomness = settings.randomness ?? secureRandomness;
  }

  /** What was last read or saved. */
  get state(): DeviceState {
    return this.#kept;
  }

  /** Seconds since 1970, on the device's clock. */
  now(): number {
    return this.#clock();
  }

  /** The same device, beside a visit that goes on. Of the two, the one that saves later gets a `Conflict`. */
  another(): DeviceCore {
    return new DeviceCore(this.#settings);
  }

  /** Begins a visit: reads the state again, since another tab may have changed it. */
  async load(): Promise<DeviceState> {
    this.#text = await this.#settings.state.read();
    this.#kept = decodeState(this.#text);
    this.#tried.clear();
    return this.#kept;
  }

  /** Whether nobody has changed the state since it was read: no request is sent otherwise. */
  async isCurrent(): Promise<boolean> {
    return (await this.#settings.state.read()) === this.#text;
  }

  // Enrolling

  /**
   * Asks for a token.
   *
   * Guarantee: the state can be saved, and the platform can seal. Otherwise every attempt would leave one more device
   * at the server.
   */
  async enrolRequest(enrolmentKey: string): Promise<Request> {
    await this.#sealing();
    await this.#save({});
    return enrolRequest(enrolmentKey);
  }

  /** Saves the token and the public key of the server that gave it. */
  enrolled({ token, identity }: Enrolled): Promise<void> {
    return this.#save({ token, identity });
  }

  /** Whether a proof shows that the server that enrolled this device does not know the token of a request. */
  async isUnknown({ nonce, token }: Request, proof: string): Promise<boolean> {
    const { identity } = this.#kept;
    return identity !== null && nonce !== null && proves(identity, nonce, token, proof, this.#settings.verify);
  }

  // A visit

  /** Whether a report waits that this visit has not handed in yet. */
  get isWaiting(): boolean {
    return this.#waiting().length > 0;
  }

  /**
   * Hands in what waits, as much as fits, and asks for rounds if `rounds` is true.
   *
   * The device must be enrolled.
   * Edge cases: where not everything fits it is chosen at random, so that nothing waits for ever. What
   * the server has answered to waits for the next visit, also if it was not decided.
   */
  visitRequest(rounds: boolean): Request {
    const token = this.#kept.token!;
    const waiting = this.#waiting();
    let request = visitRequest(token, waiting, rounds);
    if (request.reports.length < waiting.length) {
      const order = chosen(BigInt(waiting.length), waiting.map(() => randomWhole(16, secureRandomness)));
      request = visitRequest(token, order.map((place) => waiting[Number(place)]!), rounds);
    }
    return request;
  }

  /** Notes what became of the reports of a request, and saves it. */
  async note(request: Request, answer: Visited): Promise<void> {
    for (const round of request.reports) this.#tried.add(round);
    const statuses = decidedReports(request, answer);
    if (statuses.size > 0) await this.#save(this.#ended(this.#kept, statuses));
  }

  /**
   * Decides every new round of an answer, answers, seals, and saves all of it at once.
   *
   * @param signal stops between two rounds; then nothing was sealed.
   */
  async decide(answer: Visited, signal?: AbortSignal): Promise<void> {
    const { policy } = this.#settings;
    this.#policy ??= typeof policy === "function" ? await policy() : policy;
    const now = this.#clock();
    const listed = new Map<string, Listed>();
    for (const text of answer.rounds.slice(0, MOST_RECORDS + MOST_LOOKS)) {
      const read = readRound(text);
      if (read && !listed.has(read.name)) listed.set(read.name, read);
    }
    const state = this.#aged(listed, now);
    const records = new Map(state.records);
    const charges = new Map(state.charges);
    const entries: LogEntry[] = [];
    const answered: { round: Round; key: string; draws: Draws }[] = [];
    let looks = 0;
    let room = MOST_SEALED;
    for (const { sealed = "" } of records.values()) room -= atob(sealed).length;
    for (const each of listed.values()) {
      const { name, round } = each;
      if (records.has(name)) continue;
      if (records.size >= MOST_RECORDS || (looks += 1) > MOST_LOOKS) break;
      const key = round ? await queryKey(round) : "";
      const reason = round ? this.#refusal(round, key, charges, now) : "unreadable";
      if (!reason && (room -= reportSize(round!)) < 0) break;
      entries.push(logEntry(each, reason, now));
      if (reason || !round) {
        records.set(name, { status: "refused", deadline: now, time: now, reason: reason ?? "unreadable" });
        continue;
      }
      const { parts, attributes } = round.question;
      answered.push({ round, key, draws: drawAll(round.terms, parts.length, attributes.length, this.#randomness) });
      charges.set(key, charged(round, charges.get(key), now));
      records.set(name, { status: "sealed", deadline: round.deadline, time: now, query: key });
    }
    const names = new Set(answered.flatMap(({ round }) => round.question.attributes));
    const held = await readAttributes(this.#settings.attributes, names, this.#settings.readingSeconds ?? 5);
    for (const { round, draws } of answered) {
      signal?.throwIfAborted();
      const sealed = base64(await this.#seal(round, draws, held));
      records.set(round.name, { ...records.get(round.name)!, sealed });
    }
    const due = now + answer.comeBack;
    await this.#save({ ...state, records, charges, due, log: continued(state.log, entries, new Map()) });
  }

  /**
   * Forgets everything but the charges, or takes part again.
   *
   * Guarantee: the budget that was spent stays spent. Sealed bytes that are forgotten count as dropped now.
   */
  async consent(consent: boolean): Promise<void> {
    if (consent === this.#kept.consent) return;
    if (consent) return this.#save({ consent });
    const sealed = [...this.#kept.records].filter(([, record]) => record.status === "sealed");
    const { charges } = this.#ended(this.#kept, new Map(sealed.map(([name]) => [name, "closed"])));
    await this.#save({ ...EMPTY, consent, charges });
  }

  // Inside

  #waiting(): [string, string][] {
    const waiting: [string, string][] = [];
    for (const [name, { sealed }] of this.#kept.records) {
      if (sealed !== undefined && !this.#tried.has(name)) waiting.push([name, sealed]);
    }
    return waiting;
  }

  #refusal(round: Round, key: string, charges: ReadonlyMap<string, Charge>, now: number): Reason | null {
    const others = [...charges].filter(([other]) => other !== key).map(([, charge]) => charge);
    return refusal(this.#policy, round, charges.get(key), others, now);
  }

  /** Tosses, answers and seals. All of it is done whatever the coins and the values are. */
  async #seal(round: Round, draws: Draws, held: ReadonlyMap<string, unknown>): Promise<Bytes> {
    const { question, bucketSize, terms: { contributions } } = round;
    let answers: (Bytes | null)[] = [];
    try {
      const values = question.attributes.map((name) => held.get(name));
      answers = plaintexts(question, values, bucketSize, contributions, draws);
    } catch {
      // An object of the app has thrown: there is no value.
    }
    const pieces = draws.decoys.map((random, i) => {
      const abstains = decoy(random, bucketSize);
      return (draws.heads[i] && answers[i]) || abstains;
    });
    return seal(await this.#sealing(), pieces, round.publicKey, await configurationHash(round.text));
  }

  async #sealing(): Promise<KEM> {
    return (this.#kem ??= await openKem(this.#settings.fallback));
  }

  /** The state as of now: without records and charges that are over, and without bytes of rounds that have ended. */
  #aged(listed: ReadonlyMap<string, unknown>, now: number): DeviceState {
    const period = this.#policy.period_days * 86_400;
    const late = new Map<string, Status>();
    for (const [name, { status, deadline }] of this.#kept.records) {
      if (status === "sealed" && now >= deadline && !listed.has(name)) late.set(name, "closed");
    }
    const state = this.#ended(this.#kept, late);
    const records = new Map(
      [...state.records].filter(
        ([name, { status, deadline, time }]) =>
          status === "sealed" || listed.has(name) || now < Math.max(deadline, time + period),
      ),
    );
    const waiting = new Set([...records.values()].map(({ query }) => query));
    const charges = new Map([...state.charges].filter(([key, { time }]) => waiting.has(key) || now - time < period));
    return { ...state, records, charges };
  }

  /** A state in which some rounds are over: their bytes are dropped, and their charges begin to age now. */
  #ended(state: DeviceState, statuses: ReadonlyMap<string, Status>): DeviceState {
    if (statuses.size === 0) return state;
    const now = this.#clock();
    const [records, charges] = [new Map(state.records), new Map(state.charges)];
    for (const [name, status] of statuses) {
      const record = records.get(name);
      if (record?.status !== "sealed") continue;
      records.set(name, { status, deadline: record.deadline, time: record.time });
      const charge = charges.get(record.query!);
      if (charge) charges.set(record.query!, { ...charge, time: Math.max(charge.time, now) });
    }
    return { ...state, records, charges, log: continued(state.log, [], statuses) };
  }

  /** Saves a changed state. Guarantee: it counts only once it is durable. */
  async #save(changes: Partial<DeviceState>): Promise<void> {
    const changed = { ...this.#kept, ...changes };
    const text = encodeState(changed);
    await this.#settings.state.replace(this.#text, text);
    this.#kept = changed;
    this.#text = text;
  }
}

/** Under which key a query is charged: a hash, so that what is kept after switching off does not name it. */
async function queryKey(round: Round): Promise<string> {
  return hex(await sha256(utf8(`thresher query 1\0${queryName(round)}`)));
}

/** The charge of a query after one more of its rounds was sealed. */
function charged(round: Round, charge: Charge | undefined, now: number): Charge {
  return {
    terms: round.terms,
    indexes: [...(charge?.indexes ?? []), round.index],
    time: Math.max(charge?.time ?? now, now),
  };
}
