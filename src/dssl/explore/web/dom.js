// Elements made by calls. Text is only ever set as text: ids and labels are data, never markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...children);
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(made, attributes);
  made.append(...children);
  return made;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
}

export const get = (id) => document.getElementById(id);

/** A long id or label, cut in the middle, since ids often differ at their ends; the whole of it is in the panel. */
export function short(text, length = 80) {
  if (text.length <= length) return text;
  const tail = Math.floor((length - 1) / 2);
  const [first, last] = [text.slice(0, length - 1 - tail), text.slice(text.length - tail)];
  return `${first.replace(/[\uD800-\uDBFF]$/, "")}…${last.replace(/^[\uDC00-\uDFFF]/, "")}`;
}

const whole = new Intl.NumberFormat("en");
export const count = (value) => whole.format(value);
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0)}%`;

export function number(value) {
  if (!Number.isFinite(value)) return "–";
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}

export function dot(colour) {
  const made = el("span", { class: "dot" });
  made.style.background = colour;
  return made;
}

/** A distribution as a bar of coloured parts. `q` are shares, not necessarily of sum 1. */
export function bar(q, colours, wide = false) {
  const made = el("span", { class: wide ? "bar wide" : "bar", "aria-hidden": "true" });
  let sum = 0;
  for (const share of q) sum += share;
  q.forEach((share, k) => {
    if (share <= 0.004 * sum) return;
    const part = el("span");
    part.style.width = `${(100 * share) / sum}%`;
    part.style.background = colours(k);
    made.append(part);
  });
  return made;
}
