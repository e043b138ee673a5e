import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import { InvalidArgumentError } from "../../src/errors.ts";
import { clientOf, platform, rejection } from "../client/support.ts";

interface Asked {
  readonly account: string | undefined;
  readonly reason: string;
}

/** Each account has its own token and its own booking. */
const stub = () =>
  platform(async ({ headers, url }) => {
    await sleep(10);
    const account = /^Bearer (?:new-)?token-(.*)$/.exec(headers.authorization ?? "")?.[1];
    if (account === undefined) return { status: 401 };
    return { json: { bookingCode: url.split("/").at(-1), status: account } };
  });

describe("client.account", () => {
  test("asks accessToken for the token of the account", async () => {
    const asked: Asked[] = [];
    const client = clientOf(await stub(), {
      accessToken: (request) => {
        asked.push(request);
        return `token-${request.account}`;
      },
    });
    const read = async (one: StayhookClient) => (await one.bookings.get("HX3K9")).status;
    const clients = [
      client.account("a17"),
      client.account("b2"),
      client,
      client.account("a17").account("b2"),
    ];
    expect(await Promise.all(clients.map(read))).toEqual(["a17", "b2", "undefined", "b2"]);
    expect(clients.map((one) => one.accountId)).toEqual(["a17", "b2", undefined, "b2"]);
    expect(asked.map(({ account }) => account)).toEqual(["a17", "b2", undefined, "b2"]);
    const clone = clients[0]!.withOptions({ maxRetries: 0 });
    expect([clone.accountId, await read(clone)]).toEqual(["a17", "a17"]);
  });

  test("an error of accessToken names the account", async () => {
    const client = clientOf(await stub(), {
      accessToken: ({ account }) => {
        if (account === "b2") throw new Error("revoked");
        return "";
      },
    });
    const messageOf = async (one: StayhookClient) => (await rejection(one.bookings.get("X"))).message;
    expect(await messageOf(client.account("a17"))).toMatch(/invalid token for account a17: .* not be empty/);
    expect(await messageOf(client.account("b2"))).toMatch(/threw an error for account b2/);
    expect(await messageOf(client)).not.toMatch(/account/);
  });

  test("keeps the class, and the options that the first client read", async () => {
    vi.stubEnv("STAYHOOK_BASE_URL", (await stub()).url);
    class Mine extends StayhookClient {
      status = async () => (await this.bookings.get("X")).status;
      constructor(suffix: string) {
        super({ accessToken: ({ account }) => `token-${account}${suffix}` });
      }
    }
    const client = new Mine("!");
    vi.stubEnv("STAYHOOK_BASE_URL", "");
    const mine = client.account("a17");
    expect(mine).toBeInstanceOf(Mine);
    expect([mine.accountId, await mine.status()]).toEqual(["a17", "a17!"]);
    expect(client.accountId).toBeUndefined();
    vi.unstubAllEnvs();
  });

  test("shares a refresh among all clients of one account, clones too, and with no other account", async () => {
    const asked: Asked[] = [];
    const accessToken = async (request: Asked) => {
      asked.push(request);
      await sleep(5);
      return request.reason === "initial" ? "old" : `new-token-${request.account}`;
    };
    const client = clientOf(await stub(), { accessToken });
    const ofAccount = (id: string) => [
      client.account(id),
      client.account(id),
      client.account(id).withOptions({}),
    ];
    const reads = ["a17", "b2"].flatMap(ofAccount).map((one) => one.bookings.get("X"));
    expect((await Promise.all(reads)).map(({ status }) => status)).toEqual([
      ...["a17", "a17", "a17", "b2", "b2", "b2"],
    ]);
    const refreshed = asked.filter(({ reason }) => reason === "unauthorized").map(({ account }) => account);
    expect(refreshed.sort()).toEqual(["a17", "b2"]);
  });

  test.each(["", "a/b", "ä", "x".repeat(65), 7, undefined])("refuses %j", async (id) => {
    const client = clientOf(await stub(), { accessToken: () => "t" });
    expect(() => client.account(id as string)).toThrow(InvalidArgumentError);
  });

  test("needs accessToken as a function, also in a clone", async () => {
    const server = await stub();
    expect(() => clientOf(server, { accessToken: "text" }).account("a17")).toThrow(/accessToken.*function/);
    const bound = clientOf(server, { accessToken: () => "t" }).account("a17");
    expect(() => bound.withOptions({ accessToken: "text" })).toThrow(InvalidArgumentError);
    // A failure leaves nothing behind for the next client.
    expect(clientOf(server).accountId).toBeUndefined();
  });

  test("names the account to observers", async () => {
    const seen: unknown[] = [];
    const onRequest = ({ account }: { account?: string | undefined }) => seen.push(account);
    const client = clientOf(await stub(), { accessToken: ({ account }) => `token-${account}`, onRequest });
    await client.account("a17").bookings.get("X");
    await client.bookings.get("X");
    expect(seen).toEqual(["a17", undefined]);
  });

  test("an AccessTokenError of one account does not reach another", async () => {
    const client = clientOf(await stub(), {
      accessToken: ({ account }) => {
        if (account === "a17") throw new Error("revoked");
        return `token-${account}`;
      },
    });
    const failed = rejection(client.account("a17").bookings.get("X"));
    const read = client.account("b2").bookings.get("X");
    expect([(await failed).name, (await read).status]).toEqual(["AccessTokenError", "b2"]);
  });
});
