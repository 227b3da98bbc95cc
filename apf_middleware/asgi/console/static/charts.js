// Lines over the last minutes, and bars of seats, in SVG; each has a label that says the same in words.

import { el, set, svg } from "./dom.js";
import { SECONDS } from "./history.js";

const WIDTH = 150;
const HEIGHT = 30;

/** Return a small chart without axes: all charts of a column have one scale. */
export function sparkline() {
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line" });
  const element = svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    area,
    line,
  );
  return { element, area, line };
}

/** Draw points of the last minutes, from 0 to `most`; a value of null leaves a gap. */
export function draw(chart, points, valueOf, now, most, label) {
  const x = (t) => (WIDTH * (1 - (now - t) / SECONDS)).toFixed(1);
  const y = (value) => (HEIGHT - 1 - (HEIGHT - 3) * Math.min(1, value / (most || 1))).toFixed(1);
  let line = "";
  let area = "";
  let from = null;
  let to = null;
  for (const point of thinned(points)) {
    const value = valueOf(point);
    if (value === null) {
      if (from !== null) area += `L${to} ${HEIGHT}L${from} ${HEIGHT}Z`;
      from = null;
      continue;
    }
    to = x(point.t);
    line += `${from === null ? "M" : "L"}${to} ${y(value)}`;
    area += `${from === null ? "M" : "L"}${to} ${y(value)}`;
    if (from === null) from = to;
  }
  if (from !== null) area += `L${to} ${HEIGHT}L${from} ${HEIGHT}Z`;
  set(chart.line, "d", line || null);
  set(chart.area, "d", area || null);
  set(chart.element, "aria-label", label);
}

/** Return at most half as many points as there are pixels: the largest of each group would hide in a line anyway. */
function thinned(points) {
  return points.length <= WIDTH ? points : points.filter((_, place) => place % 2 === (points.length - 1) % 2);
}

/** Return a bar of the seats of a level. */
export function seatsBar() {
  const part = (name) => svg("rect", { class: name, y: 6, height: 12 });
  const parts = {
    track: svg("rect", { class: "track", x: 0, y: 6, height: 12 }),
    promised: svg("rect", { class: "promised", x: 0, y: 20, height: 3 }),
    heaviest: part("heaviest"),
    others: part("others"),
    borrowed: part("borrowed"),
    nominal: svg("line", { class: "nominal", y1: 2, y2: 22 }),
    limit: svg("path", { class: "limit" }),
  };
  const element = svg("svg", { class: "seats-bar", viewBox: "0 0 300 26", preserveAspectRatio: "none", role: "img" });
  element.append(...Object.values(parts));
  return { element, ...parts };
}

/** Draw the seats of a level, of which its heaviest flow has `heaviest`; `scale` seats are the whole width. */
export function drawSeats(bar, level, heaviest, scale, label) {
  const x = (seats) => (298 * Math.min(1, seats / scale)).toFixed(1);
  const span = (part, from, to) => {
    set(part, "x", x(from));
    set(part, "width", Math.max(0, x(to) - x(from)).toFixed(1));
  };
  const used = level.seats_in_use;
  const own = level.exempt ? used : Math.min(used, level.nominal);
  const first = Math.min(heaviest, own);
  span(bar.track, 0, level.exempt ? 0 : Math.max(level.current, level.nominal));
  span(bar.heaviest, 0, first);
  span(bar.others, first, own);
  span(bar.borrowed, own, used);
  span(bar.promised, 0, level.min);
  for (const name of ["x1", "x2"]) set(bar.nominal, name, x(level.nominal));
  set(bar.nominal, "visibility", level.exempt ? "hidden" : "visible");
  const end = x(level.current ?? 0);
  set(bar.limit, "d", level.exempt ? null : `M${end - 3} 3H${end}V21H${end - 3}`);
  set(bar.element, "aria-label", label);
}

/** Return a bar of the seats that a flow gets, with a mark at its fair share. */
export function shareBar() {
  const value = svg("rect", { class: "heaviest", x: 0, y: 3, height: 8 });
  const fair = svg("line", { class: "limit", y1: 0, y2: 14 });
  const track = svg("rect", { class: "track", x: 0, y: 3, width: 110, height: 8 });
  const element = svg("svg", { class: "share-bar", viewBox: "0 0 112 14", role: "img" }, track, value, fair);
  return { element, value, fair };
}

/** Draw the seats that a flow gets and its fair share; `most` seats are the whole width. */
export function drawShare(bar, seats, fair, most, label) {
  const x = (number) => (110 * Math.min(1, number / most)).toFixed(1);
  set(bar.value, "width", x(seats));
  for (const name of ["x1", "x2"]) set(bar.fair, name, x(fair));
  set(bar.fair, "visibility", fair > 0 ? "visible" : "hidden");
  set(bar.element, "aria-label", label);
}

/** Return a larger chart with the scale beside it. */
export function largeChart() {
  const chart = sparkline();
  chart.element.classList.add("large");
  const most = el("span", { class: "most" });
  const element = el("figure", {}, most, chart.element, el("figcaption", {}, "the last 5 minutes"));
  return { ...chart, element, most, svg: chart.element };
}
