// The levels: bars of seats, and small multiples of waits and rejections, all of one scale.

import { at, el, list, number, say, set } from "./dom.js";
import { draw, drawSeats, seatsBar, sparkline } from "./charts.js";
import { atMost, duration, figure, plural, rate } from "./format.js";
import { lastOf, levelPoints } from "./history.js";
import { flowsOf } from "./summary.js";

const MINUTE = 60;
const LEAST_WAIT = 0.1; // seconds: a scale that says less would make noise look like trouble
const LONGEST_WAIT = 30; // the last bound of the buckets
const LEAST_RATE = 1;

export function showLevels(state, now) {
  const all = state.levels.map((level) => levelPoints(level.level)).flat();
  const mostWait = nice(Math.max(LEAST_WAIT, ...all.map((point) => Math.min(point.wait ?? 0, LONGEST_WAIT))));
  const mostRate = nice(Math.max(LEAST_RATE, ...all.map((point) => point.rejected)));
  const scale = Math.max(1, ...state.levels.map((level) => Math.max(level.seats_in_use, level.nominal, level.current ?? 0)));
  say(at("scale-wait"), `0–${duration(mostWait)}`);
  say(at("scale-rejected"), `0–${rate(mostRate)}`);
  say(at("levels-note"), `${plural(state.seats, "seat")}; lines show the last 5 minutes, all on one scale`);
  const ordered = [...state.levels].sort((one, other) => rank(other) - rank(one));
  list(at("level-rows"), ordered, (level) => `${level.level} ${level.quiescing}`, make, (row, level) =>
    update(row, level, state, { now, mostWait, mostRate, scale }),
  );
  if (at("minutes").open) showMinutes(ordered, now);
}

/** Return how badly a level has been off in the last minute, in coarse steps, so that rows don't jump. */
function rank(level) {
  if (level.exempt) return -1;
  const points = levelPoints(level.level).slice(-MINUTE);
  return Math.floor(Math.log2(1 + points.reduce((total, point) => total + point.waiting + 10 * point.rejected, 0)));
}

/** Round up to 1, 2 or 5 times a power of ten. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value * 0.999);
}

function make() {
  const name = el("span", { class: "name" });
  const chips = el("span", { class: "chips" });
  const bar = seatsBar();
  const figures = el("span", { class: "figures" });
  const loans = el("span", { class: "loans" });
  const waiting = el("strong");
  const clients = el("span", { class: "figures" });
  const served = number("Served");
  served.classList.add("wide-cell");
  const wait = sparkline();
  const waitText = el("span", { class: "value" });
  const rejected = sparkline();
  rejected.element.classList.add("alarm");
  const rejectedText = el("span", { class: "value" });
  const element = el(
    "tr",
    {},
    el("th", { scope: "row" }, name, chips),
    el("td", { "data-label": "Seats", class: "seats" }, bar.element, figures, loans),
    el("td", { "data-label": "Waiting", class: "number wide-cell" }, waiting, clients),
    served,
    wide("Wait, p99", el("div", { class: "trend" }, waitText, wait.element)),
    wide("Rejected", el("div", { class: "trend" }, rejectedText, rejected.element)),
  );
  return { element, name, chips, bar, figures, loans, waiting, clients, served, wait, waitText, rejected, rejectedText };
}

const wide = (label, content) => el("td", { "data-label": label, class: "wide-cell" }, content);

function update(row, level, state, { now, mostWait, mostRate, scale }) {
  const last = lastOf(level.level);
  const flows = flowsOf(state, level.level);
  const points = levelPoints(level.level);
  const isFull = !level.exempt && level.seats_in_use >= level.current && (level.waiting > 0 || level.seats_in_use > 0);
  set(row.element, "data-full", isFull && level.waiting > 0);
  say(row.name, level.level);
  showChips(row.chips, level, isFull);
  const words = seatsInWords(level, state.seats);
  drawSeats(row.bar, level, flows.length ? flows[0].seats_in_use : 0, scale, `${level.level}: ${words}`);
  set(row.bar.element, "hidden", level.exempt && level.seats_in_use === 0);
  say(row.figures, words);
  say(row.loans, loansInWords(level, state.loans));
  const clients = flows.filter((flow) => flow.waiting > 0).length;
  say(row.waiting, figure(level.waiting));
  say(row.clients, clients ? `of ${plural(clients, "client")}` : "");
  say(row.served, rate(last?.served ?? null));
  const wait = last?.wait ?? null;
  say(row.waitText, atMost(wait));
  say(row.rejectedText, rate(last?.rejected ?? null));
  draw(row.wait, points, (point) => point.wait, now, mostWait, `${level.level}: p99 of waits, ${atMost(wait)} now`);
  draw(row.rejected, points, (point) => point.rejected, now, mostRate, `${level.level}: rejections, ${rate(last?.rejected ?? null)} now`);
}

function showChips(parent, level, isFull) {
  const chips = [];
  if (level.exempt) chips.push("never limited");
  if (isFull) chips.push("full");
  if (level.quiescing) chips.push("removed, draining");
  if (level.cap !== null) chips.push(`cap ${level.cap}`);
  if (level.parked) chips.push(`${level.parked} parked`);
  if (level.receiving) chips.push(`${level.receiving} sending`);
  list(parent, chips, (text) => text, (text) => ({ element: el("span", { class: "chip" }, text) }), () => {});
}

function seatsInWords(level, seats) {
  if (level.exempt) return `${plural(level.seats_in_use, "seat")} in use, no limit`;
  const most = level.max < seats ? ` · max ${level.max}` : "";
  const bounds = `min ${level.min} · nominal ${level.nominal}${most}`;
  return `${figure(level.seats_in_use)} of ${plural(level.current, "seat")} · ${bounds}`;
}

function loansInWords(level, loans) {
  const borrowed = loans.filter((one) => one.borrower === level.level);
  const lent = loans.filter((one) => one.lender === level.level);
  const parts = [];
  if (borrowed.length) parts.push(`borrows ${borrowed.map((one) => `${one.seats} from ${one.lender}`).join(", ")}`);
  if (lent.length) parts.push(`lends ${lent.map((one) => `${one.seats} to ${one.borrower}`).join(", ")}`);
  return parts.join("; ");
}

// The same as the lines, in numbers

function showMinutes(levels, now) {
  const ages = [0, 1, 2, 3, 4];
  const head = at("minutes-head");
  if (!head.firstChild) {
    const titles = ["Level", ...ages.map((age) => (age ? `${age} to ${age + 1} min ago` : "the last minute"))];
    head.append(el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title))));
  }
  list(
    at("minutes-rows"),
    levels,
    (level) => level.level,
    (level) => {
      const cells = ages.map(() => el("td"));
      return { element: el("tr", {}, el("th", { scope: "row" }, level.level), ...cells), cells };
    },
    (row, level) => ages.forEach((age) => say(row.cells[age], minuteInWords(levelPoints(level.level), now - age * MINUTE))),
  );
}

function minuteInWords(points, until) {
  const own = points.filter((point) => point.t <= until && point.t > until - MINUTE);
  if (own.length === 0) return "–";
  const waits = own.map((point) => point.wait).filter((wait) => wait !== null);
  const rejected = own.reduce((total, point) => total + point.rejected, 0) / own.length;
  const wait = waits.length ? `p99 ${atMost(Math.max(...waits))}` : "none seated";
  return `${wait}, ${rejected ? `${figure(rejected)} rejected a second` : "none rejected"}`;
}

