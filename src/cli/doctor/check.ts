/** The result of one check. `skipped`: the check was not possible, or not asked for. */
export type CheckState = "passed" | "warned" | "failed" | "skipped";

/** One check of doctor. */
export interface Check {
  readonly check: string;
  readonly state: CheckState;
  /** The finding, and what to do about it. */
  readonly detail: string;
}

const make =
  (state: CheckState) =>
  (check: string, detail: string): Check => ({ check, state, detail });

export const passed = make("passed");
export const warned = make("warned");
export const failed = make("failed");
export const skipped = make("skipped");
