// Bundles the device with hpke, and without the fallback, into one file for a page that has no bundler of its own:
// examples/web/device.js. The file contains the work of others, and begins with their licence.
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

const target = path("../../../examples/web/device.js");
const licence = readFileSync(path("../node_modules/hpke/LICENSE.md"), "utf8").replaceAll("*/", "* /");
const { outputFiles } = await build({
  stdin: { contents: 'export { Device, IndexedDBState } from "./dist/index.js"', resolveDir: path("..") },
  bundle: true, minify: true, format: "esm", target: "es2022", write: false, legalComments: "inline",
  external: ["@panva/hpke-noble"],
  banner: { js: `/* Thresher's device: Apache-2.0. It contains hpke:\n\n${licence.trim()}\n*/` },
});
writeFileSync(`${target}.new`, outputFiles[0].contents);
renameSync(`${target}.new`, target); // so that nobody ever finds half a file
