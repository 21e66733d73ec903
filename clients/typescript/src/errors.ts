/**
 * Every error of this package, in one tree.
 *
 *     ThresherError             code, message, hint
 *     ├── InvalidSetting        a setting is missing, of the wrong kind or out of range
 *     ├── InvalidFormat         the kept state or a server's answer cannot be read
 *     ├── Unauthorised          the server does not know the device, or does not take its enrolment key
 *     ├── Conflict              another tab or process has changed the state; nothing was sent since
 *     ├── StoreUnavailable      the state cannot be read or saved; nothing was sealed or sent
 *     ├── ServerUnavailable     the server cannot be reached, or asks to come back later
 *     └── MissingExtra          the platform lacks something, and nothing stands in for it
 *
 * Messages name settings and never what a person holds.
 */
export class ThresherError extends Error {
  /** Stable, for programs. */
  readonly code: string;
  /** What to do. */
  readonly hint: string;

  constructor(code: string, message: string, hint: string, cause?: unknown) {
    super(`${message} ${hint}`.trim(), cause === undefined ? undefined : { cause });
    this.code = code;
    this.hint = hint;
  }

  override get name(): string {
    return `ThresherError ${this.code}`; // a minified class has no name of its own
  }
}

/** A setting is missing, of the wrong kind or out of range; `setting` names it. */
export class InvalidSetting extends ThresherError {
  readonly setting: string;

  constructor(setting: string, problem: string, hint = "") {
    super("invalid-setting", `${setting} ${problem}.`, hint);
    this.setting = setting;
  }
}

/** The kept state or a server's answer cannot be read. */
export class InvalidFormat extends ThresherError {
  constructor(message: string, hint = "") {
    super("invalid-format", message, hint);
  }
}

/** The server does not know the device, or does not take its enrolment key. */
export class Unauthorised extends ThresherError {
  constructor(message: string, hint = "") {
    super("unauthorised", message, hint);
  }
}

/** Another tab or process has changed the state. */
export class Conflict extends ThresherError {
  constructor() {
    super(
      "conflict", "Another tab has changed the state.", "Nothing was sent since.",
    );
  }
}

/** The state cannot be read or saved. */
export class StoreUnavailable extends ThresherError {
  constructor(message: string, cause?: unknown) {
    super("store-unavailable", message, "Nothing was sent. Check the space left.", cause);
  }
}

/** The server cannot be reached, or asks to come back later. */
export class ServerUnavailable extends ThresherError {
  /** Seconds that the server asks to wait; null if it says nothing. */
  readonly retryAfter: number | null;

  constructor(message: string, retryAfter: number | null, hint = "Try again later.") {
    super("server-unavailable", message, hint);
    this.retryAfter = retryAfter;
  }
}

/** The platform lacks something, and nothing stands in for it. */
export class MissingExtra extends ThresherError {
  constructor(message: string, hint: string) {
    super("missing-extra", message, hint);
  }
}
