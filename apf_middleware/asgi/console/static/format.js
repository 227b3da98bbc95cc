// Numbers and names as people read them.

const DIGITS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Return a number with at most one digit after the point. */
export const figure = (value) => (Math.abs(value) >= 100 ? WHOLE : DIGITS).format(value);

/** Return a duration in seconds with its unit. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 0.9995) return `${figure(seconds * 1000 < 10 ? seconds * 1000 : Math.round(seconds * 1000))} ms`;
  if (seconds < 99.5) return `${figure(seconds)} s`;
  if (seconds < 5400) return `${WHOLE.format(seconds / 60)} min`;
  return `${figure(seconds / 3600)} h`;
}

/** Return the upper bound of a duration. */
export function atMost(seconds) {
  if (seconds === Infinity) return "> 30 s";
  return seconds === null || seconds === 0 ? duration(seconds) : `≤ ${duration(seconds)}`;
}

/** Return a rate per second; null if it isn't known yet. */
export const rate = (value) => (value === null ? "–" : value === 0 ? "0" : `${figure(value)}/s`);

/** Return "1 seat" or "2 seats". */
export const plural = (count, noun) => `${figure(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Return the name of a flow; a schema without a distinguisher has one flow without a name. */
export const flowName = (flow) => flow.flow || `all of ${flow.schema}`;

export const flowKey = (flow) => JSON.stringify([flow.level, flow.schema, flow.flow]);

/** Return names in a sentence: the first few, and how many others there are. */
export function names(all, most = 3) {
  const shown = all.slice(0, most);
  const rest = all.length - shown.length;
  if (rest > 0) return `${shown.join(", ")} and ${plural(rest, "other")}`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

export const sum = (values) => Object.values(values).reduce((total, one) => total + one, 0);
