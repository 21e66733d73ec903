/** Hashes of configurations, and sealing: sections 3 and 4 of docs/protocol/rounds.md. */

import {
  AEAD_AES_128_GCM, CipherSuite, KDF_HKDF_SHA256, KEM_DHKEM_X25519_HKDF_SHA256, type KEMFactory,
} from "hpke";
import { concat, fromHex, sha256, utf8, type Bytes } from "./bytes.js";
import { MissingExtra } from "./errors.js";

/** The part of `@panva/hpke-noble` that stands in for a platform without X25519. */
export interface Fallback {
  readonly KEM_DHKEM_X25519_HKDF_SHA256: KEMFactory;
}

/** Bytes that sealing adds to a plaintext: `enc` and the tag. */
export const SEALED_EXTRA = 48;

/** The hash of a configuration as it came: the HPKE `info` of every report of its round. */
export const configurationHash = (text: string): Promise<Bytes> => sha256(utf8(`thresher round 3\0${text}`));

async function hasX25519(): Promise<boolean> {
  try {
    await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
    return true;
  } catch {
    return false;
  }
}

/**
 * The protocol's suite, on WebCrypto where it has X25519.
 *
 * @param fallback the module `@panva/hpke-noble`. Where it is not given it is imported, if it is needed.
 * @throws MissingExtra where the platform cannot seal.
 */
export async function openSuite(fallback?: Fallback): Promise<CipherSuite> {
  if (!globalThis.crypto?.subtle) {
    throw new MissingExtra("This page has no WebCrypto.", "Serve it over https, or from localhost.");
  }
  let kem: KEMFactory = KEM_DHKEM_X25519_HKDF_SHA256;
  if (!(await hasX25519())) {
    const module = fallback ?? (await import("@panva/hpke-noble").catch(() => null));
    if (!module) {
      throw new MissingExtra(
        "This platform's WebCrypto has no X25519.",
        "Install @panva/hpke-noble, or give the module as the setting fallback.",
      );
    }
    kem = module.KEM_DHKEM_X25519_HKDF_SHA256;
  }
  return new CipherSuite(kem, KDF_HKDF_SHA256, AEAD_AES_128_GCM);
}

/**
 * Seals plaintexts of one round, one after another.
 *
 * @param publicKey 64 hexadecimal digits.
 * @param info the configuration's hash.
 */
export async function seal(
  suite: CipherSuite, plaintexts: readonly Bytes[], publicKey: string, info: Bytes,
): Promise<Bytes> {
  const key = await suite.DeserializePublicKey(fromHex(publicKey));
  const pieces = [];
  for (const plaintext of plaintexts) {
    const { encapsulatedSecret, ciphertext } = await suite.Seal(key, plaintext, { info });
    pieces.push(encapsulatedSecret, ciphertext);
  }
  return concat(...pieces);
}
