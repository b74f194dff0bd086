// Five ranks of each of three recommenders to drag; exact and expected sampled metrics beside them.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, count, short, steps, slider, choice, button, once, plot, scale, ticks, text, build,
    sentence, mark } = sm.ui;
  const N = 10000;
  const PAPER = { A: [100, 100, 100, 100, 100], B: [40, 40, 8437, 9266, 4482],
    C: [212, 2, 743, 5342, 1548] };
  const LABELS = [["ap", "AP"], ["ndcg", "NDCG"], ["recall@10", "Recall@10"], ["auc", "AUC"]];

  sm.widgets.reversal = (root) => {
    const names = Object.keys(PAPER);
    let ranks = structuredClone(PAPER), seed = 1;
    const cells = Object.fromEntries(names.map((k) => [k, [el("td"), el("td")]]));
    const orders = [el("td"), el("td")];
    const said = sentence();
    let to = null;

    const dots = names.map((name, lane) => ranks[name].map((_, i) => {
      const title = el("title");
      const dot = el("g", { role: "slider", tabindex: 0, class: "sm-dot", "aria-valuemin": 1,
        "aria-valuemax": N, "aria-orientation": "horizontal",
        "aria-label": `Recommender ${name}, user ${i + 1}: rank`,
        keydown: (event) => {
          const now = ranks[name][i], far = Math.max(1, Math.round(now / 10));
          const next = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1,
            ArrowUp: now + 1, PageDown: now - far, PageUp: now + far, Home: 1, End: N }[event.key];
          if (next === undefined) return;
          event.preventDefault();
          move(name, i, next);
        },
        pointerdown: (event) => {
          dot.setPointerCapture(event.pointerId);
          dot.focus();
          event.preventDefault();
        },
        pointermove: (event) => {
          if (!dot.hasPointerCapture(event.pointerId)) return;
          const box = drawn.svg.getBoundingClientRect();
          move(name, i, Math.round(to.back(event.clientX - box.left)));
        },
      }, el("circle", { r: 17, class: "sm-hit" }), mark(lane, 0, 0, 7, { class: "sm-fill-6" }), title);
      return dot;
    }));
    const place = () => {
      names.forEach((name, lane) => ranks[name].forEach((r, i) => {
        const same = ranks[name].slice(0, i).filter((other) => Math.abs(to(other) - to(r)) < 9).length;
        const dot = dots[lane][i];
        dot.setAttribute("transform", `translate(${to(r).toFixed(1)} ${46 + 62 * lane - 9 * same})`);
        dot.setAttribute("aria-valuenow", r);
        dot.setAttribute("aria-valuetext", `rank ${number(r)} of ${number(N)}`);
        dot.lastChild.textContent = `rank ${number(r)}`;
      }));
    };
    const drawn = plot({
      height: 236,
      role: "group",
      label: "True ranks of five users under each recommender, on a logarithmic axis",
      draw: (svg, width) => {
        to = scale(1, N, 30, width - 24, true);
        ticks(svg, { axis: "x", at: 202, length: 202, scale: to, values: [1, 10, 100, 1000, 10000] });
        text(svg, (30 + width) / 2, 234, "true rank", { "text-anchor": "middle", class: "sm-tick" });
        names.forEach((name, lane) => {
          const y = 46 + 62 * lane;
          svg.append(el("line", { x1: 30, x2: width - 24, y1: y, y2: y, class: "sm-axis" }));
          text(svg, 2, y + 5, name, { class: "sm-name" });
        });
        svg.append(...dots.flat());
        place();
      },
    });

    const update = once(() => {
      if (to) place();
      const m = negatives.value, name = metric.value;
      const label = LABELS.find(([key]) => key === name)[1];
      const found = names.map((k) => sm.averages(name, ranks[k], N, m, true));
      const both = [0, 1].map((i) => Object.fromEntries(names.map((k, j) => [k, found[j][i]])));
      names.forEach((k) => cells[k].forEach((cell, i) => { cell.textContent = short(both[i][k], 3); }));
      both.forEach((values, i) => { orders[i].textContent = sm.order(values); });
      const turned = [];
      names.forEach((one, i) => names.slice(i + 1).forEach((two) => {
        const apart = both.map((v) => v[one] - v[two]);
        const far = both.every((v, j) => Math.abs(apart[j]) > 1e-12 * Math.max(v[one], v[two]));
        if (far && apart[0] * apart[1] < 0) turned.push(apart[0] > 0 ? [one, two] : [two, one]);
      }));
      said.textContent = turned.length
        ? `Reversed in ${label} by ${count(m, "negative")}: ` +
          `${turned.map(([a, b]) => `${a} beats ${b}, but looks worse`).join("; ")}.`
        : `No pair is reversed in ${label}.`;
    });
    const move = (name, i, rank) => {
      ranks[name][i] = Math.min(Math.max(rank, 1), N);
      update();
    };
    const find = () => {
      const found = sm.reversal(metric.value, N, negatives.value, true, sm.generator(seed++));
      if (!found) {
        said.textContent = metric.value === "auc"
          ? "There is none: the expectation of sampled AUC is the exact AUC, whatever the ranks."
          : "None found in 3,000 pairs of recommenders: everyone's sampled metric is nearly the same.";
        return;
      }
      ranks = { ...ranks, A: found.better, B: found.worse };
      update();
    };
    const negatives = slider({ label: "Negatives m", values: steps(1, 5000, 99), value: 99,
      change: update });
    const metric = choice({ label: "Metric", options: LABELS, value: "ap", change: update });
    const table = el("table", { class: "sm-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Recommender"),
        el("th", { scope: "col" }, "Exact"), el("th", { scope: "col" }, "In a sample"))),
      el("tbody", {}, ...names.map((k) => el("tr", {}, el("th", { scope: "row" }, k), ...cells[k])),
        el("tr", {}, el("th", { scope: "row" }, "Order"), ...orders)));
    build(root, {
      title: "Drag the ranks; look for a reversal",
      controls: [negatives, metric, el("div", { class: "sm-buttons" },
        button("Find a reversal", find),
        button("The paper’s ranks", () => { ranks = structuredClone(PAPER); update(); }))],
      body: [drawn, table],
      said,
      note: "Each mark is a user: drag it, or move it by the arrow keys (Page Up and Down: by a " +
        `tenth). ${number(N)} items; in a sample: expected, with replacement.`,
    });
    update();
  };
})();
