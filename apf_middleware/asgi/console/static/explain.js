// How the configuration classifies a request that is described in a form.

import { at, el } from "./dom.js";
import { ask } from "./requests.js";

const ORDER = ["rejected", "served", "schema", "level", "flow", "weight", "user", "groups", "verb", "resource", "namespace", "hand", "gates"];

export function prepareExplain() {
  at("explain-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void explain(new FormData(event.target));
  });
}

async function explain(form) {
  const query = new URLSearchParams({ method: form.get("method"), url: form.get("url"), user: form.get("user").trim() });
  for (const group of form.get("groups").split(",")) if (group.trim()) query.append("group", group.trim());
  for (const line of form.get("headers").split("\n")) if (line.trim()) query.append("header", line.trim());
  const answer = await ask("GET", `explain?${query}`);
  at("explained").replaceChildren(...(answer.problem ? [el("p", { class: "problem" }, answer.problem)] : shown(answer.document)));
}

function shown(facts) {
  const found = ORDER.filter((name) => !isEmpty(facts[name]));
  const rows = found.map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, words(facts[name]))));
  if (facts.seats) rows.push(el("div", {}, el("dt", {}, "seats"), el("dd", {}, seats(facts))));
  const before = facts.passed_over ?? [];
  const parts = [el("dl", { class: "facts" }, ...rows)];
  if (facts.schema) parts.push(el("p", { class: "note" }, before.length ? "Tried before it, and why they don't match:" : "It is the first schema that is tried."));
  parts.push(el("ol", { class: "reasons" }, ...before.map((one) => el("li", {}, el("code", {}, one.schema), ` ${one.why}`))));
  return parts;
}

const isEmpty = (value) => value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
const words = (value) => (Array.isArray(value) ? value.join(", ") : String(value));

function seats({ exempt, seats: { nominal, min, max } }) {
  return exempt ? "no limit" : `nominal ${nominal}, min ${min}${max === null ? "" : `, max ${max}`}`;
}
