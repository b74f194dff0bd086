// Three recommenders on a podium, as a sample of m negatives has it and as it is.
"use strict";

(() => {
  const sm = window.sampledMetrics;
  const { el, percent, number, steps, slider, choice, once, plot, text, build, sentence, mark } = sm.ui;

  sm.widgets.podium = (root) => {
    const data = sm.bundled();
    const names = Object.keys(data);
    const known = new Map();
    const values = (metric, m) => {
      const key = `${metric} ${m}`;
      if (!known.has(key)) {
        known.set(key, Object.fromEntries(names.map((k) => [k, sm.ofTied(metric, data[k], "mean", m)])));
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
          ranked.forEach((name, i) => {
            const x = left + wide * place[i], tall = [96, 70, 48][i], top = 180 - tall;
            svg.append(el("rect", { x: x + 2, y: top, width: wide - 4, height: tall, rx: 3,
              class: "sm-block" }));
            const middle = x + wide / 2;
            text(svg, middle, top + 22, `${i + 1}`, { "text-anchor": "middle", class: "sm-place" });
            text(svg, middle, 170, percent(now[name]), { "text-anchor": "middle", class: "sm-number" });
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
      sampled.set(reported, `With ${number(m)} negative${m === 1 ? "" : "s"}`);
      exact.set(truth, "Exact");
      const orders = [reported, truth].map((v) => sm.order(v));
      const [first] = orders[0], last = orders[1].at(-1);
      said.textContent = orders[0] === orders[1]
        ? `With ${number(m)} negatives the order in ${label} is right.`
        : new Set(Object.values(reported).map((v) => v.toFixed(9))).size === 1
          ? `With ${number(m)} negatives everyone has the same ${label}.`
          : first === last
            ? `With ${number(m)} negatives ${first} looks best; it is the worst of the three.`
            : `With ${number(m)} negatives the order is ${orders[0]}; the exact one is ${orders[1]}.`;
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
