// Reads the witnesses of the circuit breaker.

import type { StayhookClient } from "../../client/client.ts";
import type { Booking, Listing } from "../../models/records.ts";
import type { ReadWitness } from "../../queue/work.ts";
import { parseRef } from "../refs.ts";
import type { GoneWitness } from "./gone-witness.ts";
import { readRecord } from "./read-record.ts";
import { fetchFailure } from "./record.ts";

/** Makes the function that reads a witness for the circuit breaker. */
export function witnessReader<B extends Booking, L extends Listing>(
  client: StayhookClient<B, L>,
  goneWitness: GoneWitness,
): ReadWitness {
  return async (ref, signal) => {
    const subject = parseRef(ref);
    if (!subject) return { error: new Error(`${ref} is no record`), outage: { everything: false } };
    const since = performance.now();
    try {
      await readRecord(client, subject, signal);
      goneWitness.found(ref, since);
      return undefined;
    } catch (error) {
      const { outage, reason } = fetchFailure(error);
      // While the platform may hide every record, a 404 does not show that it is up.
      if (reason === "not-found" && goneWitness.doubtOf(subject)) return "none";
      return outage && { error, outage };
    }
  };
}
