import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { eventually } from "../support/eventually.ts";
import { clientOf, platform, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: {} };
const later = { status: 503, headers: { "retry-after": "0" } };
type Reason = { reason: "initial" | "unauthorized" };

/** Answers requests that have the token. Answers 401 to others. */
const guarded = (token: string) =>
  platform(({ headers }) =>
    headers.authorization === `Bearer ${token}` ? { json: booking } : { status: 401 },
  );

describe("an access token", () => {
  it("given as a string is not refreshed", async () => {
    const server = await guarded("right");
    const error = await rejection(clientOf(server, { accessToken: "wrong" }).bookings.get("A"));
    expect(error).toMatchObject({ name: "AuthenticationError", status: 401 });
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    ["before each attempt", [later, later, { json: booking }], ["initial 1", "initial 2", "initial 3"]],
    ["once a call after a 401", [{ status: 401 }], ["initial 1", "unauthorized 2"]],
    [
      "and kept for later attempts",
      [{ status: 401 }, later, { status: 401 }],
      ["initial 1", "unauthorized 2", "unauthorized 2"],
    ],
  ])("from a function is asked for %s", async (_, replies, tokens) => {
    const server = await platform(replies);
    let asked = 0;
    const accessToken = ({ reason }: Reason) => `${reason} ${++asked}`;
    await clientOf(server, { accessToken })
      .bookings.get("A")
      .catch((error) => expect(error.name).toBe("AuthenticationError"));
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(
      tokens.map((token) => `Bearer ${token}`),
    );
    expect(asked).toBe(new Set(tokens).size);
  });

  it("is refreshed after a 401, and the request repeated, a POST too, whatever maxRetries says", async () => {
    const server = await guarded("new");
    const accessToken = vi.fn(async ({ reason }: Reason) => (reason === "initial" ? "old" : "new"));
    const client = clientOf(server, { accessToken, maxRetries: 0 });
    expect(await client.bookings.get("A")).toEqual(booking);
    await client.webhookConfig.create(config);
    const post = `POST${JSON.stringify(config)}`;
    expect(server.requests.map(({ method, body }) => method + body)).toEqual(["GET", "GET", post, post]);
  });

  it("is refreshed once for all calls that run at that time, however late their 401 comes", async () => {
    const server = await platform(async ({ headers, url }) => {
      if (headers.authorization === "Bearer new-1")
        return { json: { ...booking, bookingCode: url.split("/").at(-1) } };
      await sleep(url.endsWith("/slow") ? 500 : 10);
      return { status: 401 };
    });
    let refreshes = 0;
    const refused = vi.fn();
    const hastyEnds = new AbortController();
    const accessToken = async ({ reason }: Reason) => {
      if (reason === "initial") return "old";
      if (refreshes === 0) {
        // All calls but the slow one wait for this refresh.
        await eventually(() => expect(refused).toHaveBeenCalledTimes(5));
        await sleep(10);
        hastyEnds.abort();
      }
      return `new-${++refreshes}`;
    };
    const onResponse = ({ status }: { status?: number | undefined }) => void (status === 401 && refused());
    const client = clientOf(server, { accessToken, onResponse });
    // A call that gives up waiting does not take the refresh from the others.
    const hasty = client.bookings.get("hasty", { signal: hastyEnds.signal });
    const patient = ["a", "b", "c", "d", "slow"].map((code) => client.bookings.get(code));
    expect((await rejection(hasty)).name).toBe("AbortError");
    await Promise.all(patient);
    expect(refreshes).toBe(1);
    // A later call gets "old" as its initial token, so it refreshes again.
    expect(await rejection(client.bookings.get("e"))).toMatchObject({ status: 401 });
    expect(refreshes).toBe(2);
  });
});

describe("clients with the same accessToken function", () => {
  it("share a refresh, as a client and its clone do", async () => {
    const server = await guarded("new");
    let refreshes = 0;
    const accessToken = async ({ reason }: Reason) => {
      if (reason === "initial") return "old";
      await sleep(20);
      // A refresh token that was used already gives no second access token.
      if (++refreshes > 1) throw new Error("the refresh token was used already");
      return "new";
    };
    const client = clientOf(server, { accessToken });
    const clients = [client, client.withOptions({ timeout: 5_000 }), clientOf(server, { accessToken })];
    await Promise.all(clients.map((each) => each.bookings.get("A")));
    expect(refreshes).toBe(1);
  });
});

describe("an AccessTokenError", () => {
  it.each(["initial", "unauthorized"])("has the thrown error as its cause: %s", async (when) => {
    const server = await guarded("right");
    const cause = new Error("vault sealed");
    const fail = () => {
      throw cause;
    };
    for (const failing of [fail, async () => fail()]) {
      const accessToken = ({ reason }: Reason) => (reason === when ? failing() : "wrong");
      const error = await rejection(clientOf(server, { accessToken }).bookings.get("A"));
      expect([error.name, error.cause]).toEqual(["AccessTokenError", cause]);
    }
    expect(server.requests).toHaveLength(when === "initial" ? 0 : 2);
  });

  it.each([
    ...[undefined, 7, "", " ", "secret\r\nx-evil: 1", "secret\u0000", "secret€", {}],
    ...["secret ", " secret", "\tsecret", "secret\u00a0", "Bearer secret", "bearer\tsecret", "secret\n"],
  ])("says that no header can hold the token, and does not show it: %j", async (token) => {
    const server = await platform([{ json: booking }]);
    const accessToken = () => token as string;
    const error = await rejection(clientOf(server, { accessToken }).bookings.get("A"));
    expect(error.name).toBe("AccessTokenError");
    expect(`${error.message}${error.stack}${error.cause}`).not.toMatch(/secret/);
    expect(server.requests).toEqual([]);
    if (typeof token !== "string") return;
    // A text is refused at start.
    const make = () => clientOf(server, { accessToken: token });
    expect(make).toThrow(/^accessToken: must/);
    expect(make).not.toThrow(/secret/);
  });
});
