// Fails if the device is larger than 15 kB, minified and compressed, without the fallback. The default policy is a
// module of its own, loaded where no other policy is given.
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
const alone = await size(device, "./default-policy.js");
const policy = await size('export { defaultPolicy } from "./dist/default-policy.js"');
const whole = await size(device);
console.log(`device with hpke: ${alone} bytes of gzip, of ${LIMIT}`);
console.log(`default policy, loaded where no other is given: ${policy}; both in one file: ${whole}`);
if (alone > LIMIT) {
  console.error("The device is too large.");
  process.exitCode = 1;
}
