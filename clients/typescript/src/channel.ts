/**
 * A device's HTTP requests. The result is the server's own answer, or the reason why there is none.
 *
 * A proxy, or a network that wants a login, may answer in the server's place with any status. An answer counts as the
 * server's own if it is JSON for success, and a problem document of ours for everything else.
 */

import { LONGEST_OF_STRANGERS, readRetryAfter } from "./back-off.js";
import { InvalidSetting } from "./errors.js";
import type { Request } from "./messages.js";
import { isObject, parseJson } from "./objects.js";
import { joined } from "./turns.js";

/** An answer. A status of null means that the server itself gave none, and `problem` says why. */
export interface Answer {
  readonly status: number | null;
  /** Parsed JSON. */
  readonly body: unknown;
  /** Seconds that the answer asks to wait. */
  readonly retryAfter: number | null;
  readonly proof: string;
  readonly problem: string;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

const LONGEST_ANSWER = 16 * 1024 * 1024;
/** Seconds within which the whole answer must arrive. */
const SLOWEST = 120;

const none = (problem: string, retryAfter: number | null = null): Answer => ({
  status: null, body: null, retryAfter, proof: "", problem,
});

/** One device's way to its server. */
export class Channel {
  readonly url: string;
  /** Bytes of all answers so far. */
  read = 0;
  readonly #fetch: Fetch;
  readonly #clock: () => number;

  constructor(url: string, fetch: Fetch, clock: () => number) {
    this.url = checkedAddress(url);
    this.#fetch = fetch;
    this.#clock = clock;
  }

  /**
   * Sends a request once.
   *
   * Guarantee: no cookie, no referrer and no cache; redirects are not followed, since the token would go along. An
   * answer that is too long or too slow is none.
   *
   * @throws the signal's reason if it aborts.
   */
  async ask(request: Request, signal?: AbortSignal): Promise<Answer> {
    const controller = joined(signal);
    const timer = setTimeout(() => controller.abort(), SLOWEST * 1000);
    try {
      return await this.#answer(await this.#fetch(this.url + request.path, options(request, controller.signal)));
    } catch {
      signal?.throwIfAborted();
      return none(`${this.url} cannot be reached.`);
    } finally {
      controller.abort(); // also ends an answer that was not read to its end
      clearTimeout(timer);
    }
  }

  async #answer(response: Response): Promise<Answer> {
    const { status, headers } = response;
    const retryAfter = status < 400 ? null : readRetryAfter(headers.get("retry-after"), this.#clock());
    const body = await this.#body(response);
    if (!isOwn(status, headers.get("content-type") ?? "", body)) {
      const later = retryAfter === null ? null : Math.min(retryAfter, LONGEST_OF_STRANGERS);
      return none(`What answers at ${this.url} is no Thresher server (status ${status}).`, later);
    }
    return { status, body, retryAfter, proof: headers.get("thresher-proof") ?? "", problem: "" };
  }

  /** The JSON of an answer; undefined where it is none. Rejects if it is too long, or not UTF-8. */
  async #body(response: Response): Promise<unknown> {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let text = "";
    let left = LONGEST_ANSWER;
    const reader = response.body?.getReader();
    for (let piece = await reader?.read(); piece?.value; piece = await reader?.read()) {
      left -= piece.value.length;
      this.read += piece.value.length;
      if (left < 0) throw new RangeError();
      text += decoder.decode(piece.value, { stream: true });
    }
    return parseJson(text + decoder.decode());
  }
}

function options({ token, nonce, body }: Request, signal: AbortSignal): RequestInit {
  const headers: Record<string, string> = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  if (nonce !== null) headers["thresher-nonce"] = nonce;
  return {
    method: "POST", headers, body, signal, redirect: "error", credentials: "omit", cache: "no-store",
    referrerPolicy: "no-referrer",
  };
}

/** Whether an answer has the form that the server's own answers have, and can be read. */
export function isOwn(status: number, contentType: string, body: unknown): boolean {
  const media = contentType.split(";")[0]!.trim().toLowerCase();
  if (status >= 200 && status < 300) return media === "application/json" && body !== undefined;
  if (media !== "application/problem+json" || !isObject(body)) return false;
  const { type, title, code, detail } = body;
  return (
    body.status === status && type === `urn:thresher:problem:${code}` &&
    [title, code, detail].every((member) => typeof member === "string")
  );
}

/** An http or https address; slashes at its end are removed. */
function checkedAddress(url: string): string {
  let isAddress = /^https?:\/\/[^\s?#@]+$/i.test(url);
  try {
    new URL(url);
  } catch {
    isAddress = false;
  }
  if (!isAddress) {
    throw new InvalidSetting(
      "server", "must be an address", "As https://fleet.example.",
    );
  }
  return url.replace(/\/+$/, "");
}
