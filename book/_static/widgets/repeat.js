// One sampled evaluation after another: how often does it name the best recommender?
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, number, count, percent, slider, choice, button, once, plot, scale, ticks, text, build,
    sentence, mark } = sm.ui;
  const METRICS = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"], ["ap", "AP"]];
  const WAYS = [["naive", "none"], ["corrected", "bias-variance"]];
  const NEGATIVES = [10, 20, 30, 50, 70, 100, 150, 200, 300];
  const USERS = [100, 200, 500, 1000, 2000, 4000];

  sm.widgets.repeat = (root) => {
    const data = sm.bundled(), names = Object.keys(data), everyone = data.X.n.length;
    const order = sm.shuffled(everyone, 7), random = sm.generator(11);
    const items = Math.round(data.X.n.reduce((sum, n) => sum + n, 0) / everyone);
    const kept = new Map();
    const keep = (key, make) => {
      if (!kept.has(key)) kept.set(key, make());
      return kept.get(key);
    };
    // The laws of one number of negatives at a time: there are 18,120 of them.
    let every = { m: null };
    const lawsOf = (m) => {
      if (every.m !== m) {
        every = { m, laws: names.map((name) => sm.laws(sm.some(data[name], order), m)) };
      }
      return every.laws;
    };
    let now = null, runs = 0, right = 0, past = [], task = 0;
    const settings = () => {
      const name = metric.value, m = negatives.value, size = users.value;
      const laws = lawsOf(m).map((each) => each.slice(0, size));
      const values = way.value === "naive" ? sm.naive(name, m)
        : sm.biasVariance(keep(`${name} ${m}`, () => sm.system(name, items, m, true)), 1 / Math.sqrt(size));
      const places = order.slice(0, size);
      const exact = names.map((k) => keep(`${name} ${size} ${k}`,
        () => sm.ofTied(name, sm.some(data[k], places), "mean")));
      const best = exact.indexOf(Math.max(...exact));
      const theory = laws.map((each) => sm.expectedAverage(each, values));
      return { laws, values, exact, best, theory, size, m,
        label: METRICS.find(([key]) => key === name)[1],
        probability: sm.probabilityOfWin(theory, best) };
    };
    const said = sentence();
    const drawn = plot({
      height: 236,
      label: "Estimates of each recommender",
      draw: (svg, width) => {
        if (!now || !past.length) return;
        const { exact, theory } = now, last = past.at(-1);
        const low = Math.min(...exact, ...theory.map((t) => t.mean - 4 * t.sd),
          ...last.map((e) => e.mean - 1.96 * e.error));
        const high = Math.max(...exact, ...theory.map((t) => t.mean + 4 * t.sd),
          ...last.map((e) => e.mean + 1.96 * e.error));
        const room = 0.04 * (high - low), x = scale(low - room, high + room, 26, width - 12);
        const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2].find(
          (s) => (high - low + 2 * room) / s <= width / 70) ?? 0.5;
        const values = [];
        for (let v = Math.ceil((low - room) / step) * step; v <= high + room; v += step) values.push(v);
        ticks(svg, { axis: "x", at: 208, length: 208, scale: x, values,
          format: (v) => percent(v, step < 0.01 ? 1 : 0).replace("\u22120%", "0%") });
        names.forEach((name, i) => {
          const y = 26 + 66 * i, { mean, error } = last[i];
          text(svg, 2, y + 6, name, { class: "sm-name" });
          svg.append(el("path", { class: `sm-line-${i + 1} sm-past`,
            d: past.slice(0, -1).map((e) => `M${x(e[i].mean).toFixed(1)} ${y - 11}v22`).join("") || "M0 0" }));
          svg.append(
            el("line", { x1: x(mean - 1.96 * error), x2: x(mean + 1.96 * error), y1: y, y2: y,
              class: `sm-line sm-line-${i + 1}` }),
            mark(i, x(mean), y, 7),
            el("line", { x1: x(exact[i]), x2: x(exact[i]), y1: y - 16, y2: y + 16, class: "sm-exact" }),
          );
          text(svg, 26, y + 33, `estimate ${percent(mean)}, exact ${percent(exact[i])}`, { class: "sm-label" });
        });
      },
    });
    const tally = plot({
      height: 58,
      label: "Share of evaluations that name the best recommender",
      draw: (svg, width) => {
        if (!now || !runs) return;
        const x = scale(0, 1, 26, width - 26);
        ticks(svg, { axis: "x", at: 36, length: 28, scale: x, values: [0, 0.25, 0.5, 0.75, 1],
          format: (v) => percent(v, 0) });
        svg.append(
          el("rect", { x: x(0), y: 10, width: x(1) - x(0), height: 16, class: "sm-block" }),
          el("rect", { x: x(0), y: 10, width: x(right / runs) - x(0), height: 16, class: "sm-share" }),
          el("line", { x1: x(now.probability), x2: x(now.probability), y1: 3, y2: 33, class: "sm-exact" }),
        );
      },
    });
    const draw = () => {
      const estimates = now.laws.map((each) => sm.evaluation(each, now.values, random));
      past = [...past.slice(-99), estimates];
      runs += 1;
      right += sm.shareOfWin(estimates.map((e) => e.mean), now.best);
    };
    const show = once(() => {
      if (!now) return;
      const { best, m, size, label, probability } = now;
      const means = past.at(-1).map((e) => e.mean), most = Math.max(...means);
      const first = names.filter((_, i) => means[i] === most);
      const chance = probability > 0.999 ? "above 99.9%" : probability < 0.001 ? "below 0.1%" : percent(probability);
      said.textContent = `${first.join(" and ")} ${first.length > 1 ? "tie" : "wins"} on ${label} (${count(m, "negative")}, ` +
        `${count(size, "user")}, ${way.value === "naive" ? "no correction" : "bias-variance"}); ` +
        `the best is ${names[best]}. Right so far: ${number(right, Number.isInteger(right) ? 0 : 1)} of ` +
        `${count(runs, "evaluation")} (${percent(right / runs, 0)}). In theory: ${chance}.`;
      drawn.say(`${label} of ${count(size, "user")} with ${count(m, "negative")}: ${names.map((k, i) =>
        `${k} ${percent(means[i])}`).join(", ")}`);
      tally.say(`Right so far ${percent(right / runs, 0)}; in theory ${chance}`);
      drawn.redraw();
      tally.redraw();
    });
    const restart = () => {
      task += 1;
      [now, runs, right, past] = [settings(), 0, 0, []];
      draw();
      show();
    };
    const many = (left, mine = (task += 1)) => {
      if (mine !== task) return; // something else was chosen meanwhile
      const until = performance.now() + 12;
      for (; left && performance.now() < until; left -= 1) draw();
      show();
      if (left) setTimeout(many, 0, left, mine);
    };
    const again = button("Sample again", () => { draw(); show(); });
    // Held down, it goes on.
    let held = 0;
    const goOn = () => { draw(); show(); held = setTimeout(goOn, 60); };
    again.addEventListener("pointerdown", () => { clearTimeout(held); held = setTimeout(goOn, 400); });
    ["pointerup", "pointerleave", "pointercancel", "blur"].forEach((event) =>
      again.addEventListener(event, () => clearTimeout(held)));
    const later = once(restart);
    const negatives = slider({ label: "Negatives m", values: NEGATIVES, value: 100, change: later });
    const users = slider({ label: "Users N", values: [...USERS, everyone], value: everyone, change: later });
    const metric = choice({ label: "Metric", options: METRICS, value: "recall@10", change: later });
    const way = choice({ label: "Correction", options: WAYS, value: "corrected", change: later });
    build(root, {
      title: "Repeat the evaluation: how often does the best win?",
      controls: [negatives, users, metric, way, el("div", { class: "sm-buttons" },
        again, button("Sample 100 times", () => many(100)), button("Start again", restart))],
      body: [drawn, tally],
      said,
      note: "Recommenders X, Y and Z on MovieLens 1M. Each evaluation draws new negatives, without replacement, " +
        "for the same users. Marks: the estimates, with 95% intervals from the spread over users; faint: " +
        "earlier evaluations; upright lines: exact metrics. Bar: the share of evaluations that the best " +
        "recommender wins, ties shared, and its probability (upright line). Bias-variance: γ = 1/√N.",
    });
    restart();
  };
})();
