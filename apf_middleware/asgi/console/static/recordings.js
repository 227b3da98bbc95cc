// Recordings of the traffic: who records, and a recording into a file of this browser.

import { act, confirmed, notify } from "./actions.js";
import { at, cell, el, list, number, say, set } from "./dom.js";
import { duration, figure, plural } from "./format.js";
import { ask, openStream } from "./requests.js";

const REFRESH = 3; // seconds
const CHUNK = 2 ** 20; // bytes that are kept as objects of the page before the browser keeps them as a file

let isThere = false;
let askedAt = -Infinity;

export function prepareRecordings(exists) {
  isThere = exists;
  set(at("recordings"), "hidden", !exists);
  at("record").addEventListener("click", () => void record());
}

export async function showRecordings(now) {
  if (!isThere || document.hidden || now - askedAt < REFRESH) return;
  askedAt = now;
  const { document: found, problem } = await ask("GET", "recordings");
  say(at("recordings-note"), problem ?? (found.recordings.length ? plural(found.recordings.length, "recording") : "nothing is recorded now"));
  list(at("recording-rows"), found?.recordings ?? [], (one) => one.id, make, (row, one) => {
    const values = [duration(one.since), duration(one.left), figure(one.rows), figure(one.lost)];
    values.forEach((value, place) => say(row.numbers[place], value));
    set(row.stop, "hidden", at("record").hidden);
  });
}

function make(one) {
  const numbers = ["Runs for", "Left", "Requests", "Lost"].map(number);
  const stop = el("button", { type: "button", "data-change": true, "aria-label": `Stop the recording by ${one.by}`, onclick: () => act("recording-stop", one.id) }, "Stop");
  const about = one.sample < 1 ? ` ${figure(one.sample * 100)} % of the flows` : "";
  const by = el("th", { scope: "row" }, one.by.replaceAll('"', ""), about && el("span", { class: "figures" }, about));
  return { element: el("tr", {}, by, ...numbers, cell("Operate", stop)), numbers, stop };
}

async function record() {
  const seconds = await confirmed({
    title: "Record the traffic?",
    text: "Each request is written with its time, level, waiting time and duration; names of users and flows are hashed. The file is saved here when the time is over. Leave this page open until then.",
    yes: "Record",
    options: [
      ["60", "For a minute"],
      ["300", "For five minutes"],
      ["900", "For a quarter of an hour"],
    ],
  });
  if (seconds === null) return;
  const { response, problem } = await openStream("recordings", { seconds: Number(seconds), sample: 1, names: "hashed" });
  if (problem) {
    notify(problem, null, true);
    return;
  }
  askedAt = -Infinity;
  notify(`The traffic is being recorded for ${duration(Number(seconds))}.`);
  const { blob, error } = await collected(response.body.getReader());
  save(blob, error);
}

/** Return all that comes as one blob, whose larger part isn't in the memory of the page, and why it breaks off if so. */
async function collected(reader) {
  let blob = new Blob([]);
  let parts = [];
  let size = 0;
  let error = null;
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      size += part.value.length;
      if (size >= CHUNK) {
        blob = new Blob([blob, ...parts]);
        parts = [];
        size = 0;
      }
    }
  } catch (broken) {
    error = broken.message; // what has come until now is worth keeping
  }
  return { blob: new Blob([blob, ...parts], { type: "application/x-ndjson" }), error };
}

function save(blob, error) {
  const link = el("a", { href: URL.createObjectURL(blob), download: "traffic.jsonl" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  const size = `${figure(blob.size / 1000)} kB`;
  if (error === null) notify(`The recording is over: traffic.jsonl, ${size}. Play it with apf simulate.`);
  else notify(`The recording has broken off: ${error}. What has come until then is saved: traffic.jsonl, ${size}.`, null, true);
}
