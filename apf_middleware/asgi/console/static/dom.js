// Elements are built and changed here. Data becomes text and attributes, never markup.
// Characters that would be invisible, or change the order of the text around them, are shown by their codes.

const SVG = "http://www.w3.org/2000/svg";
const rows = new WeakMap();
const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;

/** Return text in which each character can be seen, and none turns the others around. */
export const visible = (text) => text.replace(UNSEEN, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);

/** Return the element with this id. */
export const at = (id) => document.getElementById(id);

/** Return a new element; children may be text, and false or null stands for none. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return a new element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else set(element, name, value);
  }
  const shown = children.flat().filter((one) => one !== null && one !== false && one !== undefined);
  element.append(...shown.map((one) => (one instanceof Node ? one : visible(String(one)))));
  return element;
}

/** Set an attribute unless it has the value already; null and false remove it. */
export function set(element, name, value) {
  if (value === null || value === false || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Set the text of an element unless it has it already. */
export function say(element, text) {
  const shown = visible(String(text));
  if (element.textContent !== shown) element.textContent = shown;
  return element;
}

/** Replace the children of an element by sentences in which {code} parts are marked. */
export function sayParts(element, parts) {
  const key = JSON.stringify(parts);
  if (element.dataset.said === key) return;
  element.dataset.said = key;
  element.replaceChildren(...parts.map((part) => (typeof part === "string" ? visible(part) : el(part[0], {}, part[1]))));
}

/**
 * Show a row for each item: `make(item)` returns an object with an `element`, and `update(row, item)` changes it.
 * Rows keep their elements. They don't change places while one of them has the focus or is pointed at.
 */
export function list(parent, items, keyOf, make, update) {
  const known = rows.get(parent) ?? new Map();
  const wanted = new Map(items.map((item) => [keyOf(item), item]));
  for (const [key, row] of known) {
    if (!wanted.has(key)) {
      row.element.remove();
      known.delete(key);
    }
  }
  const isInUse = parent.contains(document.activeElement) || parent.matches(":hover");
  let next = parent.firstElementChild;
  for (const [key, item] of wanted) {
    let row = known.get(key);
    const isNew = row === undefined;
    if (isNew) {
      row = make(item);
      row.element.dataset.key = key; // for those who look for a row
      known.set(key, row);
    }
    update(row, item);
    if (isNew && isInUse) {
      parent.append(row.element);
    } else if (isNew || (!isInUse && row.element !== next)) {
      parent.insertBefore(row.element, next);
    } else if (row.element === next) {
      next = next.nextElementSibling;
    }
  }
  rows.set(parent, known);
}

/** Return a cell of a table; on a narrow screen its label stands before it. */
export function cell(label, ...children) {
  return el("td", { "data-label": label }, ...children);
}

/** Return a cell for a number. */
export function number(label) {
  return el("td", { "data-label": label, class: "number" });
}
