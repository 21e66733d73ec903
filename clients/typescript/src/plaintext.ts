/** The bytes that are sealed: section 6 of docs/protocol/answers.md. */

import { hex, utf8, type Bytes } from "./bytes.js";
import type { Bucket } from "./questions.js";

/** `length ‖ JSON ‖ zeros`, `size` bytes in all; null if the JSON does not fit. */
export function padded(json: string, size: number): Bytes | null {
  const content = utf8(json);
  if (2 + content.length > size) return null;
  const plaintext = new Uint8Array(size);
  new DataView(plaintext.buffer).setUint16(0, content.length);
  plaintext.set(content, 2);
  return plaintext;
}

/** The plaintext of a bucket, or null where there is none or it does not fit. */
export const encodeBucket = (bucket: Bucket | null, size: number): Bytes | null =>
  bucket && padded(JSON.stringify(bucket), size);

/** A decoy of 16 random bytes. It always fits: `size` is at least 48. */
export const decoy = (random: Uint8Array, size: number): Bytes => padded(`{"decoy":"${hex(random)}"}`, size)!;
