// Encrypts texts with AES-256-GCM, so that a copy of the database alone gives nobody a token.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

const IV = 12;
const TAG = 16;

/** @param account - the text can be decrypted for this account only, so that nobody can move it to another row */
export function encrypt(key: Buffer, account: string, text: string): string {
  const iv = randomBytes(IV);
  const cipher = createCipheriv("aes-256-gcm", key, iv, { authTagLength: TAG }).setAAD(Buffer.from(account));
  const encrypted = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), encrypted]).toString("base64");
}

/** @throws Error if the text was encrypted with another key, or for another account, or has been changed */
export function decrypt(key: Buffer, account: string, text: string): string {
  const bytes = Buffer.from(text, "base64");
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, IV), { authTagLength: TAG })
    .setAAD(Buffer.from(account))
    .setAuthTag(bytes.subarray(IV, IV + TAG));
  return Buffer.concat([decipher.update(bytes.subarray(IV + TAG)), decipher.final()]).toString("utf8");
}
