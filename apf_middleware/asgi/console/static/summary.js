// What is going on, in one sentence, and what one can do about it.

import { duration, figure, flowName, names, plural } from "./format.js";
import { flowPoints, lastOf, recentOf } from "./history.js";

const ELEPHANT = 0.5; // of the seats that all flows of a level want: then one client is the cause
const EXCESS = 1.25; // times its fair share, at least
const LEAST_EXCESS = 2; // and so many seats more: a client that wants a little more is none
const CLOSED = new Set(["queue-closed", "queue-closing"]); // reasons of rejections

/** Return the flows of a level, those that want the most seats first. */
export function flowsOf(state, level) {
  return state.flows.filter((flow) => flow.level === level).sort((one, other) => wanted(other) - wanted(one));
}

export const wanted = (flow) => flow.seats_in_use + flow.seats_waiting;

/** Return how badly a level is off: 0 if nothing waits and nothing is rejected. */
function trouble(level) {
  const last = lastOf(level.level);
  return level.waiting + level.parked + 10 * (last?.rejected ?? 0);
}

/** Return the flow that causes most of a level's load; null if there is none. */
export function elephantOf(state, level) {
  const flows = flowsOf(state, level.level);
  if (flows.length === 0) return null;
  const all = level.seats_in_use + level.seats_waiting;
  const heaviest = flows[0];
  const isCause = wanted(heaviest) >= ELEPHANT * all && heaviest.fair !== null;
  const bound = Math.max(EXCESS * heaviest.fair, heaviest.fair + LEAST_EXCESS);
  return isCause && wanted(heaviest) >= bound ? heaviest : null;
}

/**
 * Return the tone, the parts of the headline, the advice, and the remedies, which are actions with their objects and
 * what an undo needs, the state `before`; and what is going on without any numbers, in `spoken`.
 */
export function summarize(state, workers) {
  const stopped = state.named_queues.find((one) => one.state !== "Open" && one.children.length === 0 && isMissed(one));
  if (state.mode !== "on") return switched(state);
  if (stopped) return ofStopped(stopped);
  const held = state.gates.find((one) => one.state === "held" && one.parked > 0);
  if (held) return ofHeld(held);
  const worst = state.levels
    .filter((level) => !level.exempt && trouble(level) > 0)
    .sort((one, other) => trouble(other) - trouble(one))[0];
  return worst ? ofLevel(state, worst) : calm(state, workers);
}

/** Return how many requests wait in a queue, for seats or for gates: a queue that isn't open keeps both from being served. */
const waitIn = (queue) => queue.inqueue + queue.pending;

/** Return whether requests wait in a queue that isn't open, or are rejected because it is closed. */
function isMissed(queue) {
  const last = lastOf(queue.name);
  return waitIn(queue) > 0 || (last?.rejected > 0 && CLOSED.has(last.reason));
}

function calm(state, workers) {
  const needy = state.members.filter((one) => one.demand > one.seats).sort((one, other) => other.demand - other.seats - one.demand + one.seats)[0];
  const used = state.levels.reduce((total, level) => total + (level.exempt ? 0 : level.seats_in_use), 0);
  return {
    tone: "calm",
    word: "Calm",
    spoken: "Nothing waits.",
    headline: [`Nothing waits${workers > 1 ? " in this worker" : ""}: ${figure(used)} of ${plural(state.seats, "seat")} are in use`],
    advice: needy
      ? `But the member ${needy.member} of the fleet wants ${plural(needy.demand, "seat")} and has ${figure(needy.seats)}: look at its page.`
      : workers > 1 && state.members.length === 0
        ? `It is one of ${workers}; look at the others, too.`
        : "There is nothing to do.",
    remedies: [],
  };
}

function switched(state) {
  const isOff = state.mode === "off";
  return {
    tone: "warning",
    word: "Not limiting",
    headline: [isOff ? "Requests are only counted, none is limited" : "Requests are observed, none is limited"],
    spoken: `The mode is ${state.mode}.`,
    advice: `The mode is ${state.mode}: every request runs at once. Switch it on to limit requests.`,
    remedies: [{ action: "mode", name: "on", before: state.mode, label: "Switch on…" }],
  };
}

const STOPPED = {
  Closing: "It still serves what waits, and rejects new requests.",
  Closed: "It rejects new requests until an operator opens it.",
};

const requestsWait = (count) => `${plural(count, "request")} ${count === 1 ? "waits" : "wait"}`;
const rejections = (last) => `${figure(last.rejected)} requests a second are rejected`;

function ofStopped(queue) {
  return {
    tone: "alarm",
    word: "Stopped",
    spoken: `${queue.name} is ${queue.state.toLowerCase()}.`,
    headline: [["code", queue.name], ` is ${queue.state.toLowerCase()}: ${waitIn(queue) ? `${requestsWait(waitIn(queue))} in it` : rejections(lastOf(queue.name))}`],
    advice: STOPPED[queue.state] ?? "Nothing of it is served until an operator opens it.",
    remedies: [{ action: "open", name: queue.name, before: queue.state, label: `Open ${queue.name}…` }],
  };
}

