import { Conflict } from "./errors.js";
import type { StateStore } from "./state.js";
import { Turns } from "./turns.js";

/**
 * A state that ends with the page or process: for tests only.
 *
 * The next one enrols as another device, which answers the same rounds again.
 */
export class MemoryState implements StateStore {
  #kept: string | null = null;
  readonly #turns = new Turns();

  async read(): Promise<string | null> {
    return this.#kept;
  }

  async replace(before: string | null, after: string): Promise<void> {
    if (this.#kept !== before) throw new Conflict();
    this.#kept = after;
  }

  exclusive<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#turns.take(work, signal);
  }
}
