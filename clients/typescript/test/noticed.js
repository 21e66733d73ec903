// Says for each changed vector whether the check of its file notices the change.
//
// Reads lines {"file": "coins", "vector": {…}}. Writes a line for each: the kind of error that the check threw, or
// "passed". A changed vector may make a check fail with any error, as where a member is missing.
import { createInterface } from "node:readline";
import { checks } from "./checks.js";

for await (const line of createInterface({ input: process.stdin })) {
  const { file, vector } = JSON.parse(line);
  try {
    await checks[file](vector);
    console.log("passed");
  } catch (error) {
    console.log(error.name);
  }
}
