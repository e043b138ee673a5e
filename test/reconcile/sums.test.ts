import { describe, expect, test } from "vitest";
import type { ReconcileReport } from "../../src/reconcile/options.ts";
import { Sums } from "../../src/reconcile/sums.ts";

type Account = "whole" | "unreachable" | "locked" | "aborted" | "skipped" | "error" | "invalid";

function reportOf(accounts: readonly Account[], { isAborted = false, isAgain = false } = {}) {
  const sums = new Sums(isAgain);
  const records = { checked: 3, changed: 2, failed: 1, duration: 5 };
  for (const account of accounts) {
    if (account === "skipped") sums.skip();
    else if (account === "error") sums.fail(new Error("disk full"));
    else if (account === "invalid") sums.invalid(1);
    else sums.add(account === "whole" ? records : ({ ...records, incomplete: account } as ReconcileReport));
  }
  return sums.report(isAborted);
}

describe("the sums of accounts", () => {
  const cases: [
    accounts: Account[],
    incomplete: string | undefined,
    again: string | undefined,
    accounts: object,
  ][] = [
    [[], undefined, undefined, { checked: 0, failed: 0 }],
    [["whole", "whole"], undefined, undefined, { checked: 2, failed: 0 }],
    [["whole", "unreachable"], undefined, undefined, { checked: 1, failed: 1 }],
    [["whole", "error"], undefined, undefined, { checked: 1, failed: 1 }],
    [["whole", "invalid"], undefined, undefined, { checked: 1, failed: 1 }],
    [["whole", "locked"], undefined, "locked", { checked: 1, failed: 0 }],
    [["whole", "unreachable", "skipped"], undefined, "unreachable", { checked: 1, failed: 2 }],
    [["unreachable", "locked"], "unreachable", "unreachable", { checked: 0, failed: 1 }],
    [["locked", "error"], "locked", "locked", { checked: 0, failed: 1 }],
  ];
  test.each(cases)("%j", (accounts, incomplete, again, counts) => {
    expect(reportOf(accounts)).toMatchObject({ accounts: counts });
    expect(reportOf(accounts).incomplete).toBe(incomplete);
    expect(reportOf(accounts, { isAgain: true }).incomplete).toBe(again);
    expect(reportOf(accounts, { isAborted: true }).incomplete).toBe("aborted");
  });

  test("add up records, also of accounts that did not get through", () => {
    expect(reportOf(["whole", "unreachable", "whole"])).toMatchObject({ checked: 9, changed: 6, failed: 3 });
  });

  test("are the error of the store if it failed for each account", () => {
    expect(() => reportOf(["error", "error"])).toThrow("disk full");
    expect(() => reportOf(["error", "invalid"])).toThrow("disk full");
  });
});
