import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { DatabaseSync } from "node:sqlite";
import {
  Booking,
  type BookingContext,
  type BookingEvent,
  type BookingRequestEvent,
  type BookingStatusEvent,
  type BookingStay,
  type BookingTimerEvent,
  createWebhookHandler,
  type EventOf,
  type FieldChanges,
  type ForwardingHandler,
  forwardTo,
  type ListingEvent,
  type ListingStatusEvent,
  type ListingTimerEvent,
  type MemoryStore,
  type MessageWebhookEvent,
  memoryStore,
  type PreviousRecord,
  type RecordTimers,
  type StayChange,
  StayhookClient,
  type TimerOptions,
  type Transactional,
  type UnknownEvent,
  type WebhookCallbacks,
  type WebhookEvent,
  type WebhookHandler,
  type WebhookHandlerOptions,
} from "stayhook";
import { toFastifyPlugin } from "stayhook/fastify";
import { toKoaMiddleware } from "stayhook/koa";
import { toLambdaHandler, toSqsHandler } from "stayhook/lambda";
import { toNodeHandler } from "stayhook/node";
import { type SqliteTransaction, sqliteStore } from "stayhook/sqlite";
import type { EventStore, TrackedValue } from "stayhook/store";
import { describe, expectTypeOf, test } from "vitest";
import * as z from "zod";
import type { BookingStatus } from "../../src/models/records.ts";
import type { EventBase, RecordEventBase, WebhookEventMap } from "../../src/webhooks/events.ts";
import type { FieldChange } from "../../src/webhooks/field-changes.ts";

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "token" });
const store = memoryStore();
const base = { client, store };
type Tx = { run(sql: string): number };
declare const database: EventStore<Tx>;

describe("on", () => {
  // test/package/consumer/mistakes.ts has the keys and options that are refused, with the words of the compiler.
  test("narrows what each callback gets", () => {
    createWebhookHandler({
      ...base,
      on: {
        "booking.Request": (event) => {
          expectTypeOf(event.type).toEqualTypeOf<"booking.Request">();
          expectTypeOf(event.status).toEqualTypeOf<"Request">();
          expectTypeOf(event.booking.status).toExtend<"Request">();
          expectTypeOf(event.booking.bookingCode).toEqualTypeOf<string>();
          // @ts-expect-error a booking has no such field
          event.booking.anythingElse;
          expectTypeOf(event.decideBy).toEqualTypeOf<Date>();
          expectTypeOf(event.ref).toEqualTypeOf<string>();
          expectTypeOf(event.timestamp).toEqualTypeOf<Date>();
          expectTypeOf(event.signal).toEqualTypeOf<AbortSignal>();
          expectTypeOf(event.source).toEqualTypeOf<"webhook" | "reconcile" | "recheck" | "timer">();
          expectTypeOf(event.changed).toEqualTypeOf<boolean>();
          expectTypeOf(event.changes.checkIn?.from).toEqualTypeOf<
            string | number | boolean | null | undefined
          >();
          expectTypeOf(event.previous?.status).toEqualTypeOf<string | undefined>();
          // @ts-expect-error an event of a booking has no listing
          event.listing;
        },
        "booking.unknown": (event) => expectTypeOf(event.status).toEqualTypeOf<string>(),
        "listing.Published": ({ listing, status }) => {
          expectTypeOf(status).toEqualTypeOf<"Published">();
          expectTypeOf(listing.status).toExtend<"Published">();
          expectTypeOf(listing.listingId).toEqualTypeOf<number>();
        },
        unknown: (event) => {
          expectTypeOf(event.type).toEqualTypeOf<"unknown">();
          expectTypeOf(event.status).toEqualTypeOf<undefined>();
          // @ts-expect-error no event has this field
          event.guest;
        },
        message: (event) => {
          expectTypeOf(event.type).toEqualTypeOf<"message">();
          expectTypeOf(event.changes).toEqualTypeOf<undefined>();
        },
      },
    });
  });
});

