// Three recommenders on a podium: in expectation over a sample of m negatives, and exactly.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, percent, count, steps, slider, choice, once, plot, text, build, sentence, mark } = sm.ui;

  sm.widgets.podium = (root) => {
    const data = sm.bundled();
    const names = Object.keys(data);
    const known = new Map();
    const values = (metric, m) => {
      const key = `${metric} ${m}`;
      if (!known.has(key)) {
        // Sums over thousands of users are right to nine decimals: a tie stays a tie.
        known.set(key, Object.fromEntries(names.map((k) =>
          [k, Math.round(1e9 * sm.ofTied(metric, data[k], "mean", m)) / 1e9])));
      }
      return known.get(key);
    };
    const stand = (title) => {
      let now = {};
      const drawn = plot({
        height: 184,
        label: title,
        draw: (svg, width) => {
          const ranked = Object.keys(now).sort((a, b) => now[b] - now[a]);
          if (!ranked.length) return;
          const place = [1, 0, 2], wide = Math.min(width / 3, 110), left = (width - 3 * wide) / 2;
          const distinct = new Set(ranked.map((name) => now[name])).size;
          let digits = 1; // as many as tell different values apart
          while (digits < 6 && new Set(ranked.map((name) => percent(now[name], digits))).size < distinct) {
            digits += 1;
          }
          ranked.forEach((name, i) => {
            const level = ranked.findIndex((other) => now[other] === now[name]); // tied ones share a step
            const x = left + wide * place[i], tall = [96, 70, 48][level], top = 180 - tall;
            svg.append(el("rect", { x: x + 2, y: top, width: wide - 4, height: tall, rx: 3,
              class: "sm-block" }));
            const middle = x + wide / 2;
            text(svg, middle, top + 22, `${level + 1}`, { "text-anchor": "middle", class: "sm-place" });
            text(svg, middle, 170, percent(now[name], digits), { "text-anchor": "middle", class: "sm-number" });
            svg.append(mark(names.indexOf(name), middle, top - 17, 11));
            text(svg, middle, top - 36, name, { "text-anchor": "middle", class: "sm-name" });
          });
        },
      });
      const head = el("p", { class: "sm-head" }, title);
      const set = (found, words) => {
        now = found;
        head.textContent = words;
        drawn.say(`${words}: ${sm.order(found)}`);
        drawn.redraw();
      };
      return { node: el("div", {}, head, drawn.node), set };
    };
    const sampled = stand("Reported"), exact = stand("Exact");
    const said = sentence();
    const update = once(() => {
      const m = negatives.value, name = metric.value;
      const reported = values(name, m), truth = values(name, null);
      const label = labels.find(([key]) => key === name)[1];
      sampled.set(reported, `With ${count(m, "negative")}`);
      exact.set(truth, "Exact");
      const orders = [reported, truth].map((v) => sm.order(v));
      const [first, next] = [...names].sort((a, b) => reported[b] - reported[a]);
      const leads = reported[first] > reported[next];
      const drawn = `With ${count(m, "negative")}`;
      said.textContent = orders[0] === orders[1]
        ? `${drawn} the order in ${label} is right.`
        : new Set(Object.values(reported)).size === 1
          ? `${drawn} all three tie: each has a ${label} of ${percent(reported[first])}, ` +
            "whoever is best."
          : leads && first === orders[1].at(-1)
            ? `${drawn} ${first} looks best; it is the worst of the three.`
            : `${drawn} the order is ${orders[0]}; the exact one is ${orders[1]}.`;
    });
    const labels = [["recall@10", "Recall@10"], ["ndcg@10", "NDCG@10"], ["auc", "AUC"]];
    const negatives = slider({ label: "Negatives m", values: steps(1, Math.min(...data.X.n) - 1, 100),
      value: 100, change: update });
    const metric = choice({ label: "Metric", options: labels, value: "recall@10", change: update });
    build(root, {
      title: "Who wins? Move the number of negatives",
      controls: [negatives, metric],
      body: [el("div", { class: "sm-two" }, sampled.node, exact.node)],
      said,
      note: "Recommenders X, Y and Z on MovieLens 1M, in expectation over negatives drawn without " +
        "replacement; ties broken at random.",
    });
    update();
  };
})();
