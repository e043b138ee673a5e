/** One measurement. */
export interface Sample {
  readonly perSecond: number;
  /** µs of the measured process' CPU time for each. */
  readonly cpu: number;
}

/** The medians of a contestant's rounds, and how it compares to another one. */
export interface Result extends Sample {
  /** Of the throughput, to the base's: the median over the rounds. */
  readonly ratio: number;
  /** Of the base's CPU time, to this one's: the median over the rounds. */
  readonly cpuRatio: number;
}

/**
 * Measures contestants in turn, round by round, so that what else the machine does hits all of them alike. The first
 * round warms up and does not count. Every other round goes backwards.
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
