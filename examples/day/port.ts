import { createServer } from "node:net";

/**
 * Returns a free port that the system does not assign to another program while the process is down. Systems assign
 * ports from 32768 on, so this port is lower.
 */
export async function choosePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
