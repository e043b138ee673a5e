import { expect, test } from "vitest";
import { missingPlaces } from "../../tools/status-places.ts";

test("every place knows the statuses of the table", () => {
  expect(missingPlaces()).toEqual([]);
});