describe("the user's own models", () => {
  const MyBooking = Booking.extend({ guestName: z.string() });
  const mine = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "token",
    models: { booking: MyBooking },
  });

  test("flow into the client and the callbacks", () => {
    expectTypeOf(mine.bookings.get).returns.resolves.toHaveProperty("guestName").toEqualTypeOf<string>();
    createWebhookHandler({
      client: mine,
      store,
      on: {
        "booking.Confirmed": ({ booking }) => {
          expectTypeOf(booking.guestName).toEqualTypeOf<string>();
          expectTypeOf(booking.status).toExtend<"Confirmed">();
        },
        fallback: (event) => {
          if (event.type === "booking.Request") expectTypeOf(event.booking.guestName).toEqualTypeOf<string>();
        },
      },
    });
  });
});

describe("fallback", () => {
  test("may destructure the fields of any event but its record", () => {
    createWebhookHandler({
      ...base,
      on: {
        fallback: ({ status, changed, changes, previous, ref, type }) => {
          expectTypeOf(status).toEqualTypeOf<string | undefined>();
          expectTypeOf(changed).toEqualTypeOf<boolean | undefined>();
          expectTypeOf(changes?.status?.to).toEqualTypeOf<TrackedValue | undefined>();
          expectTypeOf(previous?.checkIn).toEqualTypeOf<TrackedValue | undefined>();
          expectTypeOf(ref).toEqualTypeOf<string | null>();
          expectTypeOf(type).toEqualTypeOf<
            keyof WebhookEventMap | `booking.timer.${string}` | `listing.timer.${string}`
          >();
        },
      },
    });
  });
});

describe("`in`", () => {
  test("narrows any event to those of bookings, of listings, or without a record", () => {
    const look = (event: WebhookEvent) => {
      if ("booking" in event) {
        expectTypeOf(event).toEqualTypeOf<BookingEvent | BookingTimerEvent>();
        expectTypeOf(event.booking.bookingCode).toEqualTypeOf<string>();
        // @ts-expect-error an event of a booking has no listing
        event.listing;
      } else if ("listing" in event) {
        expectTypeOf(event).toEqualTypeOf<ListingEvent | ListingTimerEvent>();
        expectTypeOf(event.listing.listingId).toEqualTypeOf<number>();
      } else expectTypeOf(event).toEqualTypeOf<MessageWebhookEvent | UnknownEvent>();
    };
    createWebhookHandler({ ...base, on: { fallback: look } });
    createWebhookHandler({
      client,
      store: sqliteStore("events.db"),
      accountFrom: () => "a17",
      on: {
        fallback: (event) => {
          if (!("booking" in event) || event.type === "booking.gone") return;
          event.atomically((tx) => tx.prepare("insert").run(event.account, event.booking.bookingCode));
        },
      },
    });
  });
});

