// Stands between the app and the platform, and makes the answers worse: bookings vanish and return, statuses are misspelt,
// dates come as instants, and reads are refused.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { localTime } from "stayhook";
import type { Sandbox } from "stayhook/testing";
import { onTestFinished } from "vitest";
import type { Random } from "../random.ts";

export const ZONE = "Europe/Paris";

export interface Veil {
  readonly url: string;
  /** The codes of the bookings that have vanished. */
  readonly vanished: Set<string>;
  /** The share of the reads that are refused with 403. */
  refused: number;
}

export async function veilOf(sandbox: Sandbox, random: Random): Promise<Veil> {
  const veil = { url: "", vanished: new Set<string>(), refused: 0 };
  const spellings = (status: string) => [
    status,
    status.toLowerCase(),
    status.toUpperCase(),
    american(status),
  ];
  const worse = (booking: Record<string, unknown>) => {
    const all = spellings(String(booking.status));
    const instant = (date: unknown) => localTime(String(date), "00:00", ZONE).toISOString();
    const [checkIn, checkOut] = [instant(booking.checkIn), instant(booking.checkOut)];
    return { ...booking, status: all[random.below(all.length)], checkIn, checkOut };
  };
  const server = createServer(async (request, response) => {
    const send = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    try {
      const code = /^\/v2\/bookings\/(.+)$/.exec(request.url ?? "")?.[1];
      if (code !== undefined && veil.vanished.has(decodeURIComponent(code)))
        return send(random.oneIn(2) ? 404 : 200, null);
      if (code !== undefined && random.below(1000) < veil.refused * 1000)
        return send(403, { message: "slow down" });
      const { authorization = "" } = request.headers;
      const answer = await fetch(new URL(request.url ?? "/", sandbox.url), { headers: { authorization } });
      const body = (await answer.json()) as Record<string, unknown>;
      send(answer.status, code !== undefined && answer.ok ? worse(body) : body);
    } catch (error) {
      send(502, { message: String(error) });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  veil.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return veil;
}

function american(status: string): string {
  return status.replace("Cancelled", "Canceled");
}
