/** Which public keys of X25519 can be sealed for. */

const P = 2n ** 255n - 19n;
const A = 486662n;

/**
 * Whether 64 hexadecimal digits are a point of small order, for which every shared secret is zero.
 *
 * Reference: RFC 7748. With u the point's coordinate, u = 0 has order 2, u = 1 and u = −1 have order 4, and the
 * points of order 8 are those whose double is 1: (u² − 1)² = 4u(u² + Au + 1).
 */
export function isSmallOrder(publicKey: string): boolean {
  const littleEndian = publicKey.match(/../g)!.reverse().join("");
  // The highest bit is not part of the coordinate.
  const u = BigInt.asUintN(255, BigInt(`0x${littleEndian}`)) % P;
  const square = (u * u) % P;
  return (u * (square - 1n)) % P === 0n || ((square - 1n) ** 2n - 4n * u * (square + A * u + 1n)) % P === 0n;
}
