export type { ReconcilerOptions } from "./options.ts";
export { createReconciler, type Reconciler } from "./reconciler.ts";
export type { Incomplete, ReconcileObservation, ReconcileReport } from "./report.ts";
