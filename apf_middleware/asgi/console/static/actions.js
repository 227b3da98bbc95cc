// Changes: each is confirmed after the page has said what it will do, and can be undone where that is possible.

import { at, el, say, set } from "./dom.js";
import { ask, page } from "./requests.js";

const queue = (name, action) => page("queues", name, action);
const gate = (name, action) => page("gates", name, action);

/** What each action asks, sends and reports; `undo` names the action that takes it back. */
const ACTIONS = {
  pause: (name) => ({
    title: `Pause ${name}?`,
    text: `Requests to ${name} are accepted and wait. None of them is served until it is opened. Running requests go on.`,
    yes: "Pause",
    send: ["POST", queue(name, "pause"), {}],
    done: `${name} is paused.`,
    undo: { action: "open", name },
  }),
  open: (name, before) => ({
    title: `Open ${name}?`,
    text: `Requests that wait in ${name} are served, and new ones are accepted.`,
    yes: "Open",
    send: ["POST", queue(name, "open"), {}],
    done: `${name} is open.`,
    undo: before === "Paused" ? { action: "pause", name } : before ? { action: "close", name } : null,
  }),
  close: (name) => ({
    title: `Close ${name}?`,
    text: `New requests to ${name} are rejected. Running requests go on.`,
    yes: "Close",
    options: [
      ["drain", "Serve the requests that wait in it"],
      ["shed", "Reject the requests that wait in it, which can't be undone"],
    ],
    send: ["POST", queue(name, "close"), (option) => ({ mode: option })],
    done: `${name} is closed.`,
    undo: { action: "open", name },
  }),
  "gate-open": (name) => ({
    title: `Open the gate ${name}?`,
    text: `Requests that wait for ${name} try again, and pass if there is room.`,
    yes: "Open",
    send: ["POST", gate(name, "open"), {}],
    done: `The gate ${name} is open.`,
    undo: { action: "gate-close", name },
  }),
  "gate-close": (name) => ({
    title: `Shut the gate ${name}?`,
    text: `Requests that need ${name} wait for it, up to their time limits. Requests that have passed go on.`,
    yes: "Shut",
    options: [
      ["60", "For a minute"],
      ["600", "For ten minutes"],
      ["", "Until an operator opens it"],
    ],
    send: ["POST", gate(name, "close"), (option) => (option ? { for: Number(option) } : {})],
    done: `The gate ${name} is shut.`,
    undo: { action: "gate-open", name },
  }),
  "gate-kick": (name) => ({
    title: `Let requests at ${name} try again?`,
    text: `Each request that waits for ${name} tries once more. Those for which there is no room wait on.`,
    yes: "Try again",
    send: ["POST", gate(name, "kick"), {}],
    done: `The requests at ${name} try again.`,
    undo: null,
  }),
  mode: (name, before) => ({
    title: name ? `Switch the mode to ${name}?` : "Switch the mode",
    text: "Switching rejects and loses no request. What waits runs at once unless the mode is on.",
    yes: "Switch",
    options: name
      ? null
      : [
          ["on", "on: limit requests"],
          ["observe", "observe: let all run, and count what would happen"],
          ["off", "off: let all run"],
        ].filter(([mode]) => mode !== before),
    send: ["PUT", "mode", (option) => ({ mode: name || option })],
    done: (document) => `The mode is ${document.mode}.`,
    undo: before ? { action: "mode", name: before } : null,
  }),
  "recording-stop": (id) => ({
    title: "Stop this recording?",
    text: "What has been recorded until now is kept.",
    yes: "Stop",
    send: ["DELETE", page("recordings", id)],
    done: "The recording is stopped.",
    undo: null,
  }),
  "shadow-stop": () => ({
    title: "Stop the shadow?",
    text: "Its report is lost. The configuration in force stays as it is.",
    yes: "Stop",
    send: ["DELETE", "shadow"],
    done: "No configuration is tried any more.",
    undo: null,
  }),
  "shadow-promote": (source) => ({
    title: "Put the shadow in force?",
    text: `Requests are limited by ${source} from now on. No request that waits or runs is lost. The files stay as they are: the next reload, or start, reads them.`,
    yes: "Put in force",
    send: ["POST", "shadow/promote", {}],
    done: `${source} is in force.`,
    undo: { action: "reload" },
  }),
  reload: () => ({
    title: "Read the configuration again?",
    text: "The files are read as they are now. If they have errors, nothing changes. No request that waits or runs is lost.",
    yes: "Read",
    send: ["POST", "reload", {}],
    done: (document) => `The configuration is in force: ${document.levels} levels, ${document.schemas} schemas.`,
    undo: null,
  }),
};

let undo = null;

/** Ask for confirmation, then make a change, and offer its undo. */
export async function act(action, name, before) {
  const plan = ACTIONS[action](name, before);
  const option = await confirmed(plan);
  if (option !== null) await carryOut(plan, option, before);
}

async function carryOut(plan, option) {
  const [method, path, body] = plan.send;
  const answer = await ask(method, path, typeof body === "function" ? body(option) : body);
  if (answer.problem) {
    notify(answer.problem, null, true);
    return;
  }
  notify(typeof plan.done === "function" ? plan.done(answer.document) : plan.done, option === "shed" ? null : plan.undo);
}

/** Show what an action will do; return the chosen option, "" without options, and null if it isn't wanted. */
export function confirmed(plan) {
  const dialog = at("confirm");
  say(at("confirm-title"), plan.title);
  say(at("confirm-text"), plan.text);
  say(at("confirm-yes"), plan.yes);
  const options = (plan.options ?? []).map(([value, label], place) =>
    el("label", { class: "option" }, el("input", { type: "radio", name: "option", value, checked: place === 0 }), label),
  );
  at("confirm-options").replaceChildren(...options);
  dialog.returnValue = "no";
  dialog.showModal();
  at("confirm-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const chosen = dialog.querySelector("input:checked");
        resolve(dialog.returnValue === "yes" ? (chosen?.value ?? "") : null);
      },
      { once: true },
    );
  });
}

/** Show the outcome of an action until it is dismissed or another one comes. */
export function notify(text, undoing = null, isProblem = false) {
  undo = undoing;
  set(at("notice"), "hidden", false);
  set(at("notice"), "data-problem", isProblem);
  say(at("notice-text"), text);
  set(at("notice-undo"), "hidden", undoing === null);
}

export function prepareActions() {
  at("notice-close").addEventListener("click", () => set(at("notice"), "hidden", true));
  at("notice-undo").addEventListener("click", async () => {
    if (undo === null) return;
    const { action, name } = undo;
    await carryOut({ ...ACTIONS[action](name), undo: null }, firstOption(ACTIONS[action](name)));
  });
}

function firstOption(plan) {
  return plan.options?.at(-1)[0] === "" ? "" : (plan.options?.[0][0] ?? "");
}
