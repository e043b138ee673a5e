export interface Sample {
  readonly perSecond: number;
  /** CPU time of the measured process per request or event, in µs. */
  readonly cpu: number;
}

/** The medians of a contestant's rounds, and the comparison with the base. */
export interface Result extends Sample {
  /** Throughput divided by the base's throughput. Median over the rounds. */
  readonly ratio: number;
  /** The base's CPU time divided by this contestant's. Median over the rounds. */
  readonly cpuRatio: number;
}

/**
 * Measures contestants in turn, round by round, so that other load on the machine affects all of them alike. The first
 * round warms up and does not count. Every other round runs in reverse order.
 */
export async function interleaved<K extends string>(
  rounds: number,
  contestants: Readonly<Record<K, () => Promise<Sample>>>,
): Promise<Record<K, Sample[]>> {
  const entries = Object.entries(contestants) as [K, () => Promise<Sample>][];
  const samples = Object.fromEntries(entries.map(([name]) => [name, []])) as unknown as Record<K, Sample[]>;
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, measure] of round % 2 === 0 ? entries : entries.toReversed()) {
      const sample = await measure();
      if (round > 0) samples[name].push(sample);
    }
  }
  return samples;
}

export function compare(samples: readonly Sample[], base: readonly Sample[]): Result {
  return {
    perSecond: median(samples.map(({ perSecond }) => perSecond)),
    cpu: median(samples.map(({ cpu }) => cpu)),
    ratio: median(samples.map(({ perSecond }, round) => perSecond / base[round]!.perSecond)),
    cpuRatio: median(samples.map(({ cpu }, round) => base[round]!.cpu / cpu)),
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}
