/** ms between two looks at what a page shows. */
const EVERY = 2000;
/**
 * The wait between two looks is at least so many times as long as the shorter one of the last two: a slow store is read
 * less often. One slow look alone, as on a machine that is busy for a moment, does not stop the page.
 */
const EVERY_TIMES = 10;
/** How long a stream lasts, ms. The browser then opens the next one, and `authorize` decides again. */
const LONGEST = 120_000;

/** The parts of a page that change while it is open. */
export interface LiveParts {
  /** The contents of the page's `<main>`. The stream sends them when they change. */
  readonly body: string;
  /** Values for the plots, by name. */
  readonly stats: Readonly<Record<string, number | undefined>>;
}

/**
 * Server-sent events with the values for a page's plots, and with its body when that changes.
 *
 * @param look - makes the parts. If it rejects, the stream sends `trouble`
 * @param onEnd - called once, at the end of the stream
 * @param every - ms between two looks
 */
export function liveStream(
  look: () => Promise<LiveParts>,
  onEnd: () => void,
  every: number = EVERY,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const endsAt = performance.now() + LONGEST;
  let shown: string | undefined;
  let wait: { readonly timer: ReturnType<typeof setTimeout>; readonly done: () => void } | undefined;
  let isFirst = true;
  let took = 0;
  let tookBefore = 0;
  let hasEnded = false;
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    clearTimeout(wait?.timer);
    wait?.done();
    onEnd();
  };
  const news = async (): Promise<string> => {
    const began = performance.now();
    try {
      const { body, stats } = await look();
      const changed = body !== shown;
      shown = body;
      return message("stats", stats) + (changed ? message("page", body) : "");
    } catch {
      return message("trouble", true);
    } finally {
      [tookBefore, took] = [took, performance.now() - began];
    }
  };
  // The stream pulls only after the reader has taken the last message. A slow reader causes no reads of the store.
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!isFirst) {
        await new Promise<void>((done) => {
          wait = { timer: setTimeout(done, Math.max(every, EVERY_TIMES * Math.min(took, tookBefore))), done };
        });
      }
      const text = hasEnded ? "" : (isFirst ? "retry: 1000\n\n" : "") + (await news());
      isFirst = false;
      if (hasEnded) return;
      controller.enqueue(encoder.encode(text));
      if (performance.now() >= endsAt) {
        controller.close();
        end();
      }
    },
    cancel: end,
  });
}

function message(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
