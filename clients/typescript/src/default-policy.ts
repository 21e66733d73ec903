/** Written by scripts/default-policy.mjs from docs/protocol/default-policy.json: do not edit. */

/** There is none yet: a policy must be given. */
export const defaultPolicy = (): unknown => undefined;
