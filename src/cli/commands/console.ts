import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../adapters/node.ts";
import { behindToken } from "../../console/console-token.ts";
import { randomHex } from "../../console/form-guard.ts";
import { storeConsole } from "../../console/inbox.ts";
import { auditLine } from "../../console/operations.ts";
import { integerOf, listeningOn } from "../arguments.ts";
import type { Command } from "../command.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { printable } from "../output.ts";

export const consoleCommand: Command = {
  description: `Serves the pages to this machine only, until Ctrl-C, and prints their URL. The URL has a token that is valid until
the command ends. The command handles no events. The running app handles a replayed event.`,
  examples: ["stayhook console --store events.db", "stayhook console --read-only --port 0"],
  options: {
    port: { value: "<port>", help: "the port, or 0 for a free port; default: 4020" },
    "read-only": { help: "show events, but allow no changes" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { io, out, flag } = invocation;
    const port = integerOf(invocation, "port", 0, 65_535) ?? 4020;
    const readOnly = flag("read-only");
    await withStore(
      invocation,
      async (store) => {
        const token = randomHex(24);
        const site = behindToken(token, (authorize) =>
          storeConsole(store, {
            authorize,
            readOnly,
            operated: (operation) =>
              out.item(operation, () => `${out.clock(new Date())} ${printable(auditLine(operation))}`),
          }),
        );
        const server = createServer(toNodeHandler(site)).listen({ port, host: "127.0.0.1" });
        await listeningOn(port, once(server, "listening"));
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/?token=${token}`;
        out.item({ kind: "listening", url, readOnly }, () =>
          [`Open ${out.style("bold", url)}`, "Press Ctrl-C to stop."].join("\n"),
        );
        try {
          if (!io.signal.aborted) await once(io.signal, "abort");
        } finally {
          server.close();
          server.closeAllConnections();
        }
      },
      { handlesSignal: true },
    );
  },
};
