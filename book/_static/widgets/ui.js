// What the widgets are made of: elements, sliders, choices, and plots that follow their width.
"use strict";

(() => {
  const SVG = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "tspan", "title"]);

  /** An element of HTML or SVG with its attributes and children; functions become listeners. */
  const el = (tag, attributes = {}, ...children) => {
    const made = SVG.has(tag)
      ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(key, value);
      else if (value !== null && value !== undefined && value !== false) {
        made.setAttribute(key, value === true ? "" : value);
      }
    }
    made.append(...children);
    return made;
  };

  const number = (value, digits = 0) =>
    value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
      .replace("-", "\u2212");
  /** A number with its noun: 1 negative, 2 negatives. */
  const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const percent = (value, digits = 1) => `${number(100 * value, digits)}%`;
  /** Both ends of a range as text, rounded outwards, in percent if that is the unit. */
  const outward = ([low, high], digits, unit = "") => {
    const scale = 10 ** digits;
    const end = (value, way) => {
      const scaled = scale * (unit === "%" ? 100 * value : value), whole = Math.round(scaled);
      // An end that rounding alone keeps from a number with so many digits is that number.
      const near = Math.abs(scaled - whole) <= 1e-9 * Math.max(1, Math.abs(scaled));
      return `${number((near ? whole : way(scaled)) / scale + 0, digits)}${unit}`;
    };
    return [end(low, Math.floor), end(high, Math.ceil)];
  };
  /** So many digits that count, and powers of ten as such. */
  const short = (value, digits = 2) => {
    if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5)) {
      const after = digits - 1 - Math.floor(Math.log10(Math.abs(value) || 1));
      return number(value, Math.min(Math.max(after, 0), 6));
    }
    const [base, power] = value.toExponential(digits - 1).split("e");
    const raised = [...String(Number(power))].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    return `${base} · 10${raised.join("")}`.replace("-", "\u2212");
  };

  /** Whole numbers from low to high, about as many to each factor, and one that must be there. */
  const steps = (low, high, also, count = 120) => {
    const all = Array.from({ length: count + 1 },
      (_, i) => Math.round(low * (high / low) ** (i / count)));
    return [...new Set([...all, also])].sort((a, b) => a - b);
  };

  let names = 0;
  const identifier = () => `sm-${(names += 1)}`;

  /** A labelled slider over a list of values. */
  const slider = ({ label, values, value, format = (v) => number(v), change }) => {
    const id = identifier();
    const input = el("input", { type: "range", id, min: 0, max: values.length - 1, step: 1 });
    const said = el("output", { for: id });
    const show = () => {
      const text = format(values[input.value]);
      said.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    const set = (wanted) => {
      const off = values.map((v) => Math.abs(v - wanted));
      input.value = off.indexOf(Math.min(...off));
      show();
    };
    set(value);
    input.addEventListener("input", () => { show(); change(values[input.value]); });
    const node = el("div", { class: "sm-slider" }, el("label", { for: id }, label), input, said);
    return { node, set, get value() { return values[input.value]; } };
  };

  /** One of a few options, as a row of buttons. */
  const choice = ({ label, options, value, change }) => {
    const group = identifier();
    const node = el("fieldset", { class: "sm-choice" }, el("legend", {}, label));
    const row = el("div", {});
    for (const [key, text] of options) {
      const id = identifier();
      row.append(
        el("input", { type: "radio", name: group, id, value: key, checked: key === value,
          change: () => { state.value = key; change(key); } }),
        el("label", { for: id }, text),
      );
    }
    node.append(row);
    const state = { node, value };
    return state;
  };

  const button = (text, click) => el("button", { type: "button", class: "sm-button", click }, text);

  /** Run at most once a frame, with the last arguments. */
  const once = (run) => {
    let waiting = false;
    return () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; run(); });
    };
  };

  /** A drawing that is made anew when its width changes: draw(svg, width) fills an empty svg. */
  const plot = ({ height, label, role = "img", draw }) => {
    const svg = el("svg", { role, "aria-label": label, class: "sm-plot" });
    const node = el("div", { class: "sm-canvas" }, svg);
    let width = 0;
    const redraw = () => {
      if (!width) return;
      const tall = typeof height === "function" ? height(width) : height;
      svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
      svg.setAttribute("width", width);
      svg.setAttribute("height", tall);
      svg.replaceChildren();
      draw(svg, width, tall);
    };
    new ResizeObserver(([entry]) => {
      const now = Math.floor(entry.contentRect.width);
      if (now !== width) { width = now; redraw(); }
    }).observe(node);
    return { node, svg, redraw, say: (text) => svg.setAttribute("aria-label", text) };
  };

  /** A scale from an interval to pixels. */
  const scale = (low, high, from, to, log = false) => {
    const f = log ? Math.log : (v) => v;
    const at = (v) => from + ((f(v) - f(low)) / (f(high) - f(low))) * (to - from);
    at.back = (pixel) => {
      const v = f(low) + ((pixel - from) / (to - from)) * (f(high) - f(low));
      return log ? Math.exp(v) : v;
    };
    return at;
  };

  /** Ticks with their texts, below (axis "x", at y) or to the left (axis "y", at x). */
  const ticks = (svg, { axis, at, scale: to, values, format = (v) => number(v), length = 0 }) => {
    for (const v of values) {
      const p = to(v);
      if (axis === "x") {
        svg.append(
          el("line", { x1: p, x2: p, y1: at - length, y2: at, class: "sm-grid" }),
          el("text", { x: p, y: at + 17, "text-anchor": "middle", class: "sm-tick" }, format(v)),
        );
      } else {
        svg.append(
          el("line", { x1: at, x2: at + length, y1: p, y2: p, class: "sm-grid" }),
          el("text", { x: at - 6, y: p + 4, "text-anchor": "end", class: "sm-tick" }, format(v)),
        );
      }
    }
  };

  const path = (points) => points
    .map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  const text = (svg, x, y, said, more = {}) => {
    svg.append(el("text", { x, y, ...more }, said));
  };

  /** Fill a widget: a title, controls, what is drawn, and a sentence that says what it shows. */
  const build = (root, { title, controls = [], body = [], said, note }) => {
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", title);
    root.replaceChildren(
      el("p", { class: "sm-title" }, title),
      el("div", { class: "sm-controls" }, ...controls.map((c) => c.node ?? c)),
      ...body.map((b) => b.node ?? b),
      ...(said ? [said] : []),
      ...(note ? [el("p", { class: "sm-note" }, note)] : []),
    );
  };

  const sentence = () => el("p", { class: "sm-said", "aria-live": "polite" });

  /** The mark of the i-th thing compared: circle, square, triangle, diamond as in the figures. */
  const mark = (i, x, y, size = 6, more = {}) => {
    const s = size;
    const shape = [
      `M${x - s} ${y}a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0Z`,
      `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}Z`,
      `M${x} ${y - 1.2 * s}L${x + 1.2 * s} ${y + s}H${x - 1.2 * s}Z`,
      `M${x} ${y - 1.3 * s}L${x + 1.3 * s} ${y}L${x} ${y + 1.3 * s}L${x - 1.3 * s} ${y}Z`,
    ][i];
    return el("path", { d: shape, class: `sm-fill-${i + 1}`, ...more });
  };

  window.sampledMetrics.ui = {
    el, number, count, percent, outward, short, steps, slider, choice, button, once, plot, scale, ticks, path, text,
    build, sentence, mark,
  };
})();
