// What printed averages allow: linear programmes over all distributions of the true rank, solved on
// some ranks, which grow until the dual's bound holds on all. The package's module on published
// tables has the same programmes.
"use strict";

(() => {
  const sm = window.sampledMetrics;

  /** Solve A x = b (rows of A) by elimination with row exchanges. */
  function solved(A, b) {
    const size = b.length, M = A.map((row, i) => Float64Array.from([...row, b[i]]));
    for (let j = 0; j < size; j++) {
      let at = j;
      for (let i = j + 1; i < size; i++) if (Math.abs(M[i][j]) > Math.abs(M[at][j])) at = i;
      [M[j], M[at]] = [M[at], M[j]];
      for (let i = j + 1; i < size; i++) {
        const factor = M[i][j] / M[j][j];
        if (factor) for (let k = j; k <= size; k++) M[i][k] -= factor * M[j][k];
      }
    }
    const x = new Float64Array(size);
    for (let i = size - 1; i >= 0; i--) {
      let sum = M[i][size];
      for (let k = i + 1; k < size; k++) sum -= M[i][k] * x[k];
      x[i] = sum / M[i][i];
    }
    return x;
  }

  /**
   * The simplex method for variables between ends: least cost with sum of columns x = right. It
   * starts from one more variable for each row, which come first, or from what it returned for fewer
   * columns or another cost. Each column is an array of a row's entries. Returns the prices of the
   * rows, and whether the rows can be met.
   */
  function simplex(columns, cost, low, high, right, from) {
    const rows = right.length;
    const ends = low.map((l) => (Number.isFinite(l) ? l : 0));
    const rest = right.map((r, i) => r - columns.reduce((sum, a, j) => sum + a[i] * ends[j], 0));
    columns = [...rest.map((r, i) => rest.map((_, k) => (i === k ? (r < 0 ? -1 : 1) : 0))), ...columns];
    low = [...rest.map(() => 0), ...low];
    high = [...rest.map(() => (from ? 0 : Infinity)), ...high];
    const basis = from ? from.basis : rest.map((_, i) => i);
    const value = from ? [...from.value, ...low.slice(from.value.length)] : [...rest.map(Math.abs), ...ends];
    const within = (all) => basis.map((_, i) => basis.map((j) => all[j][i]));
    let prices = null;
    const run = (worth) => {
      const basic = new Set(basis);
      for (let step = 0; step < 2000; step++) {
        const B = within(columns);
        const turned = basis.map((j) => columns[j]);
        prices = solved(turned, basis.map((j) => worth[j]));
        let enter = -1, most = 1e-11;
        for (let j = 0; j < columns.length; j++) {
          if (basic.has(j) || high[j] === low[j]) continue;
          let reduced = worth[j];
          for (let i = 0; i < rows; i++) reduced -= prices[i] * columns[j][i];
          const gain = value[j] > low[j] ? reduced : -reduced;
          if (gain > most) { enter = j; most = step > 400 ? Infinity : gain; } // at last: the first
        }
        if (enter < 0) return;
        const sign = value[enter] > low[enter] ? -1 : 1;
        const move = solved(B, columns[enter]);
        let far = high[enter] - low[enter], leave = -1, pivot = 0;
        for (let i = 0; i < rows; i++) {
          const by = sign * move[i], j = basis[i];
          if (Math.abs(by) < 1e-12) continue;
          const room = Math.max(by > 0 ? value[j] - low[j] : high[j] - value[j], 0) / Math.abs(by);
          if (room < far - 1e-13 || (room < far + 1e-13 && leave >= 0 && Math.abs(by) > pivot)) {
            [far, leave, pivot] = [Math.min(room, far), i, Math.abs(by)];
          }
        }
        if (!Number.isFinite(far)) return;
        value[enter] += sign * far;
        for (let i = 0; i < rows; i++) value[basis[i]] -= sign * far * move[i];
        if (leave < 0) {
          value[enter] = sign > 0 ? high[enter] : low[enter];
          continue;
        }
        const out = basis[leave];
        value[out] = sign * move[leave] > 0 ? low[out] : high[out];
        basic.delete(out);
        basic.add(enter);
        basis[leave] = enter;
        // What rounding has moved is put right: the basis meets the rows.
        const now = Float64Array.from(right);
        for (let j = 0; j < columns.length; j++) {
          if (value[j] === 0 || basic.has(j)) continue;
          for (let i = 0; i < rows; i++) now[i] -= columns[j][i] * value[j];
        }
        solved(within(columns), now).forEach((v, i) => { value[basis[i]] = v; });
      }
    };
    if (!from) {
      run([...rest.map(() => 1), ...cost.map(() => 0)]);
      const short = rest.reduce((sum, _, i) => sum + Math.max(value[i], 0), 0);
      if (short > 1e-9) return { met: false, prices };
      high.fill(0, 0, rows);
    }
    run([...rest.map(() => 0), ...cost]);
    return { met: true, prices, from: { basis, value } };
  }

  /** Programmes over mixtures of columns: rows of values at all of them, each between two ends. */
  class Programme {
    constructor(rows, low, high, chosen) {
      Object.assign(this, { rows, low, high, chosen: new Set(chosen), size: rows[0].length });
    }

    /** The least mean of a target, or Infinity if no mixture is between the ends. */
    least(target) {
      const { rows, low, high, size } = this, c = rows.length;
      if (low.some((l, i) => l > high[i])) return Infinity;
      let best = -Infinity;
      for (let round = 0; round < 60; round++) {
        const at = [...this.chosen];
        const columns = [
          ...rows.map((_, i) => [...rows.map((_, k) => (i === k ? -1 : 0)), 0]),
          ...at.map((j) => [...rows.map((row) => row[j]), 1]),
        ];
        const found = simplex(
          columns, [...rows.map(() => 0), ...at.map((j) => target[j])],
          [...low, ...at.map(() => 0)], [...high, ...at.map(() => Infinity)],
          [...rows.map(() => 0), 1], this.from,
        );
        this.from = found.from;
        const y = Array.from(found.prices).slice(0, c)
          .map((v, i) => (high[i] === Infinity ? Math.max(v, 0) : v));
        const reduced = found.met ? Float64Array.from(target) : new Float64Array(size);
        rows.forEach((row, i) => {
          const price = y[i];
          if (price) for (let j = 0; j < size; j++) reduced[j] -= price * row[j];
        });
        const floor = reduced.reduce((a, b) => Math.min(a, b), Infinity);
        const worth = y.reduce((sum, v, i) => sum + (v > 0 ? v * low[i] : v ? v * high[i] : 0), 0);
        if (!found.met && worth + floor > 1e-10) return Infinity; // the dual proves it
        if (found.met) best = Math.max(best, worth + floor);
        const used = at.reduce((least, j) => Math.min(least, reduced[j]), Infinity);
        if (floor >= used - 1e-12) return found.met ? best : Infinity;
        const wells = [];
        for (let j = 0; j < size; j++) {
          if (reduced[j] < used - 1e-12 && !(reduced[j - 1] < reduced[j]) && !(reduced[j + 1] < reduced[j])) {
            wells.push(j);
          }
        }
        wells.sort((a, b) => reduced[a] - reduced[b]);
        const before = this.chosen.size;
        for (const j of wells.slice(0, 8)) {
          for (const near of [j - 1, j, j + 1]) if (near >= 0 && near < size) this.chosen.add(near);
        }
        if (this.chosen.size === before) break;
      }
      return best;
    }
  }

  /** A printed number and half a unit of its last digit: "0.250", ".25", "25.0%"; null if none. */
  function printed(text) {
    const found = /^(\d*)(?:\.(\d*))?\s*(%?)$/.exec(text.trim());
    if (!found || !(found[1] || found[2])) return null;
    const digits = (found[2] ?? "").length + (found[3] ? 2 : 0);
    const value = Number(`${found[1] || 0}.${found[2] || 0}e${found[3] ? -2 : 0}`);
    return value > 1 ? null : [value, Number(`0.5e-${digits}`)];
  }

  /** Averages that are bounded, as weights of the printed ones: these, and neighbours' differences. */
  function contrasts(names) {
    const metrics = names.map(sm.metric), pairs = [];
    for (const kind of new Set(metrics.map((of) => of.kind))) {
      const same = metrics.map((of, i) => ({ ...of, i }))
        .filter((of) => of.kind === kind && Number.isFinite(of.k)).sort((a, b) => a.k - b.k);
      same.slice(1).forEach((of, i) => pairs.push([same[i].i, of.i]));
    }
    metrics.forEach((low, i) => metrics.forEach((high, j) => {
      if (low.kind === "ndcg" && high.kind === "recall" && low.k === high.k) pairs.push([i, j]);
    }));
    return [
      ...names.map((_, i) => names.map((_, j) => (i === j ? 1 : 0))),
      ...pairs.map(([low, high]) => names.map((_, j) => (j === high ? 1 : j === low ? -1 : 0))),
    ];
  }

  const mixed = (weights, rows) => Float64Array.from({ length: rows[0].length },
    (_, j) => weights.reduce((sum, w, i) => (w ? sum + w * rows[i][j] : sum), 0));

  /** The expectation that is too far from what was seen by `nats` of relative entropy, to one side. */
  function farthest(seen, side, users, nats) {
    const part = (a, b) => (a > 0 ? a * Math.log(a / b) : 0);
    let inner = seen, outer = side;
    for (let step = 0; step < 60; step++) {
      const middle = 0.5 * (inner + outer);
      if (users * (part(seen, middle) + part(1 - seen, 1 - middle)) > nats) outer = middle;
      else inner = middle;
    }
    return outer;
  }

  /** The columns of values at ranks: their means over the first 1, ..., head of them; then these. */
  function means(values, head) {
    const out = Float64Array.from(values);
    let sum = 0;
    for (let j = 0; j < head; j++) { sum += values[j]; out[j] = sum / (j + 1); }
    return out;
  }

  /**
   * What the averages that a paper prints allow.
   *
   * given: {n, m, users, replacement, cells: {metric: text}, targets: [metric], confidence}. Returns
   * {together, bounds}: whether any list of sampled ranks has these averages, and for each
   * assumption (none; deeper ranks have fewer users) either null, if no true ranks lead to them, or
   * {metric: [low, high]}. Yields when it has worked for a while, so that a page can answer.
   */
  function* stages({ n, m, users, replacement, cells, targets, confidence = 0.95 }) {
    const names = Object.keys(cells);
    const values = names.map((name) => sm.naive(name, m));
    const low = [], high = [];
    names.forEach((name, i) => {
      const [value, half] = printed(cells[name]);
      [low[i], high[i]] = [Math.max(value - half, 0), Math.min(value + half, 1)];
    });
    const every = Array.from({ length: m + 1 }, (_, x) => x);
    if (new Programme(values, low, high, every).least(new Float64Array(m + 1)) === Infinity) {
      return { together: false, bounds: [null, null] };
    }
    const weights = contrasts(names);
    const nats = Math.log((2 * weights.length) / (1 - confidence));
    const ends = weights.map((w) => {
      const row = mixed(w, values);
      const least = row.reduce((a, b) => Math.min(a, b)), top = row.reduce((a, b) => Math.max(a, b));
      const at = (from, to) => w.reduce((sum, v, i) => sum + (v > 0 ? v * from[i] : v * to[i]), 0);
      const scale = top - least || 1;
      return [[at(low, high), 0], [at(high, low), 1]].map(([v, side]) =>
        least + scale * farthest(Math.min(Math.max((v - least) / scale, 0), 1), side, users, nats));
    });
    const rows = names.map((name) => Float64Array.from({ length: n },
      (_, r) => sm.expected(name, r + 1, n, m, replacement)));
    const exact = targets.map((name) => Float64Array.from({ length: n }, (_, r) => sm.value(name, r + 1, n)));
    const bounds = [];
    for (const head of [0, Math.min(Math.floor((10 * n) / m), n)]) {
      const columns = rows.map((row) => means(row, head));
      const all = weights.map((w) => mixed(w, columns)), from = ends.map((e) => e[0]), to = ends.map((e) => e[1]);
      const chosen = new Set([0, n - 1, Math.max(head, 1) - 1, Math.min(head, n - 1)]);
      for (let i = 0; i < 60; i++) {
        chosen.add(Math.round(n ** (i / 59)) - 1);
        chosen.add(Math.round(((n - 1) * i) / 59));
        if (i < Math.min(20, n)) chosen.add(i);
      }
      for (const { k } of [...names, ...targets].map(sm.metric)) {
        if (k < n) { chosen.add(k - 1); chosen.add(k); }
      }
      const programme = new Programme(all, from, to, chosen);
      const found = {};
      let possible = true;
      for (const [i, name] of targets.entries()) {
        const target = means(exact[i], head);
        const least = programme.least(target);
        possible = least < Infinity;
        if (!possible) break;
        const most = -programme.least(target.map((v) => -v));
        yield;
        found[name] = [Math.max(least, target.reduce((a, b) => Math.min(a, b))),
          Math.min(most, target.reduce((a, b) => Math.max(a, b)))];
      }
      bounds.push(possible ? found : null);
      if (!possible) break; // what no ranks lead to, falling ones do not
    }
    while (bounds.length < 2) bounds.push(null);
    return { together: true, bounds };
  }

  /** The same at once. */
  function published(given) {
    const running = stages(given);
    for (;;) {
      const { done, value } = running.next();
      if (done) return value;
    }
  }

  Object.assign(sm, { Programme, printed, stages, published });
})();
