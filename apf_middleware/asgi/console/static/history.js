// The last minutes, computed from the cumulative counts of the documents. The memory is bounded.

import { flowKey, sum } from "./format.js";

export const SECONDS = 300;
const WINDOW = 10; // seconds over which rates and quantiles are computed
const MOST_FLOWS = 80;

const levels = new Map(); // by name: the recent documents of the window, and the points of the last minutes
const flows = new Map();
const seats = [];

/** Add a document that came at the time `now`, in seconds. */
export function note(state, now) {
  const traffic = new Map(state.traffic.map((one) => [one.level, one]));
  const present = new Set();
  for (const level of state.levels) {
    if (level.quiescing && present.has(level.level)) continue;
    present.add(level.level);
    noteLevel(level, traffic.get(level.level), now, state.wait_bounds);
  }
  for (const name of levels.keys()) if (!present.has(name)) levels.delete(name);
  noteFlows(state.flows, now);
  push(seats, { t: now, value: state.seats });
}

function noteLevel(level, traffic, now, bounds) {
  let own = levels.get(level.level);
  if (!own) levels.set(level.level, (own = { recent: [], points: [] }));
  if (!traffic) return;
  const count = { t: now, rejected: sum(level.rejected), reasons: level.rejected, ...traffic };
  if (own.recent.length && own.recent.at(-1).arrived > count.arrived) own.recent = []; // the server has restarted
  own.recent.push(count);
  while (own.recent.length > 2 && own.recent[0].t < now - WINDOW) own.recent.shift();
  const before = own.recent[0];
  const passed = now - before.t;
  if (passed < 0.5) return;
  push(own.points, {
    t: now,
    waiting: level.waiting,
    used: level.seats_in_use,
    rejected: (count.rejected - before.rejected) / passed,
    reason: mainReason(before.reasons, count.reasons),
    served: (count.ended - before.ended) / passed,
    wait: quantile(before, count, bounds, 0.99),
  });
}

/** Return the reason of most rejections between two counts; null if there were none. */
function mainReason(before, after) {
  const most = Object.keys(after).reduce((one, other) => (after[other] - before[other] > after[one] - before[one] ? other : one));
  return after[most] > before[most] ? most : null;
}

/** Return the upper bound of the bucket with a quantile of the waits between two counts; null if none was seated. */
function quantile(before, after, bounds, fraction) {
  const seated = after.at_once - before.at_once;
  const counts = after.waits.map((one, place) => one - before.waits[place]);
  const total = seated + counts.reduce((all, one) => all + one, 0);
  if (total <= 0) return null;
  const rank = total * fraction;
  let below = seated;
  if (rank <= below) return 0;
  for (const [place, own] of counts.entries()) {
    below += own;
    if (own > 0 && rank <= below) return bounds[place] ?? Infinity;
  }
  return null;
}

function noteFlows(present, now) {
  for (const flow of present) {
    const key = flowKey(flow);
    const points = flows.get(key) ?? [];
    flows.delete(key); // so that the flows are in the order in which they were last seen
    flows.set(key, points);
    push(points, { t: now, value: flow.seats_in_use, fair: flow.fair ?? 0, rejected: flow.rejected });
  }
  for (const key of flows.keys()) {
    if (flows.size <= MOST_FLOWS && flows.get(key).at(-1).t > now - SECONDS) break;
    flows.delete(key);
  }
}

function push(points, point) {
  points.push(point);
  while (points[0].t < point.t - SECONDS) points.shift();
}

export const levelPoints = (name) => levels.get(name)?.points ?? [];
export const lastOf = (name) => levelPoints(name).at(-1) ?? null;
export const flowPoints = (flow) => flows.get(flowKey(flow)) ?? [];
export const seatPoints = () => seats;

/** Return the mean numbers of seats that a flow had, and that were its fair share, in the last seconds. */
export function recentOf(flow) {
  const points = flowPoints(flow).slice(-WINDOW);
  const mean = (valueOf) => points.reduce((total, one) => total + valueOf(one), 0) / points.length;
  if (points.length === 0) return { seats: flow.seats_in_use, fair: flow.fair ?? 0 };
  return { seats: mean((one) => one.value), fair: mean((one) => one.fair) };
}