describe("atomically", () => {
  test("takes no async function on SQLite, whose writes are synchronous", () => {
    createWebhookHandler({
      client,
      store: sqliteStore("events.db"),
      on: {
        "booking.Confirmed": ({ atomically }) => {
          atomically((tx) => tx.exec("insert"));
          atomically((tx) => tx.prepare("insert").run());
          atomically(() => {});
          // @ts-expect-error a write must not return a promise
          atomically((tx) => Promise.resolve(tx.exec("insert")));
          // @ts-expect-error a write must never return a promise
          atomically((tx) => (tx.isOpen ? Promise.resolve(1) : 1));
        },
        // @ts-expect-error a write must not return a promise
        fallback: ({ atomically }) => atomically(async (tx) => tx.exec("insert")),
      },
    });
    expectTypeOf(sqliteStore("events.db")).toExtend<EventStore<SqliteTransaction>>();
    expectTypeOf(sqliteStore("events.db")).toExtend<EventStore>();
    expectTypeOf<SqliteTransaction>().toExtend<DatabaseSync>();
    // A user's function for any database of node:sqlite.
    const sell = (db: DatabaseSync) => db.exec("insert");
    const confirmed = ({ atomically }: BookingEvent<"Confirmed", Booking, SqliteTransaction>) =>
      atomically(sell);
    createWebhookHandler({ client, store: sqliteStore("events.db"), on: { "booking.Confirmed": confirmed } });
  });

  test("is there on a store with transactions, with that store's own tx", () => {
    createWebhookHandler({
      client,
      store: database,
      on: {
        "booking.Confirmed": (event) => event.atomically((tx) => tx.run("insert")),
        unknown: ({ atomically }) => atomically(async (tx) => tx.run("insert")),
        fallback: (event) => {
          expectTypeOf(event.atomically)
            .parameter(0)
            .parameter(0)
            .toEqualTypeOf<{ run(sql: string): number }>();
        },
      },
    });
  });

  test("memoryStore infers the tx of an ORM's transaction", () => {
    interface Trx {
      insert(row: string): PromiseLike<number>;
    }
    type Callback<T> = (trx: Trx) => Promise<T>;
    const drizzle = {} as { transaction<T>(callback: Callback<T>, options?: object): Promise<T> };
    const kysely = {} as { transaction(): { execute<T>(callback: Callback<T>): Promise<T> } };
    const knex = {} as {
      // biome-ignore lint/suspicious/noConfusingVoidType: as knex declares it
      transaction<T>(callback: (trx: Trx) => Promise<T> | void, options?: { readOnly: boolean }): Promise<T>;
      transaction(options?: { readOnly: boolean }): Promise<Trx>;
    };
    const stores = [
      memoryStore({ transaction: (run) => drizzle.transaction(run) }),
      memoryStore({ transaction: (run) => drizzle.transaction(run, { level: "serializable" }) }),
      memoryStore({ transaction: (run) => kysely.transaction().execute(run) }),
      memoryStore({ transaction: (run) => knex.transaction(async (trx) => run(trx)) }),
      memoryStore({ transaction: async (run) => await drizzle.transaction(async (trx) => await run(trx)) }),
    ];
    expectTypeOf(stores).toEqualTypeOf<MemoryStore<Trx>[]>();
    createWebhookHandler({
      client,
      store: memoryStore({ transaction: (run) => drizzle.transaction(run) }),
      on: {
        "booking.Confirmed": ({ booking, atomically }) =>
          atomically((tx) => {
            expectTypeOf(tx).toEqualTypeOf<Trx>();
            return tx.insert(booking.bookingCode);
          }),
      },
    });
  });

  test("memoryStore takes a transaction that names its tx, and returns nothing", () => {
    const database = {} as DatabaseSync;
    const store = memoryStore<DatabaseSync>({
      transaction: (run) => {
        database.exec("BEGIN");
        run(database);
        database.exec("COMMIT");
      },
    });
    const annotated = memoryStore({
      transaction: async (run: (tx: string[]) => void | Promise<void>) => {
        await run([]);
      },
    });
    expectTypeOf(store).toEqualTypeOf<MemoryStore<DatabaseSync>>();
    expectTypeOf(annotated).toEqualTypeOf<MemoryStore<string[]>>();
    expectTypeOf(memoryStore()).toEqualTypeOf<MemoryStore>();
    expectTypeOf(memoryStore({ transaction: undefined })).toEqualTypeOf<MemoryStore>();
  });

  test("a store with transactions serves where one without is asked for", () => {
    expectTypeOf(database).toExtend<EventStore>();
  });
});

