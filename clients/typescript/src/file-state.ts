import { open, readFile, rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { hex } from "./bytes.js";
import { Conflict, StoreUnavailable } from "./errors.js";
import { randomBytes } from "./randomness.js";
import type { StateStore } from "./state.js";
import { Turns } from "./turns.js";

/** Visits of one process take turns, whichever objects they belong to. */
const turns = new Map<string, Turns>();

/**
 * A state in a file that only its owner can read, for Node.
 *
 * Guarantee: after `replace` the state survives a crash of the machine; a crash during it leaves the one before or the
 * new one, whole.
 * Edge cases: use a file from one process at a time. Where another has changed it, saving is a `Conflict`.
 */
export class FileState implements StateStore {
  readonly path: string;

  constructor(path: string) {
    this.path = resolve(path);
  }

  async read(): Promise<string | null> {
    try {
      return await readFile(this.path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw new StoreUnavailable(`The state file cannot be read: ${(error as NodeJS.ErrnoException).code}.`, error);
    }
  }

  async replace(before: string | null, after: string): Promise<void> {
    if ((await this.read()) !== before) throw new Conflict();
    const temporary = `${this.path}.${hex(randomBytes(8))}`;
    try {
      await writeWhole(temporary, after);
      await rename(temporary, this.path);
      await syncFolder(dirname(this.path));
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw new StoreUnavailable(`The state file cannot be written: ${(error as NodeJS.ErrnoException).code}.`, error);
    }
  }

  exclusive<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const turn = turns.get(this.path) ?? new Turns();
    turns.set(this.path, turn);
    return turn.take(work, signal);
  }
}

async function writeWhole(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes a renamed file durable. Windows has no such call, and does not need it. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const folder = await open(path, "r");
  await folder.sync().finally(() => folder.close());
}
