// The heaviest flows, and what is known about one of them.

import { at, cell, el, list, number, say, set } from "./dom.js";
import { draw, drawShare, largeChart, shareBar } from "./charts.js";
import { duration, figure, flowKey, flowName, plural } from "./format.js";
import { flowPoints, recentOf } from "./history.js";
import { elephantOf, wanted } from "./summary.js";
import { ask } from "./requests.js";

const MOST_ROWS = 12;
const MOST_REQUESTS = 50;
const REFRESH = 2; // seconds between two looks at the requests of a flow

const ORDERS = {
  demand: (flow) => wanted(flow) * 1e6 + flow.work,
  waiting: (flow) => flow.waiting,
  rejected: (flow) => flow.rejected,
  work: (flow) => flow.work,
};

let shown = null; // the key of the flow in the sheet
let latest = null;
let askedAt = 0;
let chart = null;

export function showFlows(state, now) {
  latest = state;
  const order = ORDERS[at("flows-order").value];
  const flows = [...state.flows].sort((one, other) => order(other) - order(one)).slice(0, MOST_ROWS);
  const elephants = new Set(state.levels.map((level) => elephantOf(state, level)).filter(Boolean).map(flowKey));
  const most = Math.max(1, ...flows.map((flow) => Math.max(recentOf(flow).seats, recentOf(flow).fair)));
  list(at("flow-rows"), flows, flowKey, make, (row, flow) => update(row, flow, elephants.has(flowKey(flow)), most));
  say(at("flows-note"), `${plural(state.present_flows, "client")} with requests now; the heaviest are here`);
  set(at("flows-empty"), "hidden", flows.length > 0);
  if (shown !== null) showSheet(now);
}

function make(flow) {
  const key = flowKey(flow);
  const mark = el("span", { class: "chip alarm", hidden: true }, "elephant");
  const button = el("button", { type: "button", class: "link", onclick: () => openFlow(key) }, flowName(flow));
  const share = shareBar();
  const gets = el("span", { class: "figures" });
  const level = cell("Level");
  const numbers = ["Waiting", "Oldest", "Rejected", "Work", "Weight"].map(number);
  const element = el("tr", {}, el("th", { scope: "row" }, button, mark), level, el("td", { "data-label": "Gets", class: "wide-cell" }, share.element, gets), ...numbers);
  return { element, button, mark, level, share, gets, numbers };
}

function update(row, flow, isElephant, most) {
  set(row.mark, "hidden", !isElephant);
  say(row.level, flow.level);
  const { seats, fair } = recentOf(flow);
  const text = fair > 0 ? `${figure(seats)} of ${plural(fair, "seat")}` : plural(seats, "seat");
  drawShare(row.share, seats, fair, most, `${flowName(flow)} gets ${text}`);
  say(row.gets, text);
  const [waiting, oldest, rejected, work, weight] = row.numbers;
  say(waiting, figure(flow.waiting));
  say(oldest, flow.waiting ? duration(flow.oldest) : "–");
  say(rejected, figure(flow.rejected));
  say(work, `${figure(flow.work)} s`);
  say(weight, flow.weight === null ? "–" : figure(flow.weight));
}

// One flow

export function openFlow(key) {
  shown = key;
  askedAt = 0;
  if (!at("flow").open) at("flow").showModal();
  at("flow-requests").replaceChildren();
  say(at("flow-note"), "");
  showSheet(performance.now() / 1000);
}

export function prepareSheet() {
  chart = largeChart();
  at("flow-chart").append(chart.element);
  at("flow-close").addEventListener("click", () => at("flow").close());
  at("flow").addEventListener("close", () => (shown = null));
  at("flows-order").addEventListener("change", () => latest && showFlows(latest, performance.now() / 1000));
}

function showSheet(now) {
  const [level, schema, name] = JSON.parse(shown);
  const flow = latest.flows.find((one) => flowKey(one) === shown) ?? { level, schema, flow: name };
  const isKnown = flow.work !== undefined;
  say(at("flow-title"), flowName(flow));
  say(at("flow-verdict"), isKnown ? verdict(flow) : "It has no requests now, and is not among the heaviest flows.");
  const facts = isKnown
    ? {
        Level: level,
        Schema: schema,
        Gets: plural(recentOf(flow).seats, "seat"),
        "Fair share": plural(recentOf(flow).fair, "seat"),
        Wants: `${figure(wanted(flow))} seats`,
        Waiting: figure(flow.waiting),
        Rejected: figure(flow.rejected),
        Work: `${figure(flow.work)} seat-seconds`,
      }
    : { Level: level, Schema: schema };
  list(
    at("flow-facts"),
    Object.entries(facts),
    ([title]) => title,
    ([title]) => {
      const value = el("dd");
      return { element: el("div", {}, el("dt", {}, title), value), value };
    },
    (row, [, value]) => say(row.value, value),
  );
  const points = flowPoints(flow);
  const most = Math.max(1, ...points.map((point) => Math.max(point.value, point.fair)));
  draw(chart, points, (point) => point.value, now, most, `Seats of ${flowName(flow)} in the last 5 minutes, at most ${figure(most)}`);
  say(chart.most, plural(most, "seat"));
  if (now - askedAt > REFRESH) {
    askedAt = now;
    void showRequests(shown, level, schema, name);
  }
}

function verdict(flow) {
  const { seats, fair } = recentOf(flow);
  if (wanted(flow) === 0) return "It has no requests now.";
  if (flow.fair === null) return "Its level is never limited.";
  if (wanted(flow) <= flow.fair + 0.001) return "It wants no more than its fair share, and gets what it wants.";
  const more = wanted(flow) - fair;
  return `It wants ${plural(more, "seat")} more than its fair share of ${figure(fair)}, and gets ${figure(seats)}. The rest waits behind its own requests, not before those of others.`;
}

async function showRequests(key, level, schema, name) {
  const query = new URLSearchParams({ format: "json", includeRequestDetails: "1", level, schema, flow: name, most: MOST_REQUESTS });
  const answer = await ask("GET", `dump_requests?${query}`);
  if (shown !== key) return;
  if (answer.problem) {
    say(at("flow-note"), answer.problem);
    return;
  }
  const requests = answer.document.requests;
  say(at("flow-note"), requests.length < MOST_REQUESTS ? plural(requests.length, "request") : `the first ${MOST_REQUESTS}`);
  at("flow-requests").replaceChildren(...requests.map(requestRow));
}

/** Return a cell for a name that a client chooses, which may be long. */
const nameCell = (label, name) => el("td", { "data-label": label, class: "name-cell" }, name);

function requestRow(request) {
  const since = request.seated_at ?? request.arrived_at;
  const age = Math.max(0, (Date.parse(latest.at) - Date.parse(since)) / 1000); // the browser's clock may be wrong
  const held = request.held_by ? `parked for ${request.held_by.gate ?? "an earlier request"}` : null;
  const state = request.seated_at ? "runs" : held ?? (request.position === null ? "waits" : `waits, place ${request.position + 1}`);
  return el(
    "tr",
    {},
    cell("State", state),
    cell("Since", duration(age)),
    nameCell("Request", `${request.verb} ${request.path}`),
    nameCell("User", request.user),
    el("td", { class: "number", "data-label": "Seats" }, figure(request.seats)),
  );
}
