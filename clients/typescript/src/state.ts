/** What a device keeps: section 5 of docs/protocol/rounds.md, and the log for the person whose device it is. */

import { InvalidFormat } from "./errors.js";
import type { Charge, Reason } from "./policy.js";

/**
 * Where a device stands with a round.
 *
 *     sealed      it took part: the bytes are kept, and were not acknowledged yet
 *     taken       the server has them
 *     refused     against the policy; nothing was sent
 *     closed      the round ended before the bytes were acknowledged
 *     conflict    the server holds other bytes of this device for this round
 *     rejected    the server says that the bytes are no report of this round
 */
export type Status = "sealed" | "taken" | "refused" | "closed" | "conflict" | "rejected";

/** One round, as the device remembers it. */
export interface RoundRecord {
  readonly status: Status;
  readonly deadline: number;
  /** When it was decided, in seconds since 1970. */
  readonly time: number;
  readonly reason?: Reason;
  /** What is sent, in base64, the same however often; only while the status is `sealed`. */
  readonly sealed?: string;
  /** Under which key its query was charged, while the bytes are kept. */
  readonly query?: string;
}

/** One round, for the person whose device it is. */
export interface LogEntry {
  /** When the device decided, in seconds since 1970. */
  readonly time: number;
  readonly round: string;
  /** `refused` was not answered. Any other status: the device took part. Whether it answered or sat out is not kept. */
  readonly status: Status;
  readonly reason: Reason | null;
  /** What the round asked; null where it could not be read. */
  readonly asked: {
    readonly fleet: string;
    readonly query: string;
    readonly index: number;
    /** As it was asked; of a very long question, its kind alone. */
    readonly question: Readonly<Record<string, unknown>>;
    /** The attributes that the question reads, those of its filter included. */
    readonly attributes: readonly string[];
    readonly threshold: number;
    readonly samplingRate: number;
    readonly rounds: number;
    readonly contributions: number;
    /** Seconds since 1970. */
    readonly deadline: number;
  } | null;
}

/** Where the device stands with one round, and why if it was refused. */
export interface Outcome {
  readonly round: string;
  readonly status: Status;
  readonly reason: Reason | null;
}

/** Where a device stands with every round that it remembers. */
export const outcomesOf = ({ records }: DeviceState): Outcome[] =>
  [...records].map(([round, { status, reason = null }]) => ({ round, status, reason }));

/** All that a device keeps. A changed state is a new value, and counts once it is saved. */
export interface DeviceState {
  readonly token: string | null;
  /** The public key of the server that enrolled the device, in hexadecimal. */
  readonly identity: string | null;
  /** False where the person has switched the device off: then only charges are kept. */
  readonly consent: boolean;
  /** When the server wants to see the device again, so that several tabs do not visit it more often. */
  readonly due: number;
  readonly records: ReadonlyMap<string, RoundRecord>;
  /** By the hash of the query's name. */
  readonly charges: ReadonlyMap<string, Charge>;
  readonly log: readonly LogEntry[];
}

export const EMPTY: DeviceState = {
  token: null, identity: null, consent: true, due: 0, records: new Map(), charges: new Map(), log: [],
};

/** Entries of the log that are kept: the latest. */
export const LONGEST_LOG = 1000;

/**
 * Where a state is kept, as text.
 *
 * `IndexedDBState` is for browsers, `FileState` of "@thresher/device/node" for Node, `MemoryState` for tests.
 */
export interface StateStore {
  /** What was last saved, or null. */
  read(): Promise<string | null>;
  /**
   * Replaces what is kept, durably.
   *
   * Guarantee: if it fails, what was there before is still there.
   *
   * @throws Conflict where something else than `before` is kept; StoreUnavailable where it cannot be saved.
   */
  replace(before: string | null, after: string): Promise<void>;
  /** Runs `work` while no other tab, worker or object with the same state runs its own. */
  exclusive<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

/** The version of what is kept. */
const VERSION = 2;

/** A state as text. */
export const encodeState = (state: DeviceState): string =>
  JSON.stringify({ version: VERSION, ...state, records: [...state.records], charges: [...state.charges] });

/**
 * Reads what `encodeState` wrote; null, where nothing is kept, is an empty state.
 *
 * @throws InvalidFormat for anything else. It is never read as an empty state: the device would toss its coins again.
 */
export function decodeState(text: string | null): DeviceState {
  if (text === null) return EMPTY;
  try {
    const { version, records, charges, ...rest } = JSON.parse(text);
    if (version === VERSION) return { ...rest, records: new Map(records), charges: new Map(charges) };
  } catch {
    // falls through to the error
  }
  throw new InvalidFormat(
    "What is kept is not the state of a device.", "Restore it, or give another state.",
  );
}