function ofHeld(gate) {
  return {
    tone: "alarm",
    word: "Held",
    spoken: `The gate ${gate.gate} is held.`,
    headline: ["The gate ", ["code", gate.gate], ` is held: ${requestsWait(gate.parked)} for it`],
    advice: `The oldest has waited for ${duration(gate.oldest)}. Nothing passes until an operator opens it.`,
    remedies: [{ action: "gate-open", name: gate.gate, label: `Open ${gate.gate}…` }],
  };
}

function ofLevel(state, level) {
  const flows = flowsOf(state, level.level);
  const elephant = elephantOf(state, level);
  const last = lastOf(level.level);
  const limit = Math.max(level.current, level.seats_in_use);
  const isFull = level.seats_in_use >= level.current;
  const waiting = flows.filter((flow) => flow.waiting > 0 && flow !== elephant);
  const others = waiting.length ? `, ${plural(waiting.length, elephant ? "other client" : "client")} ${waiting.length === 1 ? "waits" : "wait"}` : "";
  const head = [["code", level.level], isFull ? " is full: " : level.waiting ? " has requests that wait: " : " rejects requests: "];
  if (level.parked > level.waiting && !isFull) return ofParked(state, level);
  const paused = state.named_queues.some((one) => one.name === level.level && !one.exempt);
  const remedies = paused ? [{ action: "pause", name: level.level, label: `Pause ${level.level}…` }] : [];
  if (elephant === null) {
    const rejected = last?.rejected ? ` ${rejections(last)}, most for the reason ${last.reason}.` : "";
    const number = level.waiting || !last?.rejected ? requestsWait(level.waiting) : rejections(last);
    return {
      tone: "warning",
      spoken: `Requests ${level.waiting ? "wait" : "are rejected"} in ${level.level}.`,
      word: isFull ? "Full" : level.waiting ? "Waiting" : "Rejecting",
      headline: [...head, `${figure(level.seats_in_use)} of ${plural(limit, "seat")} in use${others || `, ${number}`}`],
      advice: `No single client is the cause.${rejected}${isFull ? " More seats, or a faster backend, would help." : ""}`,
      remedies,
    };
  }
  return {
    tone: isHarmless(elephant, waiting) ? "warning" : "alarm",
    word: "Elephant",
    spoken: `Requests wait in ${level.level}, most of them of ${flowName(elephant)}.`,
    headline: [
      ...head,
      ["strong", flowName(elephant)],
      ` uses ${figure(Math.round(recentOf(elephant).seats))} of ${plural(limit, "seat")}${others}`,
    ],
    advice: adviceAbout(elephant, waiting, last),
    remedies: [
      { action: "flow", flow: elephant, label: `Look at ${flowName(elephant)}` },
      ...(isHarmless(elephant, waiting) ? [] : remedies), // other clients must not wait for what does no harm
    ],
  };
}

/** Return whether other clients are hardly concerned: none of them has waited long. */
function isHarmless(elephant, others) {
  return others.every((flow) => flow.oldest < 0.5 || flow.oldest < elephant.oldest / 4);
}

function adviceAbout(elephant, others, last) {
  const name = flowName(elephant);
  const held = `It wants ${plural(wanted(elephant), "seat")}, and its fair share is ${figure(recentOf(elephant).fair)}.`;
  const rejects = isRejected(elephant) ? ` Its excess is rejected${last?.rejected ? `, ${figure(last.rejected)} requests a second` : ""}.` : "";
  if (isHarmless(elephant, others)) {
    return `${held}${rejects} The others are served in turn${waitOf(others)}: nothing must be done. Ask ${name} to send less.`;
  }
  return `${held}${rejects} The others wait, too${waitOf(others)}: ${names(others.map(flowName))}. Give ${name} a level or a weight of its own, or pause the level.`;
}

function waitOf(others) {
  const oldest = Math.max(0, ...others.map((flow) => flow.oldest));
  return oldest > 0 ? `, the longest of them has waited ${duration(oldest)}` : "";
}

function isRejected(flow) {
  const points = flowPoints(flow).slice(-10);
  return points.length > 1 && points.at(-1).rejected > points[0].rejected;
}

function ofParked(state, level) {
  const gates = [...new Set(state.parked.filter((one) => one.level === level.level).map((one) => one.gate))];
  return {
    tone: "warning",
    word: "Parked",
    spoken: `Requests of ${level.level} wait for gates.`,
    headline: [["code", level.level], `: ${requestsWait(level.parked)} for ${gates.length ? "the gate " : "gates"}`, ...gates.slice(0, 2).map((gate) => ["code", gate])],
    advice: "The seats are free; what a gate stands for is not. Look at the gates below.",
    remedies: [],
  };
}
