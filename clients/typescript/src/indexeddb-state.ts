import { hex } from "./bytes.js";
import { Conflict, StoreUnavailable } from "./errors.js";
import { randomBytes } from "./randomness.js";
import type { StateStore } from "./state.js";
import { sleep } from "./turns.js";

const DATABASE = "thresher-device";
const STATES = "states";
/** How long a lease lasts that is not renewed, in milliseconds. A hidden page renews once a minute at least. */
const LEASE = 90_000;

interface Lease {
  owner: string;
  until: number;
}

/** The result of a request, or its error. */
const result = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    (request as Partial<IDBOpenDBRequest>).onupgradeneeded = () =>
      (request.result as IDBDatabase).createObjectStore(STATES);
  });

/**
 * A state in the browser's IndexedDB: one for each origin and name.
 *
 * Guarantee: after `replace` the state survives a crash of the browser (`durability: "strict"`). One visit at a time
 * runs in all tabs and workers of an origin: it holds a Web Lock, or, where the browser has none, a lease in the
 * database. Even without either, of two visits only one can save: the other gets a `Conflict` and sends nothing.
 * Edge cases: a private window has a state of its own that ends with it. A browser that refuses the database, and a
 * full quota, are a `StoreUnavailable`.
 */
export class IndexedDBState implements StateStore {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  read(): Promise<string | null> {
    return this.#run((states) => this.#kept(states));
  }

  async replace(before: string | null, after: string): Promise<void> {
    const isSaved = await this.#run(async (states) => {
      const kept = await this.#kept(states);
      if (kept === before) states.put(after, this.#name);
      return kept === before;
    });
    if (!isSaved) throw new Conflict();
  }

  async exclusive<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    // The lock's own type loses that of the work's result.
    if (locks) return (await locks.request(`${DATABASE} ${this.#name}`, signal ? { signal } : {}, work)) as T;
    const owner = hex(randomBytes(16));
    while (!(await this.#lease(owner, LEASE))) await sleep(1, signal);
    const renewal = setInterval(() => void this.#lease(owner, LEASE).catch(() => {}), LEASE / 3);
    try {
      return await work();
    } finally {
      clearInterval(renewal);
      await this.#lease(owner, 0).catch(() => {}); // it ends by itself
    }
  }

  async #kept(states: IDBObjectStore): Promise<string | null> {
    return (await result<string | undefined>(states.get(this.#name))) ?? null;
  }

  /**
   * Takes or renews the lease; false where another has it.
   *
   * Edge cases: one that ends later than any can comes from a clock that was set back, and does not count.
   */
  #lease(owner: string, length: number): Promise<boolean> {
    const key = `${this.#name} lease`;
    return this.#run(async (states) => {
      const lease = await result<Lease | undefined>(states.get(key));
      const left = lease ? lease.until - Date.now() : 0;
      if (lease && lease.owner !== owner && left > 0 && left <= LEASE) return false;
      states.put({ owner, until: Date.now() + length } satisfies Lease, key);
      return true;
    });
  }

  /** Runs work in one durable transaction. A connection is opened each time, so that none is left to go stale. */
  async #run<T>(work: (states: IDBObjectStore) => Promise<T>): Promise<T> {
    let database: IDBDatabase | undefined;
    try {
      database = await result(indexedDB.open(DATABASE, 1));
      const transaction = database.transaction(STATES, "readwrite", { durability: "strict" });
      const ended = new Promise<void>((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error);
      });
      const [found] = await Promise.all([work(transaction.objectStore(STATES)), ended]);
      return found;
    } catch (error) {
      throw new StoreUnavailable("The browser does not keep the device's state.", error);
    } finally {
      database?.close();
    }
  }
}
