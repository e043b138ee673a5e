/** What a pass reports. */
export interface ReconcileReport {
  readonly checked: number;
}
