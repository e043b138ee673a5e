// One contestant of the intake benchmarks, in its own process: `node intake-server.ts <contestant>`.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { answerCalls } from "./calls.ts";
import { answeredThrough } from "./fake-sockets.ts";
import { type Contestant, contestants } from "./intake-contestants.ts";
import type { Scheme } from "./secrets.ts";

const functions = { open, cpu: () => process.cpuUsage(), answerInProcess };
export type IntakeFunctions = typeof functions;

let contestant: Contestant | undefined;
let server: ReturnType<typeof createServer> | undefined;

async function open(): Promise<number> {
  contestant = await contestants[process.argv[2] ?? ""]!();
  server = createServer(contestant.listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Answers requests from sockets that are streams of this process, for `ms` ms. */
function answerInProcess(ms: number, path: string, scheme: Scheme | undefined): Promise<number> {
  return answeredThrough(server!, { ms, path, scheme });
}

answerCalls(functions, () => contestant?.close?.());
