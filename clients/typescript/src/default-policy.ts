/** Written by scripts/default-policy.mjs from docs/protocol/default-policy.json: do not edit. */
export const defaultPolicy = (): unknown => undefined;
