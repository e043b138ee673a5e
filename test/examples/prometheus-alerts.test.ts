import { expect, test } from "vitest";
import { hasPrometheus, type Series, wrongIn } from "./support/prometheus.ts";

const HOUR = 60;
const DAY = 24 * HOUR;
const up = (minutes: number): Series => ({ 'stayhook_store_available{instance="a"}': `1x${minutes}` });
const requests = (reason: string, values: string): Series => ({
  [`stayhook_requests_total{instance="a", result="refused", reason="${reason}"}`]: values,
});
/** A counter that grows by 1 every `minutes`, `times` times. */
const growing = (minutes: number, times: number) =>
  Array.from({ length: times }, (_, n) => `${n}x${minutes - 1}`).join(" ");
const parked = (instance: string, values: string): Series => ({
  [`stayhook_events{instance="${instance}", state="parked"}`]: values,
});

type Row = readonly [what: string, alert: string, series: Series, at: Readonly<Record<number, boolean>>];

const rows: readonly Row[] = [
  [
    "the first event of a process that is parked, until nobody is: a restart ends nothing",
    "StayhookParked",
    { ...parked("a", "0x5 1x25 stale"), ...parked("b", "_x35 1x25 0x20") },
    { 5: false, 6: true, 30: true, 36: true, 60: true, 62: false },
  ],
  [
    "a door that is tried again",
    "StayhookDoorDidNotClose",
    {
      'stayhook_failing_events{instance="a", state="retrying", type="booking.thing.door-code"}':
        "0x5 1x20 0x20",
      'stayhook_failing_events{instance="a", state="retrying", type="booking.Confirmed"}': "3x60",
    },
    { 6: false, 12: true, 25: true, 27: false },
  ],
  [
    "another thing",
    "StayhookDoorDidNotClose",
    { 'stayhook_failing_events{state="parked", type="booking.thing.cleaning"}': "1x60" },
    { 30: false },
  ],
  [
    "20 requests with a wrong secret a day",
    "StayhookRequestsRefused",
    requests("verify", growing(72, 21)),
    { 60: false, [DAY]: true },
  ],
  [
    "21 requests a day of three reasons",
    "StayhookRequestsRefused",
    {
      ...requests("verify", growing(206, 8)),
      ...requests("account", growing(206, 8)),
      ...requests("too-large", growing(206, 8)),
    },
    { 60: false, [DAY]: true },
  ],
  [
    "12 requests within 10 minutes",
    "StayhookRequestsRefused",
    requests("backlog", `0x30 ${growing(1, 12)} 11x60`),
    { 30: false, 50: true },
  ],
  [
    "4 refused requests a day",
    "StayhookRequestsRefused",
    requests("verify", growing(360, 9)),
    { [DAY]: false, [2 * DAY]: false },
  ],
  [
    "a monitor that sends a GET each minute",
    "StayhookRequestsRefused",
    requests("method", growing(1, 1500)),
    { [DAY]: false },
  ],
  [
    "a new app without any notification",
    "StayhookSilent",
    up(2 * DAY),
    { 0: false, 15: false, [DAY - 1]: false, [DAY + 15]: true },
  ],
  [
    "an app that was off for two days",
    "StayhookSilent",
    { ...up(DAY + 30), stayhook_last_received_timestamp_seconds: `-172800x${DAY + 30}` },
    { 0: false, 20: false, [DAY - 1]: false, [DAY + 15]: true },
  ],
  [
    "an app with a deployment each day, whose last notification came when it began",
    "StayhookSilent",
    {
      'stayhook_store_available{instance="a"}': `1x${DAY}`,
      'stayhook_store_available{instance="b"}': `_x${DAY} 1x${DAY}`,
      'stayhook_last_received_timestamp_seconds{instance="a"}': `60x${DAY}`,
      'stayhook_last_received_timestamp_seconds{instance="b"}': `_x${DAY} 60x${DAY}`,
    },
    { 600: false, [DAY - 1]: false, [DAY + 15]: true },
  ],
  [
    "a notification every hour",
    "StayhookSilent",
    { ...up(2 * DAY), stayhook_last_received_timestamp_seconds: `0+60x${2 * DAY}` },
    { 600: false, [DAY + 15]: false, [2 * DAY - 1]: false },
  ],
  [
    "a change that the first pass finds before the first scrape",
    "StayhookNotificationsMissed",
    { 'stayhook_last_alarm_timestamp_seconds{instance="a", kind="missed"}': "0x600" },
    { 1: true, 359: true, 361: false },
  ],
  [
    "drift, and no missed notification",
    "StayhookConfigurationDrift",
    {
      'stayhook_last_alarm_timestamp_seconds{kind="missed"}': "0x600",
      'stayhook_last_alarm_timestamp_seconds{kind="drift"}': "_x10 600x600",
    },
    { 5: false, 11: true, 369: true, 371: false },
  ],
  [
    "a store that hangs",
    "StayhookStoreUnavailable",
    {
      'stayhook_store_available{instance="a"}': "1x10 0x10",
      'stayhook_store_available{instance="b"}': "1x20",
    },
    { 10: false, 14: true },
  ],
  [
    "a store that hangs, of an app that runs",
    "StayhookDown",
    { stayhook_store_available: "1x10 0x20" },
    { 25: false },
  ],
  ["no process", "StayhookDown", { stayhook_store_available: "1x10 stale" }, { 10: false, 20: true }],
  [
    "an event that has waited for 16 minutes",
    "StayhookEventsWaitTooLong",
    { stayhook_oldest_waiting_seconds: "0+60x40" },
    { 15: false, 22: true },
  ],
  ["a pause of 15 minutes", "StayhookPaused", { stayhook_paused: "0x5 1x15" }, { 6: false, 16: true }],
  [
    "an account that is paused",
    "StayhookAccountPaused",
    { stayhook_paused_accounts: "0x5 2x25" },
    { 6: false, 21: true },
  ],
  [
    "half of all attempts fail",
    "StayhookCallbacksFail",
    {
      'stayhook_attempts_total{result="done"}': "0+10x60",
      'stayhook_attempts_total{result="failed", reason="callback"}': "0+10x60",
    },
    { 5: false, 30: true },
  ],
];

test.skipIf(!hasPrometheus).each(rows)("%s: %s", (_, alert, series, at) => {
  expect(wrongIn(alert, series, at)).toBe("");
});
