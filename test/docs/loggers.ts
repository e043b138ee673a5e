// The loggers of docs/telemetry.md. They write into `logged`, not to the console.
import { Writable } from "node:stream";
import { pino as realPino } from "pino";
import winston from "winston";

/** Log lines, parsed. */
export const logged: Record<string, unknown>[] = [];

const write = (line: string) => void logged.push(JSON.parse(line));

export const pino = () => realPino({}, { write });

class Console extends winston.transports.Stream {
  constructor() {
    super({ stream: Object.assign(new Writable(), { write }) as unknown as Writable });
  }
}

export default {
  format: winston.format,
  transports: { Console },
  createLogger: winston.createLogger,
};
