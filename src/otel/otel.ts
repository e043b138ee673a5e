import {
  type Attributes,
  type Context,
  context,
  type Meter,
  metrics,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import * as z from "zod";
import { accountOf } from "../account.ts";
import type { RequestObservation, ResponseObservation } from "../client/observers.ts";
import { withoutWords } from "../error-text.ts";
import { check, optionsObject } from "../options.ts";
import type { AttemptResult } from "../queue/work.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { version } from "../version.ts";
import type { Observation, Telemetry, WaitingEvents } from "../webhooks/observability.ts";
import { laneOf } from "../webhooks/refs.ts";

/** The options of {@link telemetry}. */
type TelemetryOptions = {
  /** Makes the spans. Default: the tracer `stayhook` of the global provider. */
  readonly tracer?: Tracer | undefined;
  /** Makes the metrics. Default: the meter `stayhook` of the global provider. */
  readonly meter?: Meter | undefined;
};

/**
 * Makes the `telemetry` option of a handler and its client. The spans and metrics follow OpenTelemetry's semantic
 * conventions for messaging and HTTP.
 *
 * Start the OpenTelemetry SDK before you call this function. Otherwise the global meter records nothing.
 *
 * @throws InvalidArgumentError if an option is wrong. The error names the option
 * @example
 * ```ts
 * const otel = telemetry();
 * const client = new StayhookClient({ baseUrl, accessToken, telemetry: otel });
 * const webhooks = createWebhookHandler({ client, store, on, telemetry: otel });
 * ```
 */
export function telemetry(options: TelemetryOptions = {}): Required<Telemetry> {
  check(schema, options);
  const tracer = options.tracer ?? trace.getTracer("stayhook", version);
  const instruments = instrumentsOf(options.meter ?? metrics.getMeter("stayhook", version));
  return {
    recorded: (event, added) => recorded(tracer, instruments, event, added),
    process: (event, run) => process(tracer, instruments, event, run),
    ...requestSpans(tracer),
    observe: (observation) => {
      instruments.observations.add(1, attributesOf(observation));
      if (observation.kind === "paused") instruments.pauses.begin(observation);
      if (observation.kind === "resumed") instruments.pauses.end(observation);
      if (observation.kind === "started" && observation.lateness !== undefined)
        instruments.lateness.record(observation.lateness / 1000, system);
    },
    watch: (waiting) => instruments.watch(waiting),
  };
}

const schema = () =>
  optionsObject({
    tracer: z
      .custom<Tracer>((tracer) => typeof Object(tracer).startSpan === "function", {
        error: "must be an OpenTelemetry tracer",
      })
      .optional(),
    meter: z
      .custom<Meter>((meter) => typeof Object(meter).createHistogram === "function", {
        error: "must be an OpenTelemetry meter",
      })
      .optional(),
  });

/** Begins the span `send {topic}`, and ends it when the store has the event. Returns the span's `traceparent`. */
function recorded(
  tracer: Tracer,
  instruments: Instruments,
  event: NewEvent,
  added: Promise<"added" | "duplicate" | "conflict" | "busy">,
): string | undefined {
  const common = messaging("send", event);
  const span = tracer.startSpan(nameOf("send", event), {
    kind: SpanKind.PRODUCER,
    attributes: { ...common, ...idsOf(event) },
  });
  added.then(
    (result) => {
      // The SDK exports only ended spans. Do not end the span of a duplicate or conflict, so that it is not exported.
      if (result !== "added") return;
      instruments.sent.add(1, common);
      span.end();
    },
    (error) => {
      const failure = { "error.type": errorName(error) };
      instruments.sent.add(1, { ...common, ...failure });
      fail(span, failure, error);
      span.end();
    },
  );
  return traceparentOf(span);
}

/** Runs an attempt inside the span `process {topic}`. */
async function process<R extends AttemptResult>(
  tracer: Tracer,
  { consumed, duration }: Instruments,
  event: ClaimedEvent,
  run: () => Promise<R>,
): Promise<R> {
  const common = messaging("process", event);
  const producer = spanContextOf(event.traceparent);
  const span = tracer.startSpan(
    nameOf("process", event),
    {
      kind: SpanKind.CONSUMER,
      attributes: { ...common, ...idsOf(event), "stayhook.attempt": event.attempts },
      links: producer ? [{ context: producer }] : [],
    },
    parentOf(event),
  );
  const startedAt = performance.now();
  let failure: Attributes = {};
  try {
    const result = await context.with(trace.setSpan(context.active(), span), run);
    const { outcome, type, reason, error } = result;
    span.setAttribute("stayhook.outcome", outcome);
    if (type !== undefined) span.setAttribute("stayhook.event.type", type);
    if (outcome !== "done") {
      failure = { "error.type": reason ?? outcome };
      fail(span, failure, error);
    }
    return result;
  } catch (error) {
    failure = { "error.type": errorName(error) };
    fail(span, failure, error);
    throw error;
  } finally {
    duration.record((performance.now() - startedAt) / 1000, { ...common, ...failure });
    consumed.add(1, { ...common, ...failure });
    span.end();
  }
}

/**
 * Returns the parent context of an attempt. An attempt of the queue has a lease, and begins its own trace, because
 * the active trace may belong to an unrelated request. An attempt of `webhooks.process()` has no lease, and joins the
 * active trace.
 */
function parentOf({ lease }: ClaimedEvent): Context {
  return lease === "" ? context.active() : ROOT_CONTEXT;
}

/** Makes a client span for each request. */
function requestSpans(tracer: Tracer) {
  const spans = new Map<string, Span>();
  return {
    onRequest({ id, method, route, url, resendCount, account }: RequestObservation): void {
      const { hostname, port, protocol } = new URL(url);
      const attributes = {
        "http.request.method": method,
        "url.full": url,
        "url.template": route,
        "server.address": hostname,
        "server.port": Number(port) || (protocol === "https:" ? 443 : 80),
        ...(resendCount > 0 && { "http.request.resend_count": resendCount }),
        ...(account !== undefined && { "stayhook.account": account }),
      };
      spans.set(id, tracer.startSpan(`${method} ${route}`, { kind: SpanKind.CLIENT, attributes }));
    },
    onResponse({ id, status, error }: ResponseObservation): void {
      const span = spans.get(id);
      if (!span) return;
      spans.delete(id);
      if (status !== undefined) span.setAttribute("http.response.status_code", status);
      if (error) fail(span, { "error.type": error.name }, error);
      else if (status >= 400) fail(span, { "error.type": String(status) });
      span.end();
    },
  };
}

type Instruments = ReturnType<typeof instrumentsOf>;

/** The histogram boundaries in seconds that OpenTelemetry recommends for `messaging.process.duration`. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

function instrumentsOf(meter: Meter) {
  const pauses = new Pauses();
  const gauges = gaugesOf(meter);
  return {
    pauses,
    duration: meter.createHistogram("messaging.process.duration", {
      description: "Duration of processing operation.",
      unit: "s",
      advice: { explicitBucketBoundaries: BUCKETS },
    }),
    sent: meter.createCounter("messaging.client.sent.messages", {
      description: "Number of messages producer attempted to send to the broker.",
      unit: "{message}",
    }),
    consumed: meter.createCounter("messaging.client.consumed.messages", {
      description: "Number of messages that were delivered to the application.",
      unit: "{message}",
    }),
    lateness: meter.createHistogram("stayhook.timer.lateness", {
      description: "Time from a timer's time to the start of its first attempt.",
      unit: "s",
      advice: { explicitBucketBoundaries: BUCKETS },
    }),
    observations: meter.createCounter("stayhook.observations", {
      description: "Number of observations that `observe` gets, by kind.",
      unit: "{observation}",
    }),
    watch(count: () => Promise<WaitingEvents>): () => void {
      const all = Object.values(gauges);
      const observe: Parameters<Meter["addBatchObservableCallback"]>[0] = async (result) => {
        const counted = await count();
        result.observe(gauges.waiting, counted.waiting, system);
        result.observe(gauges.oldestAge, counted.oldestAge / 1000, system);
        result.observe(gauges.parked, counted.parked, system);
        for (const scope of SCOPES)
          result.observe(gauges.paused, Number(pauses.has(scope)), {
            ...system,
            "stayhook.pause.scope": scope,
          });
        result.observe(gauges.pausedAccounts, pauses.accounts, system);
      };
      meter.addBatchObservableCallback(observe, all);
      return () => meter.removeBatchObservableCallback(observe, all);
    },
  };
}

/** What is measured only when a reader collects the metrics. */
function gaugesOf(meter: Meter) {
  return {
    waiting: meter.createObservableGauge("stayhook.events.waiting", {
      description: "Events that are pending or retrying.",
      unit: "{event}",
    }),
    oldestAge: meter.createObservableGauge("stayhook.events.oldest_age", {
      description: "Time since the oldest waiting event was first due, or was replayed.",
      unit: "s",
    }),
    parked: meter.createObservableGauge("stayhook.events.parked", {
      description: "Events that are parked, and not yet replayed or discarded.",
      unit: "{event}",
    }),
    paused: meter.createObservableGauge("stayhook.paused", {
      description: "1 while this process pauses, because the platform is out of reach.",
    }),
    pausedAccounts: meter.createObservableGauge("stayhook.paused.accounts", {
      description: "Accounts that this process has paused, in whole or in part.",
      unit: "{account}",
    }),
  };
}

type Paused = Pick<Extract<Observation, { kind: "paused" | "resumed" }>, "scope" | "account">;

/** What this process pauses. */
class Pauses {
  readonly #scopes = new Set<string>();
  /** The scopes of each account. */
  readonly #ofAccounts = new Map<string, Set<string>>();

  begin({ scope, account }: Paused): void {
    this.#scopesOf(account).add(scope);
  }

  end({ scope, account }: Paused): void {
    const scopes = this.#scopesOf(account);
    scopes.delete(scope);
    if (account !== undefined && scopes.size === 0) this.#ofAccounts.delete(account);
  }

  /** Whether this pauses for all accounts, or for the only one. */
  has(scope: string): boolean {
    return this.#scopes.has(scope);
  }

  get accounts(): number {
    return this.#ofAccounts.size;
  }

  #scopesOf(account: string | undefined): Set<string> {
    if (account === undefined) return this.#scopes;
    const scopes = this.#ofAccounts.get(account) ?? new Set();
    this.#ofAccounts.set(account, scopes);
    return scopes;
  }
}

