import { NotFoundError } from "../../client/errors.ts";
import type { Command } from "../command.ts";
import { MissingError } from "../exit-code.ts";

export const booking: Command = {
  name: "booking",
  summary: "show a booking",
  takes: "<code>",
  arguments: [1, 1],
  examples: ["stayhook booking HX3K9"],
  asksPlatform: true,
  run: async ({ client, io, out, positionals: [code = ""] }) => {
    const found = await client()
      .bookings.get(code, { signal: io.signal })
      .catch((error: unknown) => {
        if (error instanceof NotFoundError) throw new MissingError(`there is no booking ${code}`);
        throw error;
      });
    out.result(found, () => out.fields(Object.entries(found)));
    return undefined;
  },
};