describe("changes and previous", () => {
  type Names = "status" | "checkIn" | "checkOut" | "listingId" | "listingName";

  test("name the fields that are tracked by default", () => {
    expectTypeOf<keyof FieldChanges>().toEqualTypeOf<Names>();
    expectTypeOf<keyof PreviousRecord>().toEqualTypeOf<Names>();
    expectTypeOf<BookingEvent<"Confirmed">["changes"]>().toEqualTypeOf<FieldChanges>();
    createWebhookHandler({
      ...base,
      on: {
        "booking.Confirmed": ({ changes, previous }) => {
          expectTypeOf(changes.checkIn).toEqualTypeOf<FieldChange | undefined>();
          // @ts-expect-error misspelled
          changes.chekIn;
          // @ts-expect-error misspelled
          previous?.chekOut;
        },
      },
    });
  });

  test("take the fields that `track` chooses", () => {
    expectTypeOf<FieldChanges<"guests">["guests"]>().toEqualTypeOf<FieldChange | undefined>();
    createWebhookHandler({
      client: new StayhookClient({ models: { booking: Booking.extend({ guests: z.number() }) } }),
      store,
      track: {
        booking: ({ checkIn, guests }) => ({ checkIn, guests }),
        listing: ({ listingName }) => ({ title: listingName }),
      },
      on: {
        "booking.Confirmed": ({ changes, previous }) => {
          expectTypeOf(changes.guests).toEqualTypeOf<FieldChange | undefined>();
          expectTypeOf(changes.checkOut).toEqualTypeOf<FieldChange | undefined>();
          expectTypeOf(previous?.guests).toEqualTypeOf<TrackedValue | undefined>();
          // @ts-expect-error misspelled
          changes.gusts;
        },
        fallback: ({ changes, previous }) => [changes?.title, previous?.guests],
        "booking.timer.door-code": ({ previous }) => previous?.guests,
      },
    });
    createWebhookHandler({
      ...base,
      // @ts-expect-error a snapshot has no objects
      track: { booking: ({ checkIn }) => ({ checkIn: { day: checkIn } }) },
      on: {},
    });
  });
});

describe("a handler on forwardTo", () => {
  const forwarding = createWebhookHandler({ client, store: forwardTo(() => {}), on: { fallback: () => {} } });

  test("has nothing in its type that would process a queue", () => {
    expectTypeOf(forwarding).toEqualTypeOf<ForwardingHandler>();
    expectTypeOf<Exclude<keyof WebhookHandler, keyof ForwardingHandler>>().toEqualTypeOf<
      "start" | "drain" | "health" | "timers" | "things" | "eraseAccount"
    >();
    toNodeHandler(forwarding);
    toKoaMiddleware(forwarding);
    toFastifyPlugin(forwarding);
    toLambdaHandler(forwarding);
    toSqsHandler(forwarding);
  });

  test("any other handler has it all", () => {
    expectTypeOf(createWebhookHandler({ ...base, on: {} })).toEqualTypeOf<WebhookHandler>();
    expectTypeOf(createWebhookHandler({ client, store: database, on: {} })).toExtend<WebhookHandler>();
    const options = (): WebhookHandlerOptions => ({ client, store, on: {} });
    expectTypeOf(createWebhookHandler(options())).toEqualTypeOf<WebhookHandler>();
    expectTypeOf(
      createWebhookHandler({ ...options(), on: { "booking.Request": ({ attempt }) => attempt } }),
    ).toEqualTypeOf<WebhookHandler>();
    toNodeHandler(createWebhookHandler(options()));
  });

  test("its listener takes the request and response of Fastify and of Koa", () => {
    const take = toNodeHandler(forwarding);
    expectTypeOf(take).toBeCallableWith({ raw: {} as IncomingMessage }, { raw: {} as ServerResponse });
    expectTypeOf(take).toBeCallableWith({ req: {} as IncomingMessage }, { res: {} as ServerResponse });
    // @ts-expect-error a web request has neither
    take(new Request("https://you.example"), new Response());
  });

  test("its listener takes requests of http2, as the listeners of h3 2 must", () => {
    expectTypeOf(toNodeHandler(forwarding)).toExtend<
      (
        request: IncomingMessage | Http2ServerRequest,
        response: ServerResponse | Http2ServerResponse,
      ) => unknown
    >();
  });
});

