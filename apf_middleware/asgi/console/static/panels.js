// Queues, named queues, gates, the fleet, adaptive seats and the configuration.

import { act } from "./actions.js";
import { draw, largeChart } from "./charts.js";
import { at, cell, el, list, number, say, set } from "./dom.js";
import { duration, figure, plural, sum } from "./format.js";
import { seatPoints } from "./history.js";
import { askText } from "./requests.js";

let mayChange = false;
let mode = "on";
let chart = null;

export function preparePanels() {
  chart = largeChart();
  at("adaptive-chart").append(chart.element);
  at("reload").addEventListener("click", () => act("reload"));
  at("switch").addEventListener("click", () => act("mode", "", mode));
  at("yaml").addEventListener("toggle", async () => {
    if (at("yaml").open) say(at("yaml-text"), await askText("configuration?format=text"));
  });
}

/** Show the actions to operators only. */
export function allow(isOperator) {
  mayChange = isOperator;
  for (const button of document.querySelectorAll("[data-change]")) set(button, "hidden", !isOperator);
}

export function showPanels(state, now) {
  mode = state.mode;
  showQueues(state);
  showNamedQueues(state);
  showGates(state);
  showFleet(state);
  showFleetLevels(state);
  showAdaptive(state, now);
  showConfiguration(state);
}

const button = (label, action) => el("button", { type: "button", "data-change": true, hidden: !mayChange, onclick: action }, label);

function showQueues(state) {
  set(at("queues"), "hidden", state.queues.length === 0);
  say(at("queues-note"), `${plural(state.waiting_queues, "queue")} in which requests wait; the longest of each level are here`);
  list(
    at("queue-rows"),
    state.queues,
    (one) => `${one.level} ${one.index}`,
    (one) => {
      const numbers = ["Queue", "Waiting", "Seats"].map(number);
      const flows = cell("Flows");
      flows.classList.add("wide-cell");
      return { element: el("tr", {}, el("th", { scope: "row" }, one.level), ...numbers, flows), numbers, flows };
    },
    (row, one) => {
      [one.index, one.waiting, one.seats_waiting].forEach((value, place) => say(row.numbers[place], figure(value)));
      const parts = one.parts.map((part) => flowInWords(part.flow, part.waiting, part.weight));
      if (one.other_flows) parts.push(`and ${plural(one.other_flows, "other flow")}`);
      say(row.flows, parts.join(" · "));
    },
  );
}

const flowInWords = (name, count, weight) => `${name || "(one flow)"} ${figure(count)}${weight === 1 ? "" : `, weight ${figure(weight)}`}`;

function showNamedQueues(state) {
  const limited = state.named_queues.filter((one) => !one.exempt);
  set(at("named"), "hidden", limited.length === 0);
  say(at("named-note"), state.drift ? `${plural(state.drift, "queue")} differ from the files; the change is lost when this worker ends` : "as in the files");
  list(at("named-rows"), limited, (one) => one.name, makeNamedQueue, (row, one) => {
    row.state = one.state;
    set(row.name, "class", one.parent === null ? "name" : "name child");
    say(row.name, one.name);
    set(row.chip, "data-state", one.state);
    say(row.chip, one.closed_by_parent ? `${one.state}, by its parent` : one.state);
    const values = [`${figure(one.used)} of ${figure(one.max)}`, figure(one.deserved), figure(one.inqueue + one.pending), figure(sum(one.rejected))];
    values.forEach((value, place) => say(row.numbers[place], value));
    const isOpen = one.state === "Open";
    set(row.open, "hidden", !mayChange || isOpen);
    set(row.pause, "hidden", !mayChange || one.state === "Paused");
    set(row.close, "hidden", !mayChange || one.state === "Closed" || one.state === "Closing");
  });
}

function makeNamedQueue(one) {
  const row = { state: one.state };
  row.name = el("span", { class: "name" });
  row.chip = el("span", { class: "chip" });
  row.numbers = ["Used", "Deserved", "Waiting", "Rejected"].map(number);
  const labelled = (label, action) => {
    const made = button(label, () => act(action, one.name, row.state));
    made.setAttribute("aria-label", `${label} ${one.name}`);
    return made;
  };
  row.open = labelled("Open", "open");
  row.pause = labelled("Pause", "pause");
  row.close = labelled("Close", "close");
  const buttons = el("td", { "data-label": "Operate", class: "operate" }, row.open, row.pause, row.close);
  row.element = el("tr", {}, el("th", { scope: "row" }, row.name), cell("State", row.chip), ...row.numbers, buttons);
  return row;
}

function showGates(state) {
  set(at("gates"), "hidden", state.gates.length === 0);
  const parked = state.parked_requests;
  const others = state.other_keys ? `; ${plural(state.other_keys, "other key")} with fewer of them` : "";
  say(at("gates-note"), parked ? `${plural(parked, "request")} wait for gates${others}` : "nothing waits for a gate");
  list(at("gate-rows"), state.gates, (one) => JSON.stringify([one.gate, one.key]), makeGate, (row, one) => {
    say(row.name, one.key === null ? one.gate : `${one.gate} ${one.key}`);
    set(row.chip, "data-state", one.state);
    say(row.chip, one.state);
    const taken = one.acquired === null ? "–" : one.limit === null ? figure(one.acquired) : `${figure(one.acquired)} of ${figure(one.limit)}`;
    [taken, figure(one.parked), one.oldest === null ? "–" : duration(one.oldest)].forEach((value, place) => say(row.numbers[place], value));
    set(row.open, "hidden", !mayChange || one.state !== "held");
    set(row.shut, "hidden", !mayChange || one.state === "held");
    set(row.kick, "hidden", !mayChange || one.parked === 0);
  });
  set(at("parked"), "hidden", state.parked.length === 0);
  say(at("parked-summary"), `The ${plural(state.parked.length, "oldest parked request").replace("1 ", "")}`);
  list(at("parked-rows"), state.parked, (one) => one.id, makeParked, (row, one) => {
    say(row.age, duration(one.parked_for));
    say(row.attempts, figure(one.attempts));
  });
}

