/** A Thresher device for browsers and Node. */

export { Device, type DeviceSettings, type Stop } from "./device.js";
export { DeviceCore, type CoreSettings } from "./core.js";
export {
  Conflict, InvalidFormat, InvalidSetting, MissingExtra, ServerUnavailable, StoreUnavailable, ThresherError,
  Unauthorised,
} from "./errors.js";

// What is kept
export { IndexedDBState } from "./indexeddb-state.js";
export { MemoryState } from "./memory-state.js";
export type { DeviceState, LogEntry, Outcome, RoundRecord, StateStore, Status } from "./state.js";

// What is agreed to
export { cost, decide, readPolicy, refusal, type Charge, type Policy, type Reason, type Row } from "./policy.js";
export { readRound, type Listed, type Round, type Terms } from "./rounds.js";

// What is answered
export type { Attributes } from "./attributes.js";
export { WallTime } from "./dates.js";
export { candidates, chosen, distinct, plaintexts, type Choices } from "./choices.js";
export { decoy, encodeBucket, padded } from "./plaintext.js";
export { readQuestion, type Bucket, type Element, type Question } from "./questions.js";
export { drawAll, isHeads, secureRandomness, type Draws, type Randomness } from "./randomness.js";
export { configurationHash, openKem, seal, type Fallback } from "./sealing.js";

// What is sent
export { backOff } from "./back-off.js";
export { isOwn, type Answer, type Fetch } from "./channel.js";
export { proves, type Verify } from "./identity.js";
export { readEnrolled, readVisited, type Enrolled, type Request, type Visited } from "./messages.js";