describe("the exported event types", () => {
  test("name what a function of the user's takes", () => {
    const confirmed = ({ booking }: BookingEvent<"Confirmed">) => booking.bookingCode;
    const moved = ({ status }: BookingEvent<"Confirmed" | "Cancelled">) => status;
    const published = ({ listing }: ListingEvent<"Published">) => listing.listingId;
    const other = ({ notification }: UnknownEvent) => notification?.eventId;
    const message = ({ topic }: MessageWebhookEvent) => topic;
    const writing = ({ atomically }: BookingStatusEvent<"Confirmed"> & Transactional<Tx>) =>
      atomically((tx) => tx.run("insert"));
    expectTypeOf(moved).returns.toEqualTypeOf<"Confirmed" | "Cancelled">();
    createWebhookHandler({
      ...base,
      on: {
        "booking.Confirmed": confirmed,
        "booking.Cancelled": moved,
        "listing.Published": published,
        unknown: other,
        // @ts-expect-error the callback takes only Confirmed events
        "booking.Declined": confirmed,
      },
    });
    createWebhookHandler({ ...base, on: { message } });
    createWebhookHandler({ client, store: database, on: { "booking.Confirmed": writing } });
    // @ts-expect-error this store has no transactions
    createWebhookHandler({ ...base, on: { "booking.Confirmed": writing } });
    const callbacks: WebhookCallbacks = { "booking.Request": ({ decideBy }) => decideBy?.getTime() };
    createWebhookHandler({ ...base, on: callbacks });
    // Callbacks without writes also work with a transactional store.
    createWebhookHandler({ client, store: database, on: callbacks });
    expectTypeOf<WebhookEventMap["booking.Confirmed"]>().toEqualTypeOf<BookingStatusEvent<"Confirmed">>();
    expectTypeOf<BookingEvent<"Request">>().toEqualTypeOf<BookingRequestEvent>();
    expectTypeOf<BookingRequestEvent>().toExtend<RecordEventBase>();
    expectTypeOf<WebhookEvent>().toExtend<EventBase>();
    expectTypeOf<ListingEvent<"Hidden">>().toEqualTypeOf<ListingStatusEvent<"Hidden">>();
  });

  test("nothing in them is any", () => {
    expectTypeOf<WebhookEvent["eventId"]>().not.toBeAny();
    expectTypeOf<BookingEvent["booking"]["checkIn"]>().not.toBeAny();
    expectTypeOf<BookingEvent["type"]>().toEqualTypeOf<`booking.${BookingStatus | "gone" | "unknown"}`>();
  });
});

describe("the stay of an event", () => {
  test("is a field of each event of a booking, and of no other", () => {
    createWebhookHandler({
      ...base,
      timeZone: async ({ listingId }) => (listingId === 7 ? "Europe/Paris" : undefined),
      holds: ["Confirmed"],
      track: {
        booking: (_, { account, timeZone, stay }) => {
          expectTypeOf(account).toEqualTypeOf<string | undefined>();
          expectTypeOf(timeZone).toEqualTypeOf<string | undefined>();
          expectTypeOf(stay).toEqualTypeOf<BookingStay | undefined>();
          return { hour: stay?.nights };
        },
        // @ts-expect-error a listing has no stay
        listing: (_, { stay }) => ({ stay }),
      },
      on: {
        booking: ({ stay, stayChange, timeZone }) => {
          expectTypeOf(stay).toEqualTypeOf<BookingStay | undefined>();
          expectTypeOf(stayChange).toEqualTypeOf<StayChange>();
          expectTypeOf(timeZone).toEqualTypeOf<string | undefined>();
        },
        "booking.gone": ({ stayChange }) => expectTypeOf(stayChange).toEqualTypeOf<StayChange>(),
        "booking.timer.door": ({ stayChange }) => expectTypeOf(stayChange).toEqualTypeOf<StayChange>(),
        "listing.Published": ({ stayChange }) => expectTypeOf(stayChange).toEqualTypeOf<undefined>(),
        message: ({ timeZone }) => expectTypeOf(timeZone).toEqualTypeOf<undefined>(),
        fallback: ({ stay }) => expectTypeOf(stay).toEqualTypeOf<BookingStay | undefined>(),
      },
    });
    createWebhookHandler({
      ...base,
      // @ts-expect-error not a zone
      timeZone: async () => 7,
      on: {},
    });
  });
});

