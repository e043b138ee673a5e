import { writeFileSync } from "node:fs";
import { openapi } from "./openapi.ts";

writeFileSync("dist/openapi.json", `${JSON.stringify(openapi(), null, 2)}\n`);
