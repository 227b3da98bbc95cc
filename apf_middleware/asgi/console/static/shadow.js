// The shadow: a configuration that is tried beside the one in force, and what it would have done.

import { act, confirmed, notify } from "./actions.js";
import { at, cell, el, list, number, say, set } from "./dom.js";
import { duration, figure, plural, sum } from "./format.js";
import { ask, askText } from "./requests.js";

const REFRESH = 3; // seconds

let isThere = false;
let askedAt = -Infinity;
let source = "";

export function prepareShadow(exists) {
  isThere = exists;
  set(at("shadow"), "hidden", !exists);
  at("shadow-stop").addEventListener("click", () => act("shadow-stop"));
  at("shadow-promote").addEventListener("click", () => act("shadow-promote", source));
  at("shadow-copy").addEventListener("click", async () => {
    at("shadow-form").elements.configuration.value = await askText("configuration?format=text");
  });
  at("shadow-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void start(new FormData(event.target));
  });
}

async function start(form) {
  const option = await confirmed({
    title: "Try this configuration?",
    text: "It gets the same requests as the one in force, decides for itself, and touches none of them.",
    yes: "Try",
  });
  if (option === null) return;
  const body = { configuration: form.get("configuration"), source: "a trial of the console", classifyOnly: form.has("classify") };
  const { problem } = await ask("PUT", "shadow", body);
  askedAt = -Infinity;
  notify(problem ?? "The configuration is tried now.", problem ? null : { action: "shadow-stop" }, problem !== null);
}

export async function showShadow(now) {
  if (!isThere || document.hidden || now - askedAt < REFRESH) return;
  askedAt = now;
  const { document: found, problem } = await ask("GET", "shadow");
  const shadow = found?.shadow ?? null;
  set(at("shadow-report"), "hidden", shadow === null);
  set(at("shadow-trial"), "data-running", shadow !== null);
  say(at("shadow-note"), problem ?? (shadow ? `${shadow.source}, for ${duration(shadow.seconds)}` : "no configuration is tried now"));
  say(at("shadow-verdict"), shadow ? verdict(shadow) : "");
  if (shadow === null) return;
  source = shadow.source;
  list(at("shadow-levels"), shadow.levels, (one) => one.level, makeLevel, updateLevel);
  set(at("shadow-otherwise"), "hidden", shadow.differences.length === 0);
  list(at("shadow-differences"), shadow.differences, differenceKey, makeDifference, (row, one) => say(row.requests, figure(one.requests)));
  const caveats = shadow.error ? [`The shadow has failed: ${shadow.error}`, ...shadow.caveats] : shadow.caveats;
  list(at("shadow-caveats"), caveats, (text) => text, (text) => ({ element: el("li", {}, text) }), () => {});
}

function verdict(shadow) {
  const otherwise = `${plural(shadow.requests, "request")}, ${figure(shadow.otherwise)} of them classified otherwise`;
  if (shadow.classify_only || shadow.decided === 0) return `${otherwise}.`;
  const part = Math.floor((1000 * shadow.agreeing) / shadow.decided) / 10;
  return `${otherwise}; ${part} % would have been admitted, have waited or been rejected as they were.`;
}

function makeLevel(one) {
  const numbers = ["Seats, mean", "Peak", "Waited", "Wait, p50", "Wait, p99", "Rejected"].map(number);
  return { element: el("tr", {}, el("th", { scope: "row" }, one.level), ...numbers), numbers };
}

function updateLevel(row, one) {
  const { waits } = one;
  const values = [figure(one.average), figure(one.peak), figure(waits.requests), duration(waits.p50), duration(waits.p99), figure(sum(one.rejected))];
  values.forEach((value, place) => say(row.numbers[place], value));
}

const differenceKey = (one) => JSON.stringify([one.real_schema, one.real_level, one.schema, one.level]);

function makeDifference(one) {
  const requests = number("Requests");
  const [example] = one.examples;
  const shown = example ? `${example.method} ${example.path}${example.user ? ` of ${example.user}` : ""}` : "–";
  const real = el("th", { scope: "row" }, `${one.real_schema} at ${one.real_level}`);
  return { element: el("tr", {}, real, cell("Shadow", `${one.schema} at ${one.level}`), requests, cell("Example", shown)), requests };
}
