// The page: it listens to the events of its server and shows each document.

import { act, prepareActions } from "./actions.js";
import { at, el, list, say, sayParts, set } from "./dom.js";
import { prepareExplain } from "./explain.js";
import { openFlow, prepareSheet, showFlows } from "./flows.js";
import { figure, flowKey, plural } from "./format.js";
import { note } from "./history.js";
import { showLevels } from "./levels.js";
import { allow, preparePanels, showPanels } from "./panels.js";
import { prepareRecordings, showRecordings } from "./recordings.js";
import { prepareShadow, showShadow } from "./shadow.js";
import { ask, askStatus } from "./requests.js";
import { summarize } from "./summary.js";

const PATIENCE = 5; // seconds without a document, after which the data counts as old

const workers = Number(new URLSearchParams(location.search).get("workers"));
let mayChange = false;
let lastAt = null;
let failure = null; // the state after an answer that was no stream, until the page asks again

function greet({ actor, may_change, worker }) {
  mayChange = may_change;
  allow(may_change);
  say(at("app"), `apf · ${worker.app}`);
  document.title = `${worker.app} · apf console`;
  const others = workers > 1 ? el("a", { href: "../../" }, `one of ${workers}`) : "";
  at("fact-worker").replaceChildren(String(worker.pid), workers > 1 ? ", " : "", others);
  say(at("fact-actor"), `${actor}, ${may_change ? "operator" : "reads only"}`);
}

function show(state) {
  const now = performance.now() / 1000;
  lastAt = now;
  live("live");
  note(state, now);
  showFacts(state);
  showSummary(state);
  showLevels(state, now);
  showFlows(state, now);
  showPanels(state, now);
  showRecordings(now);
  showShadow(now);
}

function showFacts(state) {
  const used = state.levels.reduce((total, level) => total + (level.exempt ? 0 : level.seats_in_use), 0);
  say(at("fact-seats"), `${figure(used)} of ${figure(state.seats)}`);
  say(at("fact-mode"), state.mode);
  set(at("fact-mode"), "data-mode", state.mode);
}

function showSummary(state) {
  const { tone, word, headline, advice, remedies, spoken } = summarize(state, workers);
  set(at("summary"), "data-tone", tone);
  say(at("tone"), word);
  sayParts(at("headline"), headline);
  say(at("advice"), advice);
  say(at("spoken"), spoken); // screen readers tell of changes, and numbers change every second
  const known = remedies.filter((one) => one.action === "flow" || mayChange);
  list(
    at("remedies"),
    known,
    (one) => one.label,
    (one) => {
      const row = { remedy: one };
      row.element = el("button", { type: "button", onclick: () => remedy(row.remedy) }, one.label);
      return row;
    },
    (row, one) => {
      row.remedy = one; // what it takes back may have changed
    },
  );
}

function remedy({ action, name, flow, before }) {
  if (action === "flow") openFlow(flowKey(flow));
  else void act(action, name, before);
}

const STATES = { live: "live", late: "late", waiting: "reconnecting", silent: "the server doesn't answer", refused: "not allowed any more" };
const REFUSALS = new Set([401, 403]);

function live(state) {
  set(at("fact-live"), "data-state", state);
  const age = lastAt === null ? null : performance.now() / 1000 - lastAt;
  say(at("fact-live"), state === "late" ? `${plural(Math.round(age), "second")} old` : STATES[state]);
}

function listen() {
  const events = new EventSource("events");
  events.addEventListener("hello", (event) => greet(JSON.parse(event.data)));
  events.addEventListener("state", (event) => show(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) void retry();
  });
}

/**
 * Find out why there is no stream, of which the browser tells nothing, and ask again later: a server that restarts, or
 * the proxy before it, answers with errors for a while, and a credential may be renewed.
 */
async function retry() {
  failure = REFUSALS.has(await askStatus("mode", PATIENCE)) ? "refused" : "silent";
  setTimeout(() => {
    failure = null;
    listen();
  }, PATIENCE * 1000);
}

/** Show what only some servers have, as their description says. */
async function prepareRest() {
  const { document: description } = await ask("GET", "openapi.json");
  const pages = Object.keys(description?.paths ?? {});
  prepareRecordings(pages.some((one) => one.endsWith("/recordings")));
  prepareShadow(pages.some((one) => one.endsWith("/shadow")));
}

setInterval(() => {
  const isOld = lastAt === null || performance.now() / 1000 - lastAt > PATIENCE;
  if (isOld) live(failure ?? (lastAt === null ? "waiting" : "late"));
}, 1000);

prepareActions();
prepareExplain();
preparePanels();
prepareSheet();
listen();
void prepareRest();
