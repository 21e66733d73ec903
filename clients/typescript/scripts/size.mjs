// Fails if the device is larger than 15 kB, minified and compressed, without the fallback. Says the size of each part.
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const LIMIT = 15_000;

/** Bytes of a bundle of some exports, minified and compressed. */
async function size(contents, ...external) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL("..", import.meta.url)) },
    bundle: true, minify: true, format: "esm", target: "es2022", write: false,
    external: ["@panva/hpke-noble", ...external],
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

const device = 'export { Device } from "./dist/index.js"';
const whole = await size(device);
const bare = await size(device, "hpke", "*/default-policy.js");
const policy = whole - (await size(device, "*/default-policy.js"));
console.log(`device with hpke and the default policy: ${whole} bytes of gzip, of ${LIMIT}`);
console.log(`of these, the default policy: ${policy}; the device itself: ${bare}`);
if (whole > LIMIT) {
  console.error("The device is too large.");
  process.exitCode = 1;
}
