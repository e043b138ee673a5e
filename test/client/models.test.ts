import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as z3 from "zod/v3";
import { StayhookClient } from "../../src/client/client.ts";
import { Booking } from "../../src/models/records.ts";
import { accessToken, answering, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "Request" };
const fields = { bookingCode: z3.string(), status: z3.string() };

describe("models", () => {
  it.each([
    ["zod", Booking.extend({ guestName: z.string() })],
    ["zod 3", z3.object({ ...fields, guestName: z3.string() }).passthrough()],
    ["valibot", v.looseObject({ bookingCode: v.string(), status: v.string(), guestName: v.string() })],
    ["arktype", type({ bookingCode: "string", status: "string", guestName: "string" })],
  ])("may be schemas of %s", async (_, schema) => {
    const models = { booking: schema };
    const data = { ...booking, guestName: "N", extra: 1 };
    expect(await (await answering({ json: { data } }, { models })).bookings.get("A")).toEqual(data);
    const client = await answering({ json: { data: booking } }, { models });
    const issues = [{ path: ["data", "guestName"] }];
    expect(await rejection(client.bookings.get("A"))).toMatchObject({
      name: "ResponseValidationError",
      issues,
    });
  });

  it("may change a record, which must then have the requested code", async () => {
    const model = z
      .looseObject({ code: z.string(), status: z.string() })
      .transform(({ code, status }) => ({ bookingCode: code, status }));
    const client = await answering({ json: { code: "A", status: "x" } }, { models: { booking: model } });
    expect(await client.bookings.get("a")).toEqual({ bookingCode: "A", status: "x" });
    expect(await rejection(client.bookings.get("B"))).toMatchObject({ issues: [{ path: ["bookingCode"] }] });
  });

  it("validate the rows of a list", async () => {
    const schema = v.looseObject({ listingId: v.number(), status: v.string(), beds: v.number() });
    const row = { listingId: 7, status: "Hidden" };
    const client = await answering({ json: [{ ...row, beds: 2 }, row] }, { models: { listing: schema } });
    expect(await rejection(client.listings.list())).toMatchObject({ issues: [{ path: [1, "beds"] }] });
  });

  const make = (models: object) =>
    new StayhookClient({ baseUrl: "https://h.example", accessToken, models: models as never });

  it.each([
    ["a zod 3 field in a zod 4 object", Booking.extend({ guestName: z3.string() as never })],
    ["deep down", Booking.extend({ guests: z.array(z.object({ name: z3.string().optional() as never })) })],
    ["in a union", Booking.extend({ guest: z.union([z.string(), z3.string() as never]).nullish() })],
    ["a zod 4 field in a zod 3 object", z3.object({ ...fields, status: z.string() as never }).passthrough()],
  ])("must not mix versions of zod: %s", (_, schema) => {
    expect(() => make({ booking: schema })).toThrow("`models.booking` mixes zod 3 and zod 4");
    expect(() => make({ listing: schema })).toThrow("`models.listing` mixes zod 3 and zod 4");
  });

  it("may refer to themselves", () => {
    const Guest = z.object({
      name: z.string(),
      get friends() {
        return z.array(Guest);
      },
    });
    const recursive = Booking.extend({ guest: Guest, lazy: z.lazy(() => Guest).optional() });
    expect(() => make({ booking: recursive })).not.toThrow();
  });
});