/** The scopes of the gauge. An account is no label, because each label adds a time series. */
const SCOPES = Object.keys({
  everything: true,
  bookings: true,
  listings: true,
} satisfies Record<Exclude<Paused["scope"], "account">, true>);

const system = { "messaging.system": "stayhook" } as const;

/** The attributes that spans and metrics share. They contain no id: each id would add a time series. */
function messaging(operation: "send" | "process", event: NewEvent): Attributes {
  const destination = destinationOf(event);
  return {
    ...system,
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    ...(destination !== undefined && { "messaging.destination.name": destination }),
  };
}

/** Returns the attributes of a span. A metric must not have them, because each account would be a series of its own. */
function idsOf(event: NewEvent): Attributes {
  const { eventId, ref } = event;
  const account = accountOf(event);
  return {
    "messaging.message.id": eventId,
    ...(ref !== null && { "messaging.message.conversation_id": ref }),
    ...(account !== undefined && { "stayhook.account": account }),
  };
}

function nameOf(operation: string, event: NewEvent): string {
  return [operation, destinationOf(event)].filter(Boolean).join(" ");
}

/** Returns the event's topic. If the event has no topic, returns the topic that fits its record. */
function destinationOf(event: NewEvent): string | undefined {
  return event.topic ?? laneOf(event).kind;
}

