// The second and the third look at a record whose notification came before the API showed the change.
import { expect, test } from "vitest";
import { advance, HOUR, handlerOf, MINUTE, notificationOf, useFakeTime } from "../support.ts";

useFakeTime();

/** Handles a notification of a booking that the handler may know, and counts the reads in the next hours. */
async function looked(statuses: readonly (readonly [after: number, status: string])[], known?: string) {
  const told: string[] = [];
  const { platform, deliver } = handlerOf({ on: { booking: ({ type }) => void told.push(type) } });
  if (known !== undefined) {
    platform.booking("A1", known);
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance(HOUR);
  }
  const [[, first], ...later] = statuses as [(typeof statuses)[number], ...typeof statuses];
  platform.booking("A1", first);
  platform.reads.length = told.length = 0;
  await deliver(notificationOf({ bookingCode: "A1" }));
  let passed = 0;
  for (const [after, status] of later) {
    await advance(after - passed);
    passed = after;
    platform.booking("A1", status);
  }
  await advance(24 * HOUR);
  return { told, reads: platform.reads.length };
}

test.each(["Request", "Initiated", "Pending"])(
  "a change to %s is looked at again after a minute",
  async (status) => {
    const { told } = await looked([
      [0, status],
      [5000, "Confirmed"],
    ]);
    expect(told.at(-1)).toBe("booking.Confirmed");
  },
);

test("a change to Confirmed or Cancelled is not", async () => {
  expect(await looked([[0, "Confirmed"]])).toMatchObject({ reads: 1 });
  expect(await looked([[0, "Cancelled"]], "Confirmed")).toMatchObject({ reads: 1 });
});

test.each([
  ["Request", "Request"],
  ["Confirmed", "Confirmed"],
  [undefined, "Initiated"],
])(
  "known %s, still %s at the second look: a third one follows after 15 minutes, and no fourth",
  async (known, status) => {
    const lagging = await looked(
      [
        [0, status],
        [2 * MINUTE, "Cancelled"],
      ],
      known,
    );
    expect(lagging).toMatchObject({ reads: 3 });
    expect(lagging.told.at(-1)).toBe("booking.Cancelled");
    expect(await looked([[0, status]], known)).toMatchObject({ reads: 3 });
  },
);

test("a request that the second look still shows needs no third one", async () => {
  expect(await looked([[0, "Request"]])).toMatchObject({ reads: 2 });
});
