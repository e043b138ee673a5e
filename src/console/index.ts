export { type ConsoleOptions, createConsole, type WebhookConsole } from "./console.ts";
