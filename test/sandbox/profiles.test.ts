import { expect, it, onTestFinished } from "vitest";
import { profileForms, type SandboxProfile } from "../support/answers/profiles.ts";
import { createProfiledSandbox } from "../support/answers/sandbox.ts";

const config = JSON.stringify({ isActive: true, endpoints: { bookings: "https://subscriber.example/" } });

/** Returns the answers to one request of each kind, as sent. */
async function answers(profile: SandboxProfile, seed = 1) {
  const sandbox = createProfiledSandbox({ seed, profile });
  onTestFinished(() => sandbox.close());
  const stay = { listingId: 7, checkIn: "2026-07-01", checkOut: "2026-07-04" };
  await sandbox.bookings.create({ bookingCode: "B1", status: "Confirmed", ...stay });
  await sandbox.listings.create({ listingId: 7, listingName: "Loft", status: "Published" });
  const sent: string[] = [];
  for (const [method, path, body] of [
    ["GET", "webhooks/config"],
    ["POST", "webhooks/config", config],
    ["GET", "webhooks/config"],
    ["PATCH", "webhooks/config/toggle?isActive=true"],
    ["DELETE", "webhooks/config"],
    ["GET", "bookings/B1"],
    ["GET", "listings/7"],
    ["GET", "listings"],
    ["GET", "bookings/NONE"],
  ] as const) {
    const headers = { authorization: "Bearer sandbox" };
    const init = { method, headers, ...(body && { body }) };
    const answer = await sandbox.fetch(`https://any.example/v2/${path}`, init);
    const { "x-request-id": _, ...shown } = Object.fromEntries(answer.headers);
    sent.push(JSON.stringify([answer.status, shown, await answer.text()]));
  }
  return sent;
}

const forms = Object.entries(profileForms).flatMap(([aspect, [usual, ...others]]) =>
  others.map((form) => [aspect, form, usual] as const),
);

it.each(forms)("answers differ with %s: %s", async (aspect, form, usual) => {
  expect(await answers({ [aspect]: form })).not.toEqual(await answers({ [aspect]: usual }));
});

it("the seed decides which form of a list an answer has", async () => {
  const errors = ["text", "html", "object", "empty"] as const;
  const lists = ["bare", "data", "items"] as const;
  const one = await answers({ errors, lists, records: ["bare", "data"] }, 1);
  expect(await answers({ errors, lists, records: ["bare", "data"] }, 1)).toEqual(one);
  expect(await answers({ errors, lists, records: ["bare", "data"] }, 2)).not.toEqual(one);
});