function makeGate(one) {
  const row = { name: el("span", { class: "name" }), chip: el("span", { class: "chip" }) };
  row.numbers = ["Taken", "Parked", "Oldest"].map(number);
  const labelled = (label, action) => {
    const made = button(label, () => act(action, one.gate));
    made.setAttribute("aria-label", `${label}: gate ${one.gate}`);
    return made;
  };
  row.open = labelled("Open", "gate-open");
  row.shut = labelled("Shut", "gate-close");
  row.kick = labelled("Try again", "gate-kick");
  const buttons = el("td", { "data-label": "Operate", class: "operate" }, row.open, row.shut, row.kick);
  row.element = el("tr", {}, el("th", { scope: "row" }, row.name), cell("State", row.chip), ...row.numbers, buttons);
  return row;
}

function makeParked(one) {
  const age = number("Parked for");
  const attempts = number("Attempts");
  const gate = one.key === null ? one.gate : `${one.gate} ${one.key}`;
  const why = `${gate}, ${one.stage}${one.cost === 1 ? "" : `, cost ${one.cost}`}`;
  const name = el("th", { scope: "row" }, one.flow || `all of ${one.schema}`);
  return { element: el("tr", {}, name, cell("Level", one.level), cell("Waits for", why), age, attempts), age, attempts };
}

function showFleet(state) {
  set(at("fleet"), "hidden", state.members.length === 0);
  const granted = state.members.reduce((total, one) => total + one.seats, 0);
  say(at("fleet-note"), `${plural(state.members.length, "member")}, ${plural(granted, "seat")} granted`);
  list(
    at("fleet-rows"),
    state.members,
    (one) => one.member,
    (one) => {
      const role = cell("Role");
      const numbers = ["Granted", "In use", "Wanted", "Report"].map(number);
      return { element: el("tr", {}, el("th", { scope: "row" }, one.member), role, ...numbers), role, numbers };
    },
    (row, one) => {
      say(row.role, one.is_allocator ? "allocator" : one.is_outdated ? "older configuration" : "member");
      [figure(one.seats), figure(one.seats_in_use), figure(one.demand), `${duration(one.age)} ago`].forEach((value, place) => say(row.numbers[place], value));
    },
  );
}

function showFleetLevels(state) {
  set(at("fleet-levels"), "hidden", state.fleet_levels.length === 0);
  list(
    at("fleet-level-rows"),
    state.fleet_levels,
    (one) => one.level,
    (one) => {
      const numbers = ["In use", "Wanted", "Requests/s"].map(number);
      const flows = cell("Flows");
      flows.classList.add("wide-cell");
      return { element: el("tr", {}, el("th", { scope: "row" }, one.level), ...numbers, flows), numbers, flows };
    },
    (row, one) => {
      [one.seats_in_use, one.demand, one.arrivals].forEach((value, place) => say(row.numbers[place], figure(value)));
      // Members tell each other hashes, so a flow that has no requests in this worker has no name here.
      const parts = one.flows.map((flow) => flowInWords(flow.flow ?? `#${flow.label.slice(0, 8)}`, flow.demand, flow.weight));
      say(row.flows, parts.join(" · ") || "none");
    },
  );
}

function showAdaptive(state, now) {
  const found = state.adaptive;
  set(at("adaptive"), "hidden", found === null);
  if (found === null) return;
  say(at("adaptive-note"), `${plural(found.seats, "seat")}${found.shared ? " of the fleet" : ""}, between ${found.min} and ${found.max}; the last decision: ${found.reason}`);
  const most = Math.max(found.seats, ...seatPoints().map((point) => point.value));
  draw(chart, seatPoints(), (point) => point.value, now, most, `Seats in the last 5 minutes: ${found.seats} now, at most ${most}`);
  say(chart.most, plural(most, "seat"));
}

function showConfiguration(state) {
  const levels = state.levels.filter((one) => !one.quiescing).length;
  say(at("configuration-note"), `${plural(levels, "level")}, ${plural(state.schemas, "schema")}, ${plural(state.seats, "seat")}`);
  const problems = state.problems.map((one) => ({ ...one, text: problemInWords(one) }));
  if (state.other_problems) problems.push({ severity: "warning", text: `and ${plural(state.other_problems, "other problem")}` });
  if (problems.length === 0) problems.push({ severity: "none", text: "No warnings." });
  list(
    at("problems"),
    problems,
    (one) => one.text,
    (one) => ({ element: el("li", { "data-severity": one.severity }, one.severity === "none" ? null : el("strong", {}, `${one.severity} `), one.text) }),
    () => {},
  );
}

function problemInWords(one) {
  const file = one.file.split("/").at(-1);
  const place = [file && (one.line ? `${file}:${one.line}` : file), one.field].filter(Boolean).join(" ");
  return [place && `${place}:`, one.rule, one.hint && `– ${one.hint}`].filter(Boolean).join(" ");
}
