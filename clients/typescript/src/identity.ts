/** How a server proves to be the one that enrolled a device: section 1 of docs/protocol/rounds.md, "401". */

import { concat } from "hpke";
import { fromHex, sha256, utf8, type Bytes } from "./bytes.js";

/** Whether an Ed25519 signature of a message is valid. */
export type Verify = (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array) => boolean | Promise<boolean>;

/** WebCrypto's own. Edge cases: on a platform without Ed25519 no signature is valid. */
const verifyNatively = async (publicKey: Bytes, message: Bytes, signature: Bytes): Promise<boolean> => {
  const key = await crypto.subtle.importKey("raw", publicKey, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, key, signature, message);
};

/** Whether a proof says that the server with this public key does not know a token. */
export async function proves(
  identity: string, nonce: string, token: string, proof: string, verify: Verify = verifyNatively as Verify,
): Promise<boolean> {
  if (!/^[0-9a-f]{128}$/i.test(proof)) return false;
  const statement = concat(utf8("thresher unknown token 1\0"), fromHex(nonce), await sha256(utf8(token)));
  try {
    return await verify(fromHex(identity), statement, fromHex(proof));
  } catch {
    return false;
  }
}
