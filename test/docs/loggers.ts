// The loggers of docs/logging.md. pino is the real one, because fastify depends on it. winston is not installed, so a
// stand-in has the part of its interface that the block uses.
import { pino as realPino } from "pino";

/** Log lines, parsed. */
export const logged: Record<string, unknown>[] = [];

export const pino = () => realPino({}, { write: (line: string) => void logged.push(JSON.parse(line)) });

class Console {}

export default {
  format: { json: () => ({}) },
  transports: { Console },
  createLogger: (_: { readonly format: object; readonly transports: readonly Console[] }) => ({
    log: (entry: { level: string; message: unknown; [field: string]: unknown }) =>
      void logged.push(JSON.parse(JSON.stringify(entry))),
  }),
};
