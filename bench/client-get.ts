// Reads of one booking, by this client or one of its peers: `node client-get.ts <contestant>`.
import ky from "ky";
import { StayhookClient } from "stayhook";
import { undiciFetch } from "stayhook/undici";
import * as z from "zod";
import { answerCalls } from "./calls.ts";
import type { Sample } from "./rounds.ts";

type Get = (code: string) => Promise<unknown>;

const contestants: Readonly<Record<string, (baseUrl: string) => Get | Promise<Get>>> = {
  fetch: (baseUrl) => async (code) => {
    const response = await fetch(`${baseUrl}/v2/bookings/${code}`, {
      headers: { authorization: "Bearer token" },
    });
    return response.json();
  },
  stayhook: (baseUrl) => {
    const client = new StayhookClient({ baseUrl, accessToken: "token" });
    return (code) => client.bookings.get(code);
  },
  undici: (baseUrl) => {
    const client = new StayhookClient({ baseUrl, accessToken: "token", fetch: undiciFetch() });
    return (code) => client.bookings.get(code);
  },
  kyZod: (baseUrl) => {
    const headers = { authorization: "Bearer token" };
    const api = ky.create({ headers, timeout: 10_000, retry: 2 });
    const Booking = z.looseObject({ bookingCode: z.string(), status: z.string() });
    return async (code) => Booking.parse(await api.get(`${baseUrl}/v2/bookings/${code}`).json());
  },
  openai: async (baseURL) => {
    const name = "openai";
    const { default: OpenAI } = await import(name);
    const client = new OpenAI({ baseURL, apiKey: "token" });
    return (code) => client.get(`/v2/bookings/${code}`);
  },
};

const functions = { read };
export type ClientFunctions = typeof functions;
answerCalls(functions);

let get: Get | undefined;

/** Reads for `ms` ms, with `atOnce` concurrent reads. */
async function read(baseUrl: string, atOnce: number, ms: number): Promise<Sample> {
  get ??= await contestants[process.argv[2] ?? ""]!(baseUrl);
  const reading = get;
  const start = performance.now();
  const cpu = process.cpuUsage();
  let reads = 0;
  const one = async (): Promise<void> => {
    while (performance.now() - start < ms) {
      await reading(`HX${reads % 1000}`);
      reads += 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: (reads / (performance.now() - start)) * 1000, cpu: (user + system) / reads };
}