describe("EventOf", () => {
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ models: { booking: Booking.extend({ guests: z.number() }) } }),
    store: sqliteStore("events.db"),
    track: { booking: ({ guests }) => ({ guests }) },
    on: {},
  });

  test("has the models, the tracked fields and the writes of the handler", () => {
    const confirmed = ({
      booking,
      changes,
      atomically,
      type,
    }: EventOf<typeof webhooks, "booking.Confirmed">) => {
      expectTypeOf(type).toEqualTypeOf<"booking.Confirmed">();
      expectTypeOf(booking.guests).toEqualTypeOf<number>();
      expectTypeOf(changes.guests).toEqualTypeOf<FieldChange | undefined>();
      atomically((tx) => tx.exec("insert"));
      // @ts-expect-error a write must not return a promise
      atomically(async (tx) => tx.exec("insert"));
    };
    createWebhookHandler({
      client: new StayhookClient({ models: { booking: Booking.extend({ guests: z.number() }) } }),
      store: sqliteStore("events.db"),
      on: { "booking.Confirmed": confirmed },
    });
    type Ended = EventOf<typeof webhooks, "booking.Cancelled" | "booking.Declined">;
    expectTypeOf<Ended["status"]>().toEqualTypeOf<"Cancelled" | "Declined">();
    type DoorCode = EventOf<typeof webhooks, "booking.timer.door-code">;
    expectTypeOf<DoorCode["timer"]["at"]>().toEqualTypeOf<Date>();
    expectTypeOf<DoorCode["booking"]["guests"]>().toEqualTypeOf<number>();
    expectTypeOf<EventOf<typeof webhooks, "message">["type"]>().toEqualTypeOf<"message">();
    // @ts-expect-error not a type of event
    expectTypeOf<EventOf<typeof webhooks, "booking.confirmed">>().toBeNever();
  });

  test("takes the client and store, so that a handler can have the callback", () => {
    const settings = {
      client: new StayhookClient({ models: { booking: Booking.extend({ guests: z.number() }) } }),
      store: sqliteStore("events.db"),
      track: {
        booking: ({ bookingCode }: Booking, { stay }: BookingContext) => ({
          code: bookingCode,
          nights: stay?.nights,
        }),
      },
    };
    const confirmed = (event: EventOf<typeof settings, "booking.Confirmed">) => {
      expectTypeOf(event.booking.guests).toEqualTypeOf<number>();
      expectTypeOf(event.changes.code).toEqualTypeOf<FieldChange | undefined>();
      expectTypeOf(event.changes.nights).toEqualTypeOf<FieldChange | undefined>();
      // @ts-expect-error not tracked
      event.changes.guests;
      // @ts-expect-error a write must not return a promise
      event.atomically(async (tx) => tx.exec("insert"));
    };
    const webhooks = createWebhookHandler({ ...settings, on: { "booking.Confirmed": confirmed } });
    expectTypeOf<EventOf<typeof webhooks, "booking.Declined">>().toEqualTypeOf<
      EventOf<typeof settings, "booking.Declined">
    >();
  });

  test("has no writes without transactions", () => {
    const plain = createWebhookHandler({ ...base, on: {} });
    expectTypeOf<EventOf<typeof plain, "booking.Request">>().toEqualTypeOf<BookingRequestEvent>();
    const forwarding = createWebhookHandler({ client, store: forwardTo(() => {}), on: {} });
    expectTypeOf<EventOf<typeof forwarding, "booking.Request">>().toEqualTypeOf<BookingRequestEvent>();
  });
});

test("a transaction whose types are not installed takes asynchronous writes", () => {
  // biome-ignore lint/suspicious/noExplicitAny: `pg` without `@types/pg` makes the transaction `any`.
  const { atomically } = {} as Transactional<any>;
  expectTypeOf(atomically).toBeCallableWith(async () => {});
});

