import type { Command, Invocation } from "../command.ts";
import type { Check, CheckState } from "../doctor/check.ts";
import { checkEndpoint, type Delivery } from "../doctor/endpoint.ts";
import { checkPlatform } from "../doctor/platform.ts";
import { toOf, toOption } from "../endpoints.ts";
import { exitCodes } from "../exit-code.ts";
import type { Output } from "../output.ts";
import { printable } from "../output.ts";

const marks = {
  passed: ["green", "✓"],
  warned: ["yellow", "!"],
  failed: ["red", "✗"],
  skipped: ["dim", "-"],
} as const satisfies Record<CheckState, readonly [Parameters<Output["style"]>[0], string]>;

/** The topics by their URL, so that a URL for several topics is checked once. */
async function endpointsOf(
  invocation: Invocation,
  configured: Readonly<Record<string, unknown>>,
): Promise<Map<string, string>> {
  const to = await toOf(invocation);
  if (to !== undefined) return new Map([[to, "endpoint"]]);
  const endpoints = new Map<string, string>();
  for (const [topic, url] of Object.entries(configured)) {
    if (typeof url !== "string") continue;
    const others = endpoints.get(url);
    endpoints.set(url, others === undefined ? topic : `${others}, ${topic}`);
  }
  return endpoints;
}

/** Says what the endpoints will record, before the command sends anything. */
function announce({ out, flag }: Invocation, delivery: Delivery): void {
  if (out.json) return;
  const records = `one notification about no record, ${JSON.stringify(delivery)}, and run its fallback callback`;
  out.note(
    flag("deliver")
      ? `Each endpoint will record ${records}.`
      : `Endpoints get only requests that they must refuse. With --deliver, each would record ${records}.`,
  );
}

async function* allChecks(invocation: Invocation, delivery: Delivery): AsyncGenerator<Check> {
  const { signal } = invocation.io;
  const { checks, config } = await checkPlatform(invocation.client(), signal);
  yield* checks;
  const endpoints = await endpointsOf(invocation, { ...config?.endpoints, ...config?.otherEndpoints });
  for (const [url, topic] of endpoints)
    yield* checkEndpoint(topic, url, { delivery: invocation.flag("deliver") ? delivery : undefined, signal });
}

export const doctor: Command = {
  name: "doctor",
  summary: "check the token, the configuration, the endpoint and the clock",
  description: `The endpoint must answer over https in time, and refuse a wrong secret and a malformed body. It records none of
these requests. With --deliver, the command sends a notification about no record twice, and the endpoint must answer
both with 200. Ends with 1 where a check failed. Warnings do not count.`,
  examples: ["stayhook doctor", "stayhook doctor --deliver --json"],
  asksPlatform: true,
  options: {
    ...toOption("the endpoint to look at instead of those that are configured"),
    deliver: { type: "boolean", help: "also send a notification, which the endpoint records" },
  },
  run: async (invocation) => {
    const { out } = invocation;
    const delivery: Delivery = {
      eventId: crypto.randomUUID(),
      timestamp: new Date().toISOString(),
      bookingCode: null,
      listingId: null,
    };
    // Reports a missing setting before anything else is printed.
    invocation.client();
    announce(invocation, delivery);
    const checks: Check[] = [];
    for await (const check of allChecks(invocation, delivery)) {
      checks.push(check);
      const [colour, mark] = marks[check.state];
      if (!out.json)
        out.line(`${out.style(colour, mark)} ${printable(check.check)}: ${printable(check.detail)}`);
    }
    const ok = !checks.some(({ state }) => state === "failed");
    if (out.json)
      out.result(
        { ok, [invocation.flag("deliver") ? "recorded" : "wouldRecord"]: delivery, checks },
        () => "",
      );
    return ok ? exitCodes.done : exitCodes.failed;
  },
};