function attributesOf(observation: Observation): Attributes {
  const { kind } = observation;
  return "reason" in observation && kind !== "paused" ? { kind, reason: observation.reason } : { kind };
}

function fail(span: Span, failure: Attributes, error?: unknown): void {
  span.setAttributes(failure);
  span.setStatus({ code: SpanStatusCode.ERROR });
  if (error === undefined) return;
  const shown = withoutWords(error);
  span.recordException(shown instanceof Error ? shown : String(shown));
}

function errorName(error: unknown): string {
  return error instanceof Error ? error.name : "_OTHER";
}

/** Returns the span's W3C `traceparent`, or `undefined` if no OpenTelemetry SDK runs. */
function traceparentOf(span: Span): string | undefined {
  const spanContext = span.spanContext();
  if (!trace.isSpanContextValid(spanContext)) return undefined;
  const { traceId, spanId, traceFlags } = spanContext;
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

function spanContextOf(traceparent: string | null | undefined) {
  const [, traceId, spanId, flags] =
    /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})/.exec(traceparent ?? "") ?? [];
  if (!traceId || !spanId || !flags) return undefined;
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const spanContext = { traceId, spanId, traceFlags, isRemote: true };
  return trace.isSpanContextValid(spanContext) ? spanContext : undefined;
}
