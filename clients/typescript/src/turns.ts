/** Work that takes turns, and waiting that can be called off. */

/** Runs one piece of work after another within one thread. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  async take<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#last;
    let done!: () => void;
    this.#last = new Promise((resolve) => (done = resolve));
    try {
      await unlessAborted(before, signal);
      return await work();
    } finally {
      void before.then(done);
    }
  }
}

/** What a promise gives; rejects with the signal's reason as soon as the signal aborts. */
export function unlessAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop);
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** A controller that also aborts as soon as one of these signals does. Abort it in the end: then it stops listening. */
export function joined(...signals: (AbortSignal | undefined)[]): AbortController {
  const controller = new AbortController();
  for (const signal of signals) {
    const stop = (): void => controller.abort(signal!.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { signal: controller.signal });
  }
  return controller;
}

/** Waits so many seconds; rejects with the signal's reason if it aborts meanwhile. */
export type Sleep = (seconds: number, signal?: AbortSignal) => Promise<void>;

export const sleep: Sleep = async (seconds, signal) => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await unlessAborted(new Promise<void>((resolve) => (timer = setTimeout(resolve, seconds * 1000))), signal);
  } finally {
    clearTimeout(timer);
  }
};
