// Three relevant items of one user, ranked together among one sample of negatives.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, count, short, steps, slider, choice, once, plot, scale, ticks, path, text, build,
    sentence, mark } = sm.ui;
  const METRICS = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"], ["ap", "AP"], ["auc", "AUC"]];
  const NAMES = ["first", "second", "third"], COLOURS = [4, 5, 6], R = NAMES.length;

  sm.widgets.several = (root) => {
    let ranks = [12, 60, 400], n = 1000, to = null, shown = null;
    const said = sentence();
    const dots = NAMES.map((name, i) => {
      const dot = el("g", { role: "slider", tabindex: 0, class: "sm-dot", "aria-valuemin": 1,
        "aria-orientation": "horizontal", "aria-label": `True rank of the ${name} item`,
        keydown: (event) => {
          const now = ranks[i], far = Math.max(1, Math.round(now / 10));
          const next = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1,
            PageDown: now - far, PageUp: now + far, Home: 1, End: n }[event.key];
          if (next === undefined) return;
          event.preventDefault();
          move(i, next);
        },
        pointerdown: (event) => {
          dot.setPointerCapture(event.pointerId);
          dot.focus();
          event.preventDefault();
        },
        pointermove: (event) => {
          if (!dot.hasPointerCapture(event.pointerId)) return;
          move(i, Math.round(to.back(event.clientX - strip.svg.getBoundingClientRect().left)));
        },
      }, el("circle", { r: 17, class: "sm-hit" }), mark(3, 0, 0, 7, { class: `sm-fill-${COLOURS[i]}` }),
      el("text", { x: 0, y: -13, "text-anchor": "middle", class: "sm-label" }, String(i + 1)));
      return dot;
    });
    const place = () => dots.forEach((dot, i) => {
      dot.setAttribute("transform", `translate(${to(ranks[i]).toFixed(1)} 36)`);
      dot.setAttribute("aria-valuenow", ranks[i]);
      dot.setAttribute("aria-valuemax", n);
      dot.setAttribute("aria-valuetext", `rank ${number(ranks[i])} of ${number(n)}`);
    });
    const strip = plot({
      height: 88,
      role: "group",
      label: "True ranks of the three relevant items, on a logarithmic axis",
      draw: (svg, width) => {
        to = scale(1, n, 16, width - 24, true);
        ticks(svg, { axis: "x", at: 54, length: 40, scale: to,
          values: [1, 10, 100, 1000, 10000].filter((v) => v <= n) });
        text(svg, width / 2, 86, `true rank, of ${number(n)}`, { "text-anchor": "middle", class: "sm-tick" });
        svg.append(el("line", { x1: 16, x2: width - 24, y1: 36, y2: 36, class: "sm-axis" }), ...dots);
        place();
      },
    });
    const histogram = plot({
      height: 214,
      label: "Distribution of the sampled rank of each item",
      draw: (svg, width) => {
        if (!shown) return;
        const { laws, m } = shown, likely = 1e-4;
        const last = Math.max(...laws.map(({ start, p }, i) =>
          i + 1 + start + p.findLastIndex((share) => share > likely)));
        const most = Math.max(...laws.flatMap(({ p }) => p)) * 1.1;
        const x = scale(1, Math.max(last, 10), 42, width - 16, true), y = scale(0, most, 172, 22);
        ticks(svg, { axis: "y", at: 42, length: width - 58, scale: y, values: [0, most / 2.2, most / 1.1],
          format: (v) => number(v, 2) });
        ticks(svg, { axis: "x", at: 172, scale: x,
          values: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].filter((v) => v <= Math.max(last, 10)) });
        text(svg, (42 + width) / 2, 208, `sampled rank, of ${number(m + R)}`,
          { "text-anchor": "middle", class: "sm-tick" });
        laws.forEach(({ start, p }, i) => {
          // Together the ranks start at i + 1; alone at 1.
          const points = (first) => p.map((share, j) => [x(first + start + j), y(share)])
            .filter(([, height], j) => p[j] > likely && height <= 172);
          const colour = COLOURS[i];
          if (i) svg.append(el("path", { d: path(points(1)), class: `sm-line-${colour} sm-dotted` }));
          svg.append(el("path", { d: path(points(i + 1)), class: `sm-line sm-line-${colour}` }),
            ...points(i + 1).map(([cx, cy]) => el("circle", { cx, cy, r: 2.6, class: `sm-fill-${colour}` })));
          const top = p.indexOf(Math.max(...p));
          text(svg, x(i + 1 + start + top), y(p[top]) - 8, String(i + 1),
            { "text-anchor": "middle", class: "sm-name" });
        });
      },
    });
    const cells = [...NAMES, "sum"].map(() => Array.from({ length: 4 }, () => el("td")));
    const table = el("table", { class: "sm-table" },
      el("thead", {}, el("tr", {}, ...["Item", "True rank", "Exact", "In a sample", "Alone"].map(
        (name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...cells.map((row, i) => el("tr", {},
        el("th", { scope: "row" }, i < R ? String(i + 1) : "Sum"), ...row))));
    const update = once(() => {
      const name = metric.value, m = negatives.value;
      const laws = ranks.map((rank, i) => sm.lawOfItem(rank, i + 1, R, n, m, false));
      const rows = ranks.map((rank, i) => [
        sm.term(name, rank, i + 1, R, n),
        sm.expectedTerm(name, rank, i + 1, R, n, m, false),
        // The same negatives above it, and no other relevant item in the list.
        sm.expected(name, rank - i, n - R + 1, m, false) / R,
      ]);
      const sums = [0, 1, 2].map((j) => rows.reduce((sum, row) => sum + row[j], 0));
      [...rows, sums].forEach((row, i) => [i < R ? number(ranks[i]) : "", ...row.map((v) => short(v, 3))]
        .forEach((content, j) => { cells[i][j].textContent = content; }));
      shown = { laws, m };
      const label = METRICS.find(([key]) => key === name)[1];
      const change = sums[1] - sums[2];
      said.textContent = `Exact ${label}: ${short(sums[0], 3)}. Expected with ${count(m, "negative")}: ` +
        `${short(sums[1], 3)}; if each item were ranked alone, ${short(sums[2], 3)}. Competition ` +
        (Math.abs(change) < 1e-9 ? "changes nothing here."
          : `${change > 0 ? "raises" : "lowers"} it by ${short(Math.abs(change))}.`);
      histogram.say(`Distribution of the sampled rank of each item. ${said.textContent}`);
      if (to) place();
      histogram.redraw();
    });
    // An item stays between its neighbours, so that the first is always the best.
    const move = (i, rank) => {
      const low = (ranks[i - 1] ?? 0) + 1, high = (ranks[i + 1] ?? n + 1) - 1;
      ranks[i] = Math.min(Math.max(rank, low), high);
      update();
    };
    const resize = (size) => {
      n = Number(size);
      ranks = ranks.map((rank, i) => Math.min(rank, n - R + 1 + i));
      strip.redraw();
      update();
    };
    const items = choice({ label: "Items n", options: [["200", "200"], ["1000", "1,000"], ["10000", "10,000"]],
      value: "1000", change: resize });
    const negatives = slider({ label: "Negatives m", values: steps(1, 197, 100, 60), value: 100, change: update });
    const metric = choice({ label: "Metric", options: METRICS, value: "ap", change: update });
    build(root, {
      title: "Three relevant items in one sample: drag their ranks",
      controls: [negatives, items, metric],
      body: [strip, histogram, table],
      said,
      note: "Solid: the probability of each sampled rank, all three items in one list. Dotted: each item alone " +
        "with the negatives; the items above it push it down by a place each. Move an item by dragging it, " +
        "or by the arrow keys (Page Up and Down: by a tenth). Negatives are drawn without replacement from " +
        "the items that are not relevant.",
    });
    update();
  };
})();
