import { expect, test } from "vitest";
import { newEventRow } from "../../../src/stores/memory/rows.ts";
import { Schedule } from "../../../src/stores/memory/schedule.ts";

const rowOf = (ref: string | null) =>
  newEventRow(
    { eventId: "1", ref, source: "webhook", topic: null, timestamp: "", notification: null },
    1,
    1000,
  );

test("a record without events or status is gone", () => {
  const schedule = new Schedule();
  const row = rowOf("booking:A");
  schedule.place(row);
  expect(schedule.record("booking:A")).toBe(row.record);
  schedule.remove(row);
  expect(schedule.record("booking:A")).toBeUndefined();
  expect(schedule.nextReady).toBe(Number.POSITIVE_INFINITY);
});

test("a record with a status stays until that is forgotten", () => {
  const schedule = new Schedule();
  const row = rowOf("booking:A");
  schedule.place(row);
  schedule.handled(row.record!, "Confirmed", 2000);
  schedule.remove(row);
  expect(schedule.record("booking:A")?.status).toBe("Confirmed");
  expect(schedule.forgetStatuses(1999, 10)).toBe(0);
  expect(schedule.forgetStatuses(2000, 10)).toBe(1);
  expect(schedule.record("booking:A")).toBeUndefined();
});

test("an event without a record has a lock that no other finds", () => {
  const schedule = new Schedule();
  const [one, other] = [rowOf(null), rowOf(null)];
  schedule.place(one);
  schedule.place(other);
  expect(one.record).not.toBe(other.record);
  schedule.handled(one.record!, "Confirmed", 2000);
  expect([...schedule.statuses()]).toEqual([]);
});
