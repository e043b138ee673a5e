// The checks of a handler's options, and of the options of its methods.

import * as z from "zod";
import { ACCOUNT_RULE, isAccount } from "../account.ts";
import { MAX_TIMER } from "../async.ts";
import type { StayhookClient } from "../client/client.ts";
import { problemWithTelemetry } from "../client/client-options.ts";
import { errorText } from "../error-text.ts";
import { InvalidArgumentError, type Issue } from "../errors.ts";
import { daysIn } from "../models/dates.ts";
import { eventTypes } from "../models/event-types.ts";
import { isObject } from "../models/is-object.ts";
import type { Booking, Listing } from "../models/records.ts";
import { HOLDS } from "../models/statuses.ts";
import { nearest } from "../option-names.ts";
import {
  abortSignal,
  callable,
  check,
  durationFrom,
  integerFrom,
  logger,
  numberFrom,
  oneOf,
  option,
  optionsObject,
  or,
} from "../options.ts";
import { defaultBackoff, safeBackoff } from "../queue/wait-rules.ts";
import type { Backoff } from "../queue/work.ts";
import { declaredIn } from "../stays/declared.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { IntakeStore } from "../stores/forward.ts";
import { MAX_WAIT } from "../stores/outcomes.ts";
import type { WebhookCallbacks } from "./events.ts";
import type { Observation, Telemetry } from "./observability.ts";
import type { Track } from "./processing/snapshots.ts";
import type { TimeZone } from "./processing/time-zone.ts";
import type { AccountFrom } from "./receiving/account.ts";
import { TOPIC } from "./receiving/request.ts";
import { secretPlaceOf, type Verify } from "./receiving/verify.ts";
import { kindsOfRecords } from "./refs.ts";
import { isTimerKey, NAME_RULE, timerNameIn } from "./timer-rules.ts";

const SECOND = 1000;
const DAY = 24 * 60 * 60 * SECOND;
const FOREVER = Number.POSITIVE_INFINITY;

/** The keys that `on` may have. */
const ON: readonly string[] = [...eventTypes, ...kindsOfRecords, "fallback"];

function problemWithType(type: string): string {
  if (timerNameIn(type) !== undefined) return `does not end with the name of a timer: ${NAME_RULE}`;
  const near = nearest(type, ON);
  const hint = near === undefined ? "." : `; did you mean ${near}?`;
  return `is not a type of event${hint} The types are ${ON.join(", ")}, and booking.timer.<name> and listing.timer.<name>`;
}

const onSchema = () =>
  z.unknown().superRefine((on, context) => {
    if (!isObject(on)) return context.addIssue("must be an object of callbacks");
    for (const [type, callback] of Object.entries(on)) {
      if (!ON.includes(type) && !isTimerKey(type)) {
        context.addIssue({ code: "custom", path: [type], message: problemWithType(type) });
      } else if (callback !== undefined && typeof callback !== "function")
        context.addIssue({ code: "custom", path: [type], message: "must be a function" });
    }
  });

const duration = (byDefault: number, least: number, most: number) => or(durationFrom(least, most), byDefault);

const whole = (byDefault: number, most: number) =>
  or(integerFrom(1, most, `must be a whole number from 1 to ${most}`), byDefault);

function problemWithZone(zone: unknown): string | undefined {
  if (typeof zone === "function") return undefined;
  try {
    if (typeof zone === "string" && daysIn(zone)) return undefined;
  } catch {}
  return "must be an IANA time zone, such as Europe/Paris, or a function that returns one for a booking";
}

function problemWithHolds(holds: unknown): string | undefined {
  const isList = Array.isArray(holds) && holds.every((status) => typeof status === "string" && status !== "");
  return isList ? undefined : `must be an array of statuses, as in ${JSON.stringify(HOLDS)}`;
}

const recheckSchema = () =>
  z.unknown().transform((given, context): number | false => {
    const ms = given === false ? given : durationFrom(1, MAX_WAIT).safeParse(given).data;
    if (ms === false || Number.isInteger(ms)) return ms as number | false;
    context.addIssue('must be false, a whole number of ms, 1 or more, or a duration such as "30s" or "5m"');
    return z.NEVER;
  });

const schema = () =>
  optionsObject({
    client: z.custom<StayhookClient>(
      (client) => isObject(client) && isObject(client.bookings) && isObject(client.listings),
      { error: "must be a StayhookClient" },
    ),
    store: z.custom<EventStore | IntakeStore>(isStore, {
      error: "must be an EventStore, such as sqliteStore(…); for tests, use memoryStore()",
    }),
    on: onSchema(),
    verify: z
      .custom<Verify | false>((verify) => verify === false || typeof verify === "function", {
        error: "must be a function, or false",
      })
      .optional(),
    track: optionsObject({ booking: callable().optional(), listing: callable().optional() })
      .optional()
      .transform((track) => track ?? {}),
    timeZone: option<TimeZone>(problemWithZone).optional(),
    holds: option<readonly string[]>(problemWithHolds).default(HOLDS),
    recheckAfter: or(recheckSchema(), 60 * SECOND),
    accountFrom: z
      .custom<AccountFrom>(
        (from) =>
          typeof from === "function" ||
          (isObject(from) && isName(from.query) && Object.keys(from).length === 1),
        { error: "must be { query: <the name of a parameter> }, or a function" },
      )
      .optional(),
    maxBodyBytes: whole(16_384, Number.MAX_SAFE_INTEGER),
    maxBacklog: or(numberFrom(0, FOREVER, "must be a number, 0 or more"), 1_000_000),
    silentAfter: duration(FOREVER, 1, FOREVER),
    replyWithin: duration(25 * SECOND, 1, MAX_TIMER),
    processing: oneOf("background", "inline").default("background"),
    autoStart: oneOf(true, false).default(true),
    concurrency: whole(10, 10_000),
    maxAttempts: whole(12, Number.MAX_SAFE_INTEGER),
    backoff: callable<Backoff>()
      .optional()
      .transform((backoff) => safeBackoff(backoff ?? defaultBackoff, defaultBackoff)),
    attemptTimeout: duration(300 * SECOND, 1, MAX_TIMER),
    leaseDuration: duration(30 * SECOND, 10, MAX_TIMER),
    giveUpAfter: duration(3 * DAY, 0, FOREVER),
    retention: duration(7 * DAY, 0, FOREVER),
    parkedRetention: duration(30 * DAY, 0, FOREVER),
    snapshotRetention: duration(400 * DAY, 0, FOREVER),
    stays: option<object>((stays) =>
      declaredIn(stays) ? undefined : "must be what createStays of stayhook/stays returned",
    ).optional(),
    observe: callable<(event: Observation) => unknown>().optional(),
    telemetry: option<Telemetry>(problemWithTelemetry).optional(),
    logger: logger().optional(),
  });

