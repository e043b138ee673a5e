/** What became of one check. `skipped`: it could not be made, or was not asked for. */
export type CheckState = "passed" | "warned" | "failed" | "skipped";

/** One thing that doctor has looked at. */
export interface Check {
  readonly check: string;
  readonly state: CheckState;
  /** What was found, and what to do about it. */
  readonly detail: string;
}

const make =
  (state: CheckState) =>
  (check: string, detail: string): Check => ({ check, state, detail });

export const passed = make("passed");
export const warned = make("warned");
export const failed = make("failed");
export const skipped = make("skipped");
