/** The secrets that the load generator signs with, and the servers verify. */
export const secrets = {
  stripe: "whsec_stripe_of_the_benchmark",
  svix: `whsec_${Buffer.from("secret of the benchmark").toString("base64")}`,
  octokit: "secret of the benchmark",
  query: "secret-of-the-benchmark",
} as const;

/** How a peer's requests are signed. */
export type Scheme = "stripe" | "svix" | "octokit";
