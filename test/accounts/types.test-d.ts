import type { IncomingMessage } from "node:http";
import type express from "express";
import type { FastifyRequest } from "fastify";
import type { ParameterizedContext } from "koa";
import { describe, expectTypeOf, test } from "vitest";
import { toFastifyPlugin } from "../../src/adapters/fastify.ts";
import { toKoaMiddleware } from "../../src/adapters/koa.ts";
import { toLambdaHandler } from "../../src/adapters/lambda.ts";
import { toNodeHandler } from "../../src/adapters/node.ts";
import {
  type BookingEvent,
  createWebhookHandler,
  type EventOf,
  forwardTo,
  memoryStore,
  StayhookClient,
  type WebhookEvent,
  type WithAccount,
} from "../../src/index.ts";

const client = new StayhookClient({ accessToken: ({ account }) => account ?? "" });
const store = memoryStore();

describe("event.account", () => {
  test("is a string in every callback of a handler with accountFrom", () => {
    const handler = createWebhookHandler({
      client,
      store,
      accountFrom: { query: "account" },
      track: {
        booking: ({ checkIn }, { account }) => {
          expectTypeOf(account).toEqualTypeOf<string>();
          return { checkIn };
        },
        listing: (_, { account }) => ({ account }),
      },
      timeZone: (booking, { account }) => {
        expectTypeOf(booking.status).toEqualTypeOf<string>();
        expectTypeOf(account).toEqualTypeOf<string>();
        return account;
      },
      on: {
        "booking.Confirmed": ({ account, changes }) => {
          expectTypeOf(account).toEqualTypeOf<string>();
          expectTypeOf(changes).toHaveProperty("checkIn");
        },
        "booking.timer.door": (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
        booking: (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
        message: (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
        fallback: (event) => expectTypeOf(event.account).toEqualTypeOf<string>(),
      },
    });
    expectTypeOf<EventOf<typeof handler, "booking.Confirmed">["account"]>().toEqualTypeOf<string>();
    expectTypeOf<EventOf<typeof handler, "unknown">["account"]>().toEqualTypeOf<string>();
  });

  test("is there with a function, and with forwardTo", () => {
    createWebhookHandler({
      client,
      store: forwardTo(() => {}),
      accountFrom: ({ url, headers }) => {
        expectTypeOf(url).toEqualTypeOf<URL>();
        return headers.get("x-account") ?? url.pathname.split("/")[1];
      },
      on: { booking: ({ account, booking }) => [account, booking.bookingCode] },
    });
  });

  test("is not there without accountFrom", () => {
    const handler = createWebhookHandler({
      client,
      store,
      on: {
        // @ts-expect-error no account
        booking: ({ account }) => account,
      },
    });
    expectTypeOf<EventOf<typeof handler, "booking">>().not.toHaveProperty("account");
    expectTypeOf<WebhookEvent>().not.toHaveProperty("account");
  });

  test("is there in the events of settings with accountFrom, and with WithAccount", () => {
    const settings = { client, store, accountFrom: { query: "account" } };
    expectTypeOf<EventOf<typeof settings, "booking">["account"]>().toEqualTypeOf<string>();
    const onConfirmed = ({ account, booking }: WithAccount<BookingEvent<"Confirmed">>) => [
      account,
      booking.bookingCode,
    ];
    createWebhookHandler({ ...settings, on: { "booking.Confirmed": onConfirmed } });
    createWebhookHandler({
      client,
      store,
      // @ts-expect-error the handler has no accounts
      on: { "booking.Confirmed": onConfirmed },
    });
  });

  test("accountFrom is synchronous", () => {
    // @ts-expect-error a promise
    createWebhookHandler({ client, store, accountFrom: async () => "a17", on: {} });
  });
});

describe("the option account of an adapter", () => {
  const handler = createWebhookHandler({ client, store, accountFrom: { query: "account" }, on: {} });

  test("takes a function whose argument has no type", () => {
    toNodeHandler(handler, { account: (request) => request.params.account });
    toFastifyPlugin(handler, { account: (request) => request.params.account });
    toKoaMiddleware(handler, { account: (context) => context.params.account });
    toLambdaHandler(handler, { account: (event) => event.pathParameters?.account });
    // @ts-expect-error a promise
    toNodeHandler(handler, { account: async () => "a17" });
  });

  test("takes a function of the framework's own request", () => {
    type Route = { Params: { account: string } };
    toNodeHandler(handler, { account: (request: express.Request) => request.params.account });
    toNodeHandler(handler, { account: (request: IncomingMessage) => request.url });
    toFastifyPlugin(handler, { account: (request: FastifyRequest<Route>) => request.params.account });
    toFastifyPlugin(handler, { account: ({ headers }: FastifyRequest) => headers["x-account"] });
    toKoaMiddleware(handler, { account: ({ query }: ParameterizedContext) => query.account });
    toLambdaHandler(handler, { account: (event: { version: string }) => event.version });
    // @ts-expect-error a request of another framework
    toKoaMiddleware(handler, { account: (request: express.Request) => request.params.account });
  });
});
