/** ms between two looks at what a page shows. */
const EVERY = 2000;
/** How long one stream lasts, ms. The browser then asks for another one, and `authorize` decides again. */
const LONGEST = 120_000;

/** The parts of a page that change while it is open. */
export interface LiveParts {
  /** The page's `<main>`, to be shown where it has changed. */
  readonly body: string;
  /** Values for the plots, by name. */
  readonly stats: Readonly<Record<string, number | undefined>>;
}

/**
 * Server-sent events with the body of a page whenever it changes, and the values for its plots.
 *
 * @param look - makes the parts; where it rejects, the page is told that there is trouble
 * @param onEnd - called once, when the stream has ended
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
  let hasEnded = false;
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    clearTimeout(wait?.timer);
    wait?.done();
    onEnd();
  };
  const news = async (): Promise<string> => {
    try {
      const { body, stats } = await look();
      const changed = body !== shown;
      shown = body;
      return message("stats", stats) + (changed ? message("page", body) : "");
    } catch {
      return message("trouble", true);
    }
  };
  // The stream asks for more only once the last message was taken: a slow reader costs nothing.
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!isFirst) {
        await new Promise<void>((done) => {
          wait = { timer: setTimeout(done, every), done };
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
