/** A process that locks a file and holds the lock until it is killed. */
import { DatabaseSync } from "node:sqlite";

const { file }: { file: string } = JSON.parse(process.argv[2]!);
const db = new DatabaseSync(file);
db.exec("PRAGMA busy_timeout = 5000; BEGIN EXCLUSIVE");
process.send?.("locked");
setInterval(() => db.isOpen, 1000);