describe("timers", () => {
  test("a callback's key names the timer, and its event has the record and the timer", () => {
    createWebhookHandler({
      ...base,
      on: {
        "booking.Confirmed": ({ timers, timer }) => {
          expectTypeOf<Parameters<typeof timers.set>>().toEqualTypeOf<
            [name: string, at: Date, options?: TimerOptions | undefined]
          >();
          expectTypeOf<Parameters<typeof timers.clear>>().toEqualTypeOf<[name?: string | undefined]>();
          expectTypeOf(timer).toEqualTypeOf<undefined>();
        },
        "booking.timer.door-code": ({ booking, timer, timers, changed, status }) => {
          expectTypeOf(booking.bookingCode).toEqualTypeOf<string>();
          expectTypeOf(timer).toEqualTypeOf<{ readonly name: string; readonly at: Date }>();
          expectTypeOf<ReturnType<typeof timers.set>>().toEqualTypeOf<void>();
          expectTypeOf(changed).toEqualTypeOf<false>();
          expectTypeOf(status).toEqualTypeOf<string>();
        },
        "listing.timer.photos": ({ listing }) => expectTypeOf(listing.listingId).toEqualTypeOf<number>(),
        message: ({ timers }) => expectTypeOf(timers).toEqualTypeOf<undefined>(),
        // @ts-expect-error not a type of event
        "booking.timers.door-code": () => {},
      },
    });
  });

  test("fallback narrows to the event of a timer", () => {
    const look = (event: WebhookEvent): void => {
      if (event.timer) {
        expectTypeOf(event.timer.at).toEqualTypeOf<Date>();
        if ("booking" in event) expectTypeOf(event.type).toEqualTypeOf<`booking.timer.${string}`>();
        else expectTypeOf(event.listing.listingId).toEqualTypeOf<number>();
      } else expectTypeOf(event.type).toEqualTypeOf<keyof WebhookEventMap>();
      switch (event.type) {
        case "booking.timer.door-code":
          expectTypeOf(event.booking.bookingCode).toEqualTypeOf<string>();
          expectTypeOf(event.timer.name).toEqualTypeOf<string>();
          break;
        case "booking.Confirmed":
          expectTypeOf(event.status).toEqualTypeOf<"Confirmed">();
          break;
      }
    };
    createWebhookHandler({ ...base, on: { fallback: look } });
  });

  test("`booking` and `listing` get every event of a record but its timers, and `EventOf` names them", () => {
    const webhooks = createWebhookHandler({
      ...base,
      on: {
        booking: (event) => {
          expectTypeOf(event.booking.bookingCode).toEqualTypeOf<string>();
          expectTypeOf(event.timer).toEqualTypeOf<undefined>();
          expectTypeOf(event.stayChange.to?.listingId).toEqualTypeOf<number | undefined>();
          if (event.type === "booking.Request") expectTypeOf(event.decideBy).toEqualTypeOf<Date>();
        },
        listing: (event) => expectTypeOf(event.listing.listingId).toEqualTypeOf<number>(),
      },
    });
    createWebhookHandler({
      ...base,
      track: { booking: () => ({ guests: 2 }), listing: () => ({ size: 1 }) },
      on: {
        booking: (event) => void event.stayChange,
        "booking.Confirmed": (event) => void event.stayChange,
        "booking.timer.clean": (event) => void event.stayChange,
      },
    });
    type OfBooking = EventOf<typeof webhooks, "booking">;
    expectTypeOf<OfBooking["type"]>().toEqualTypeOf<Extract<keyof WebhookEventMap, `booking.${string}`>>();
  });

  test("only a handler with an EventStore has timers", () => {
    expectTypeOf<WebhookHandler["timers"]>().returns.toEqualTypeOf<RecordTimers>();
    expectTypeOf<Awaited<ReturnType<RecordTimers["list"]>>[number]>().toExtend<{ name: string; at: Date }>();
  });
});

describe("a key of `on`", () => {
  test("that is misspelt is told with the key that was meant, also of an object that was made before", () => {
    const on = { "booking.Confirmd": () => {} };
    // @ts-expect-error did you mean booking.Confirmed
    createWebhookHandler({ client, store, on });
    createWebhookHandler({
      ...base,
      on: {
        // The other callbacks keep the types of their events.
        "booking.Request": ({ decideBy }) => expectTypeOf(decideBy).toEqualTypeOf<Date>(),
        "booking.timer.door-code": ({ timer }) => expectTypeOf(timer.at).toEqualTypeOf<Date>(),
        // @ts-expect-error did you mean message
        mesage: () => {},
      },
    });
  });

  test("may stand before track and accountFrom", () => {
    createWebhookHandler({
      ...base,
      on: {
        "booking.Confirmed": ({ account, changes }) => {
          expectTypeOf(account).toEqualTypeOf<string>();
          expectTypeOf(changes.total).toEqualTypeOf<FieldChange | undefined>();
        },
      },
      track: { booking: () => ({ total: 1 }) },
      accountFrom: { query: "account" },
    });
  });
});
