import { Conflict, MissingExtra, StoreUnavailable } from "./errors.js";
import type { StateStore } from "./state.js";

const DATABASE = "thresher-device";
const STATES = "states";

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
 * runs in all tabs and workers of an origin: it holds a Web Lock. Even without it, of two visits only one could save:
 * the other would get a `Conflict` and send nothing.
 * Edge cases: a private window has a state of its own that ends with it. A browser that refuses the database, and a
 * full quota, are a `StoreUnavailable`. Pages that are not served over https (or from localhost) have no Web Locks.
 */
export class IndexedDBState implements StateStore {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  read(): Promise<string | null> {
    return this.#run("readonly", (states) => this.#kept(states));
  }

  async replace(before: string | null, after: string): Promise<void> {
    const isSaved = await this.#run("readwrite", async (states) => {
      const kept = await this.#kept(states);
      if (kept === before) states.put(after, this.#name);
      return kept === before;
    });
    if (!isSaved) throw new Conflict();
  }

  async exclusive<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    if (!locks) throw new MissingExtra("There are no Web Locks.", "Serve the page over https.");
    // The lock's own type loses that of the work's result.
    return (await locks.request(`${DATABASE} ${this.#name}`, signal ? { signal } : {}, work)) as T;
  }

  async #kept(states: IDBObjectStore): Promise<string | null> {
    return (await result<string | undefined>(states.get(this.#name))) ?? null;
  }

  /** Runs work in one transaction, durable if it writes. Each time it opens a connection, so that none goes stale. */
  async #run<T>(mode: IDBTransactionMode, work: (states: IDBObjectStore) => Promise<T>): Promise<T> {
    let database: IDBDatabase | undefined;
    try {
      database = await result(indexedDB.open(DATABASE, 1));
      const transaction = database.transaction(STATES, mode, { durability: "strict" });
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
