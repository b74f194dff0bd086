// Type what a paper prints; see whether it can be, and what exact metrics it allows.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, outward, choice, plot, scale, ticks, text, build, sentence, mark } = sm.ui;
  const MOST = 100000;
  const ASSUMPTIONS = ["No assumption", "Decreasing at the top"];
  const METRICS = [["recall@1", "HR@1", "0.187"], ["recall@5", "HR@5", ""], ["recall@10", "HR@10", "0.470"],
    ["ndcg@5", "NDCG@5", ""], ["ndcg@10", "NDCG@10", "0.316"], ["mrr", "MRR", ""]];
  const TARGETS = [["recall@10", "HR@10"], ["ndcg@10", "NDCG@10"], ["mrr", "MRR"]];

  sm.widgets.table = (root) => {
    let found = null, running = 0;
    const said = sentence();
    const field = (label, value, mode) => {
      const input = el("input", { type: "text", inputmode: mode, value, autocomplete: "off",
        input: () => later() });
      const node = el("label", {}, label, input);
      return { node, input, get value() { return input.value.trim(); } };
    };
    const sizes = { n: field("Items n", "12,101", "numeric"), m: field("Negatives m", "99", "numeric"),
      users: field("Users", "22,363", "numeric") };
    const cells = METRICS.map(([name, label, value]) => ({ name, label, ...{ field: field(label, value, "decimal") } }));
    const law = choice({ label: "Replacement", options: [["without", "without"], ["with", "with"]],
      value: "without", change: () => later() });
    const rows = TARGETS.map(() => ASSUMPTIONS.map(() => el("td")));
    const table = el("table", { class: "sm-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Exact"),
        ...ASSUMPTIONS.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...TARGETS.map(([, label], i) => el("tr", {},
        el("th", { scope: "row" }, label), ...rows[i]))));
    const drawn = plot({
      height: 150,
      label: "Possible exact metrics",
      draw: (svg, width) => {
        const x = scale(0, 1, 70, width - 18);
        ticks(svg, { axis: "x", at: 124, length: 118, scale: x, values: [0, 0.25, 0.5, 0.75, 1],
          format: (v) => number(v, 2) });
        TARGETS.forEach(([key, label], i) => {
          const y = 22 + 40 * i;
          text(svg, 0, y + 5, label, { class: "sm-label" });
          (found?.bounds ?? []).forEach((bound, j) => {
            const pair = bound?.[key];
            if (!pair) return;
            const tall = [22, 10][j];
            svg.append(el("rect", { x: x(pair[0]), y: y - tall / 2, height: tall,
              width: Math.max(x(pair[1]) - x(pair[0]), 2), class: `sm-assumption-${j}` }));
          });
          const cell = cells.find(({ name }) => name === key).field.value;
          const value = cell && sm.printed(cell);
          if (value) svg.append(mark(1, x(value[0]), y, 5, { class: "sm-exact-dot" }));
        });
      },
    });
    const whole = ({ value }, low, high, what) => {
      const given = Number(value.replaceAll(",", ""));
      if (!Number.isInteger(given) || given < low || given > high) {
        throw new Error(`${what} must be a whole number from ${number(low)} to ${number(high)}.`);
      }
      return given;
    };
    const read = () => {
      const n = whole(sizes.n, 3, MOST, "Items n");
      const m = whole(sizes.m, 1, Math.min(n - 1, 2000), "Negatives m");
      const users = whole(sizes.users, 1, 1e9, "Users");
      const given = {};
      for (const { name, label, field: { value } } of cells) {
        if (!value) continue;
        if (!sm.printed(value)) throw new Error(`${label} must be as printed, such as 0.250 or 25.0%.`);
        given[name] = value;
      }
      if (!Object.keys(given).length) throw new Error("Type one printed metric or more.");
      return { n, m, users, replacement: law.value === "with", cells: given,
        targets: TARGETS.map(([key]) => key) };
    };
    const show = () => {
      const { together, bounds } = found;
      rows.forEach((row, i) => row.forEach((cell, j) => {
        const pair = bounds[j]?.[TARGETS[i][0]];
        cell.textContent = pair ? outward(pair, 3).join("–") : "none";
      }));
      said.textContent = !together
        ? "Not plausible: no list of sampled ranks has these averages at once."
        : !bounds[0]
          ? "Not plausible: no recommender’s true ranks lead to these averages, chance allowed for."
          : !bounds[1]
            ? "Possible, but not if near the top deeper ranks have fewer users."
            : `Plausible. With all items ranked, HR@10 would lie between ` +
              `${outward(bounds[0]["recall@10"], 3).join(" and ")} (95% confidence, whatever the ranks).`;
      drawn.say(said.textContent);
      drawn.redraw();
    };
    let waiting = 0;
    const work = (stage, mine) => {
      if (mine !== running) return;
      const { done, value } = stage.next();
      if (!done) { setTimeout(work, 0, stage, mine); return; }
      found = value;
      show();
    };
    const later = () => {
      clearTimeout(waiting);
      running += 1;
      waiting = setTimeout(() => {
        try {
          const given = read();
          said.textContent = "Calculating …";
          setTimeout(work, 0, sm.stages(given), running);
        } catch (problem) {
          said.textContent = problem.message;
        }
      }, 250);
    };
    build(root, {
      title: "Type what the paper prints",
      controls: [
        el("div", { class: "sm-fields" }, ...Object.values(sizes).map((f) => f.node)),
        law,
        el("div", { class: "sm-fields" }, ...cells.map((c) => c.field.node)),
      ],
      body: [said, drawn, el("div", { class: "sm-scroll", tabindex: 0, role: "region",
        "aria-label": "Bounds" }, table)],
      note: "One relevant item for each user, negatives drawn uniformly. Square: printed; wide bar: what " +
        "exact metrics are possible with no assumption on the ranks; narrower: if near the top deeper ranks " +
        "have fewer users. All ranges allow for rounding, and for chance at 95% confidence.",
    });
    later();
  };
})();