type Checked = z.output<ReturnType<typeof schema>>;

/** The checked `WebhookHandlerOptions` with their defaults. Durations are in ms. */
export interface Settings<B extends Booking, L extends Listing, Tx>
  extends Omit<Checked, "client" | "store" | "on" | "track" | "timeZone"> {
  readonly client: StayhookClient<B, L>;
  readonly store: EventStore<Tx> | IntakeStore;
  readonly on: WebhookCallbacks<B, L, Tx>;
  readonly track: Track<B, L>;
  readonly timeZone?: TimeZone<B> | undefined;
}

/** @throws InvalidArgumentError naming each option that is wrong */
export function checkOptions<B extends Booking, L extends Listing, Tx>(options: unknown): Settings<B, L, Tx> {
  const settings = check<unknown>(schema, options) as Settings<B, L, Tx>;
  const issues = [...problemsWithAccounts(settings), ...problemsWithStays(settings)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return settings;
}

function problemsWithStays({
  stays,
  store,
  accountFrom,
}: Pick<Settings<Booking, Listing, never>, "stays" | "accountFrom"> & { readonly store: object }): Issue[] {
  const declared = declaredIn(stays);
  if (!declared) return [];
  const issues: Issue[] = [];
  if (isIntake(store))
    issues.push({ path: ["stays"], message: "needs an EventStore. forwardTo keeps no ledger" });
  if (declared.accounts && accountFrom === undefined)
    issues.push({
      path: ["stays"],
      message: "has accounts: true, so the handler needs the option accountFrom",
    });
  if (!declared.accounts && accountFrom !== undefined)
    issues.push({
      path: ["stays"],
      message: "needs accounts: true, because the handler has the option accountFrom",
    });
  return issues;
}

/** Returns what the other options lack if there is an `accountFrom`, or if there is none. */
function problemsWithAccounts({ accountFrom, client, verify }: AccountSettings): Issue[] {
  const place = secretPlaceOf(verify);
  if (accountFrom === undefined)
    return place?.hasAccounts
      ? [
          {
            path: ["verify"],
            message: "has secrets for accounts, so the handler needs the option accountFrom",
          },
        ]
      : [];
  const { query } = accountFrom as { readonly query?: string };
  if (query !== undefined && [TOPIC, place?.query].includes(query))
    return [
      { path: ["accountFrom"], message: `has the same parameter as the topic or the secret: ${query}` },
    ];
  if (typeof client.account !== "function")
    return [{ path: ["client"], message: "must be a StayhookClient" }];
  try {
    client.account("-");
    return [];
  } catch (error) {
    // The client's token is a text.
    const issues =
      error instanceof InvalidArgumentError ? error.issues : [{ path: [], message: errorText(error) }];
    return issues.map(({ path, message }) => ({ path: ["client", ...path], message }));
  }
}

type AccountSettings = Pick<Settings<Booking, Listing, never>, "accountFrom" | "client" | "verify">;

function isName(name: unknown): boolean {
  return typeof name === "string" && name !== "";
}

const timeout = () => durationFrom(0, FOREVER).optional();

const calls = {
  drain: () => optionsObject({ timeout: timeout(), signal: abortSignal().optional() }),
  process: () =>
    optionsObject({
      signal: abortSignal().optional(),
      attempt: integerFrom(1, Number.MAX_SAFE_INTEGER, "must be a whole number, 1 or more").optional(),
      account: option<string>((id) =>
        isAccount(id) ? undefined : `must be an account: ${ACCOUNT_RULE}`,
      ).optional(),
    }),
  close: () => optionsObject({ timeout: timeout() }),
} satisfies Record<string, () => z.ZodType>;

/**
 * Checks the options of a method of the handler.
 *
 * @throws InvalidArgumentError naming each field that is wrong
 */
export function checkCallOptions<M extends keyof typeof calls>(
  method: M,
  options: unknown = {},
): z.output<ReturnType<(typeof calls)[M]>> {
  return check<unknown>(calls[method], options) as z.output<ReturnType<(typeof calls)[M]>>;
}

function isStore(store: unknown): boolean {
  if (!isObject(store) || typeof store.add !== "function") return false;
  return typeof store.claim === "function" || isIntake(store);
}

/** Whether the handler only records its events, because `forwardTo` passes them to a queue of the user. */
export function isIntake(store: object): store is IntakeStore {
  return (store as Partial<IntakeStore>).intakeOnly === true;
}
