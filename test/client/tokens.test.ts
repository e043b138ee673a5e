import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import type { AccessToken } from "../../src/client/client-options.ts";
import { clientOf, platform, type Reply, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "x" };
const config = { isActive: true, endpoints: {} };
type Reason = { reason: "initial" | "unauthorized" };

/** Answers requests that have the token. Answers 401 to others. */
const guarded = (token: string, reply: Reply = { json: booking }) =>
  platform(({ headers }) => (headers.authorization === `Bearer ${token}` ? reply : { status: 401 }));

describe("an access token", () => {
  it("given as a string is not refreshed", async () => {
    const server = await guarded("right");
    const error = await rejection(clientOf(server, { accessToken: "wrong" }).bookings.get("A"));
    expect(error).toMatchObject({ name: "AuthenticationError", status: 401 });
    expect(server.requests).toHaveLength(1);
  });

  it("is asked for before each attempt", async () => {
    const server = await platform((_, index) =>
      index < 2 ? { status: 503, headers: { "retry-after": "0" } } : { json: booking },
    );
    const accessToken = vi.fn(({ reason }: Reason) => `${reason}-${accessToken.mock.calls.length}`);
    await clientOf(server, { accessToken }).bookings.get("A");
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer initial-1",
      "Bearer initial-2",
      "Bearer initial-3",
    ]);
  });

  it("is refreshed after a 401, and the request sent once more, a POST too, whatever maxRetries says", async () => {
    const server = await guarded("new");
    const accessToken = vi.fn(async ({ reason }: Reason) => (reason === "initial" ? "old" : "new"));
    const client = clientOf(server, { accessToken, maxRetries: 0 });
    expect(await client.bookings.get("A")).toEqual(booking);
    await client.webhookConfig.create(config);
    expect(accessToken.mock.calls.map(([{ reason }]) => reason)).toEqual([
      "initial",
      "unauthorized",
      "initial",
      "unauthorized",
    ]);
    expect(server.requests.map(({ method, body }) => method + body)).toEqual([
      "GET",
      "GET",
      `POST${JSON.stringify(config)}`,
      `POST${JSON.stringify(config)}`,
    ]);
  });

  it("is refreshed once a call", async () => {
    const server = await platform([{ status: 401 }]);
    const accessToken = vi.fn(({ reason }: Reason) => reason);
    expect(await rejection(clientOf(server, { accessToken }).bookings.get("A"))).toMatchObject({
      name: "AuthenticationError",
    });
    expect(accessToken).toHaveBeenCalledTimes(2);
    expect(server.requests).toHaveLength(2);
  });

  it("that is new is kept by later attempts of the call", async () => {
    const replies = [{ status: 401 }, { status: 503, headers: { "retry-after": "0" } }, { status: 401 }];
    const server = await platform(replies);
    const accessToken = vi.fn(({ reason }: Reason) => reason);
    expect(await rejection(clientOf(server, { accessToken }).bookings.get("A"))).toMatchObject({
      status: 401,
    });
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer initial",
      "Bearer unauthorized",
      "Bearer unauthorized",
    ]);
    expect(accessToken).toHaveBeenCalledTimes(2);
  });

  it("is refreshed once for all calls that run at that time, however late their 401 comes", async () => {
    const server = await platform(async ({ headers, url }) => {
      if (headers.authorization === "Bearer new-1")
        return { json: { ...booking, bookingCode: url.split("/").at(-1) } };
      await sleep(url.endsWith("/slow") ? 120 : 10);
      return { status: 401 };
    });
    let refreshes = 0;
    const accessToken = async ({ reason }: Reason) => {
      if (reason === "initial") return "old";
      await sleep(30);
      return `new-${++refreshes}`;
    };
    const client = clientOf(server, { accessToken });
    await Promise.all(["a", "b", "c", "d", "slow"].map((code) => client.bookings.get(code)));
    expect(refreshes).toBe(1);
    // A later call gets "old" as its initial token, so it refreshes again.
    expect(await rejection(client.bookings.get("e"))).toMatchObject({ status: 401 });
    expect(refreshes).toBe(2);
  });

  it("that one call gave up waiting for is still there for the others", async () => {
    const server = await guarded("new");
    const accessToken = async ({ reason }: Reason) => {
      if (reason === "initial") return "old";
      await sleep(100);
      return "new";
    };
    const client = clientOf(server, { accessToken });
    const patient = client.bookings.get("A");
    const hasty = client.bookings.get("A", { signal: AbortSignal.timeout(60) });
    expect(await rejection(hasty)).toMatchObject({ name: "AbortError" });
    expect(await patient).toEqual(booking);
  });
});

describe("an AccessTokenError", () => {
  it.each<["initial" | "unauthorized"]>([["initial"], ["unauthorized"]])(
    "has as cause what the function threw, when %s",
    async (when) => {
      const server = await guarded("right");
      const cause = new Error("vault sealed");
      for (const fail of [
        () => {
          throw cause;
        },
        () => Promise.reject(cause),
      ]) {
        const accessToken: AccessToken = ({ reason }) => (reason === when ? fail() : "wrong");
        const error = await rejection(clientOf(server, { accessToken }).bookings.get("A"));
        expect(error.name).toBe("AccessTokenError");
        expect(error.cause).toBe(cause);
      }
      expect(server.requests).toHaveLength(when === "initial" ? 0 : 2);
    },
  );

  it.each([undefined, null, 7, "", " ", "sëcret\nx", "secret\r\nx-evil: 1", "secret\u0000", "secret€", {}])(
    "is for what no header can hold: %j",
    async (token) => {
      const server = await platform([{ json: booking }]);
      const error = await rejection(
        clientOf(server, { accessToken: () => token as string }).bookings.get("A"),
      );
      expect(error.name).toBe("AccessTokenError");
      expect(`${error.message}${error.stack}${error.cause}`).not.toMatch(/s.cret/);
      expect(server.requests).toEqual([]);
    },
  );
});
