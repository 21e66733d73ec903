// A device goes through every trace of docs/protocol/vectors/traces.json.
import test from "node:test";
import { checks } from "./checks.js";
import { vectors } from "./vectors.js";

test("traces.json", async (context) => {
  for (const trace of vectors("traces")) await context.test(trace.name, () => checks.traces(trace));
});
