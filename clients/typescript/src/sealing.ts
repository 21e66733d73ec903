/** Hashes of configurations, and sealing: sections 3 and 4 of docs/protocol/rounds.md. */

import {
  AEAD_AES_128_GCM, concat, encode, KDF_HKDF_SHA256, KEM_DHKEM_X25519_HKDF_SHA256, LabeledExpand, LabeledExtract,
  type KEM, type KEMFactory,
} from "hpke";
import { fromHex, sha256, utf8, type Bytes } from "./bytes.js";
import { MissingExtra } from "./errors.js";

/** The part of `@panva/hpke-noble` that stands in for a platform without X25519. */
export interface Fallback {
  readonly KEM_DHKEM_X25519_HKDF_SHA256: KEMFactory;
}

/** The hash of a configuration as it came: the HPKE `info` of every report of its round. */
export const configurationHash = (text: string): Promise<Bytes> => sha256(utf8(`thresher round 3\0${text}`));

const hasX25519 = (): Promise<boolean> =>
  crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]).then(() => true, () => false);

/**
 * The protocol's key encapsulation, DHKEM(X25519, HKDF-SHA256): on WebCrypto where it has X25519.
 *
 * @param fallback the module `@panva/hpke-noble`. Where it is not given it is imported, if it is needed.
 * @throws MissingExtra where the platform cannot seal.
 */
export async function openKem(fallback?: Fallback): Promise<KEM> {
  if (!globalThis.crypto?.subtle) throw new MissingExtra("There is no WebCrypto.", "Serve the page over https.");
  if (await hasX25519()) return KEM_DHKEM_X25519_HKDF_SHA256();
  const module = fallback ?? (await import("@panva/hpke-noble").catch(() => null));
  if (!module) {
    throw new MissingExtra("WebCrypto has no X25519.", "Install @panva/hpke-noble, or give the setting fallback.");
  }
  return module.KEM_DHKEM_X25519_HKDF_SHA256();
}

/** "HPKE" and the numbers of DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM. */
const SUITE = /* @__PURE__ */ encode("HPKE\0\x20\0\x01\0\x01");
const NOTHING = new Uint8Array();

/**
 * Seals plaintexts of one round, one after another: `enc` ‖ ciphertext for each.
 *
 * Reference: RFC 9180, section 5.1, mode base, and section 6.1, single shot. The library's own `CipherSuite` does the
 * same for all modes and both sides, which makes every page that has a device 2 kB larger. A test opens with it what is
 * sealed here.
 *
 * @param publicKey 64 hexadecimal digits.
 * @param info the configuration's hash.
 */
export async function seal(kem: KEM, plaintexts: readonly Bytes[], publicKey: string, info: Bytes): Promise<Bytes> {
  const [kdf, aead] = [KDF_HKDF_SHA256(), AEAD_AES_128_GCM()];
  const extract = (salt: Uint8Array, label: string, content: Uint8Array): Promise<Uint8Array> =>
    LabeledExtract(kdf, SUITE, salt, encode(label), content);
  const hashes = [await extract(NOTHING, "psk_id_hash", NOTHING), await extract(NOTHING, "info_hash", info)];
  const context = concat(Uint8Array.of(0), ...hashes);
  const receiver = await kem.DeserializePublicKey(fromHex(publicKey));
  const pieces = [];
  for (const plaintext of plaintexts) {
    const { shared_secret, enc } = await kem.Encap(receiver);
    const secret = await extract(shared_secret, "secret", NOTHING);
    const expand = (label: string, length: number): Promise<Uint8Array> =>
      LabeledExpand(kdf, SUITE, secret, encode(label), context, length);
    const [key, nonce] = [await expand("key", aead.Nk), await expand("base_nonce", aead.Nn)];
    pieces.push(enc, await aead.Seal(key, nonce, NOTHING, plaintext));
  }
  return concat(...pieces) as Bytes;
}
