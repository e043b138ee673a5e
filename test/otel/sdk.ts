import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";

/** Makes an OpenTelemetry SDK that exports into memory. */
export function makeSdk() {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const exporter = new InMemorySpanExporter();
  const traces = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: measured, exportIntervalMillis: 3_600_000 });
  const meters = new MeterProvider({ readers: [reader] });
  const tracer = traces.getTracer("test");
  return {
    tracer,
    instruments: { tracer, meter: meters.getMeter("test") },
    /** The ended spans, in the order of their ends. */
    spans: (name?: string): SpanShown[] =>
      exporter
        .getFinishedSpans()
        .filter((span) => name === undefined || span.name === name)
        .map(shown),
    /** Returns the current points of a metric. */
    async points(name: string): Promise<PointShown[]> {
      measured.reset();
      await meters.forceFlush();
      const [last] = measured.getMetrics().slice(-1);
      const all = last?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
      return all
        .filter(({ descriptor }) => descriptor.name === name)
        .flatMap(({ dataPoints, descriptor }) =>
          dataPoints.map(({ value, attributes }) => ({ value, attributes, unit: descriptor.unit })),
        );
    },
    async end() {
      await meters.shutdown();
      context.disable();
    },
  };
}

export interface PointShown {
  readonly value: unknown;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly unit: string;
}

export type SpanShown = ReturnType<typeof shown>;

function shown(span: ReadableSpan) {
  const { traceId, spanId } = span.spanContext();
  return {
    ...{ name: span.name, kind: span.kind, traceId, spanId },
    parent: span.parentSpanContext?.spanId,
    attributes: span.attributes as Readonly<Record<string, unknown>>,
    links: span.links.map(({ context }) => context),
    failed: span.status.code === 2,
    exceptions: span.events.map(({ attributes }) => String(attributes?.["exception.message"])),
    duration: span.duration[0] * 1000 + span.duration[1] / 1e6,
  };
}
