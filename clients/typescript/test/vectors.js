// Reads the vectors of docs/protocol/vectors, and their tagged values.
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { WallTime } from "../dist/index.js";

const folder = process.env.THRESHER_VECTORS
  ? pathToFileURL(`${process.env.THRESHER_VECTORS}/`)
  : new URL("../../../docs/protocol/vectors/", import.meta.url);

/** A file of vectors, or null while it does not exist. */
export function vectors(name) {
  const file = new URL(`${name}.json`, folder);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
}

function wallTime(text) {
  const [, day, clock, fraction = ""] = /^(.{10})T([0-9:]+)(?:\.([0-9]+))?(?:Z|[+-].*)?$/.exec(text);
  const micro = fraction.padEnd(6, "0").slice(0, 6);
  const seconds = clock.length === 5 ? `${clock}:00` : clock;
  return new WallTime(`${day}T${seconds}${micro === "000000" ? "" : `.${micro}`}`);
}

/** A tagged value as a JavaScript value. */
export function untag(tagged) {
  const [[tag, content]] = Object.entries(tagged);
  switch (tag) {
    case "number":
      return Number(content);
    case "whole":
      return BigInt(content);
    case "null":
      return null;
    case "date":
      return new WallTime(content);
    case "time":
      return wallTime(content);
    case "list":
      return content.map(untag);
    case "text":
    case "boolean":
    case "object":
      return content;
    default:
      throw new TypeError(`unknown tag ${tag}`);
  }
}
