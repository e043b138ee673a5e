import { beforeAll, describe, expect, test } from "vitest";
import { type Consumer, installed } from "./support/consumer.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
}, 300_000);

/**
 * Makes a script that receives one notification. At exit it prints the calls, and for how many ms the process lived on
 * after the callback.
 */
const script = (outcome: string) => `
const { client, on, calls } = { client: new StayhookClient({
  baseUrl: "https://platform.example", accessToken: "token",
  fetch: async () => Response.json({ bookingCode: "HX3K9", status: "Confirmed" }),
}), on: { "booking.Confirmed": ({ booking }) => {
  calls.push(booking.bookingCode);
  calledAt = performance.now();
  ${outcome}
} }, calls: [] };
let calledAt;
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const webhooks = createWebhookHandler({ client, store: memoryStore(), on, logger });
webhooks.start();
const notification = { eventId: "0d4fd8a6-35a5-4f0c-9b0e-4a6c1d2e3f40", timestamp: "2026-05-01T12:00:00Z", bookingCode: "HX3K9", listingId: null };
webhooks.fetch(new Request("https://you.example", { method: "POST", body: JSON.stringify(notification) }))
  .then(({ status }) => calls.push(status));
process.on("exit", () => console.log(JSON.stringify({ calls, lived: performance.now() - calledAt })));
`;

const names = "{ StayhookClient, createWebhookHandler, memoryStore }";
const formats = {
  mjs: `import ${names} from "stayhook";`,
  cjs: `const ${names} = require("stayhook");`,
};
const outcomes = {
  "whose callback has run": "",
  // The retry is due in about 5 s. It must not keep the process alive, because a durable store keeps the event.
  "with a retry that waits": 'throw new Error("not now");',
};

describe.each(Object.entries(formats))("a process (%s)", (extension, head) => {
  test.each(Object.entries(outcomes))(
    "%s exits by itself",
    async (_, outcome) => {
      const ran = await consumer.node(consumer.write(`exits.${extension}`, head + script(outcome)));
      expect(ran, ran.stderr).toMatchObject({ code: 0 });
      const { calls, lived } = JSON.parse(ran.stdout);
      expect(calls.toSorted()).toEqual([200, "HX3K9"]);
      expect(lived).toBeLessThan(2_000);
    },
    30_000,
  );
});
