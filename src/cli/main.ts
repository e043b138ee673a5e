#!/usr/bin/env node
import { run } from "./cli.ts";
import { exitCodes } from "./command.ts";

const interruption = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  // Listen only once, so that a second Ctrl-C kills the process.
  process.once(signal, () => interruption.abort());
}
// In `stayhook events ls | head`, `head` closes the pipe after ten lines. End without an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 13)) {
  console.error(`stayhook: Node ${process.version} is too old. Install Node 22.13 or newer.`);
  process.exit(1);
}

const { stdin, stdout, stderr, env } = process;
process.exitCode = await run(process.argv.slice(2), {
  stdin,
  stdout,
  stderr,
  env,
  signal: interruption.signal,
});
// After Ctrl-C, an open connection could keep the process alive.
if (process.exitCode === exitCodes.interrupted) process.exit();
