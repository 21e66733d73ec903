export { WallTime } from "./dates.js";
export { candidates, chosen, distinct, plaintexts, type Choices } from "./choices.js";
export { decoy, encodeBucket, padded } from "./plaintext.js";
export { readQuestion, type Bucket, type Element, type Question } from "./questions.js";
export { drawAll, secureRandomness, type Draws, type Randomness } from "./randomness.js";
