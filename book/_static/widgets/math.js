// M, P and M-hat in the browser: what the package's metrics, protocol and estimators compute.
// Probabilities are those of Loader's saddle-point expansion at the most likely count, and the
// ratios of neighbours from there; nothing in them cancels, and whole numbers go in.
"use strict";

(() => {
  const STIRLING_ERROR = [
    0, 0.08106146679532726, 0.0413406959554093, 0.02767792568499834, 0.020790672103765093,
    0.016644691189821193, 0.013876128823070748, 0.01189670994589177, 0.010411265261972096,
    0.009255462182712733, 0.00833056343336287, 0.007573675487951841, 0.00694284010720953,
    0.006408994188004207, 0.0059513701127588475, 0.005554733551962801,
  ];
  const HALF_LOG_2PI = 0.5 * Math.log(2 * Math.PI);

  /** log(x!) - log(sqrt(2 pi x) (x / e)^x) for whole x. */
  function stirlingError(x) {
    if (x < 16) return STIRLING_ERROR[x];
    const s = 1 / (x * x);
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / x;
  }

  /** log(x!) for whole x >= 0. */
  function logFactorial(x) {
    return x < 2 ? 0 : (x + 0.5) * Math.log(x) - x + HALF_LOG_2PI + stirlingError(x);
  }

  /** mean ((1 + d) log(1 + d) - d) for a relative deviation d > -1. */
  function deviance(mean, d) {
    const v = d / (2 + d);
    if (Math.abs(v) >= 0.5) return mean * ((1 + d) * Math.log1p(d) - d);
    const square = v * v;
    let series = 0;
    for (let j = 27; j > 0; j--) series = (series + 1 / (2 * j + 1)) * square;
    return mean * v * (d + 2 * (1 + d) * series);
  }

  /** Log-probability of x successes in some trials, each from `marked` of `pool` items. */
  function logBinomial(x, trials, marked, pool) {
    if (x < 0 || x > trials) return -Infinity;
    const others = pool - marked;
    if (x === 0 || x === trials) {
      if (trials === 0) return 0;
      const edge = x === 0 ? others : marked;
      return trials * (2 * edge > pool ? Math.log1p(-(pool - edge) / pool) : Math.log(edge / pool));
    }
    if (marked <= 0 || others <= 0) return -Infinity;
    const excess = x * pool - trials * marked;
    return (
      stirlingError(trials) - stirlingError(x) - stirlingError(trials - x) -
      deviance(trials * (marked / pool), excess / (trials * marked)) -
      deviance(trials * (others / pool), -excess / (trials * others)) -
      HALF_LOG_2PI - 0.5 * Math.log(x * ((trials - x) / trials))
    );
  }

  /** Log-probability of x marked items among `draws` of `pool`, without replacement. */
  function logHypergeometric(x, draws, marked, pool) {
    if (x < 0 || x > marked || draws - x > pool - marked || x > draws) return -Infinity;
    return (
      logBinomial(x, marked, draws, pool) + logBinomial(draws - x, pool - marked, draws, pool) -
      logBinomial(draws, pool, draws, pool)
    );
  }

  /** Log-probability of x of the m negatives above the item at a true rank among n items. */
  function logLaw(x, rank, n, m, replacement) {
    return (replacement ? logBinomial : logHypergeometric)(x, m, rank - 1, n - 1);
  }

  /**
   * The distribution of the number of negatives above the item: {start, p}, p[i] the probability of
   * start + i. What is rarer than `least` is left out.
   */
  function law(rank, n, m, replacement, least = 1e-20) {
    const a = rank - 1, pool = n - 1, b = pool - a;
    let mode = replacement
      ? Math.floor((m + 1) * (a / pool))
      : Math.max(Math.floor(((m + 1) * (a + 1)) / (pool + 2)), m - b);
    mode = Math.min(mode, m, replacement ? m : a);
    const top = Math.exp(logLaw(mode, rank, n, m, replacement));
    const below = [], p = [top];
    let value = top;
    for (let x = mode; x > 0 && value >= least; x--) { // from x to x - 1
      value *= replacement
        ? (x * b) / ((m - x + 1) * a)
        : (x * (b - m + x)) / ((m - x + 1) * (a - x + 1));
      if (value >= least) below.push(value);
    }
    value = top;
    for (let x = mode + 1; x <= m && value >= least; x++) { // from x - 1 to x
      value *= replacement
        ? ((m - x + 1) * a) / (x * b)
        : ((m - x + 1) * (a - x + 1)) / (x * (b - m + x));
      if (value >= least) p.push(value);
    }
    return { start: mode - below.length, p: below.reverse().concat(p) };
  }

  /** Probabilities of 0, 1, ..., m negatives above the item. */
  function pmf(rank, n, m, replacement) {
    const { start, p } = law(rank, n, m, replacement, 1e-300);
    const out = new Float64Array(m + 1);
    p.forEach((value, i) => { out[start + i] = value; });
    return out;
  }

  /** Probabilities of 0, 1, ..., k - 1 negatives above the item. */
  function head(k, rank, n, m, replacement) {
    const out = new Float64Array(k), a = rank - 1, b = n - rank;
    let x = Math.min(k - 1, m, replacement ? m : a);
    let value = Math.exp(logLaw(x, rank, n, m, replacement));
    if (value < 1e-250) { // too rare to start from
      const { start, p } = law(rank, n, m, replacement, 1e-300);
      for (let i = 0; i < p.length && start + i < k; i++) out[start + i] = p[i];
      return out;
    }
    for (; x >= 0 && value > 0; x--) {
      out[x] = value;
      value *= replacement
        ? (x * b) / ((m - x + 1) * a)
        : (x * (b - m + x)) / ((m - x + 1) * (a - x + 1));
    }
    return out;
  }

  const NAMES = { mrr: "rr", map: "ap", hr: "recall", hit: "recall" };

  /** A metric of one relevant item from its name: {kind, k}. */
  function metric(name) {
    if (!known.has(name)) {
      const [kind, k] = name.toLowerCase().split("@");
      known.set(name, { kind: NAMES[kind] ?? kind, k: k === undefined ? Infinity : Number(k) });
    }
    return known.get(name);
  }
  const known = new Map();

  /** M(r): the value of a ranking whose relevant item is at a rank of n. */
  function value(name, rank, n) {
    const { kind, k } = metric(name);
    if (kind === "auc") return (n - rank) / (n - 1);
    if (rank > k) return 0;
    if (kind === "ap" || kind === "rr") return 1 / rank;
    if (kind === "ndcg") return 1 / Math.log2(rank + 1);
    if (kind === "precision") return 1 / k;
    return 1; // recall
  }

  /** How deep sampled Recall@k looks: the true ranks with fewer than k negatives above on average. */
  function depth(k, n, m) {
    return Math.min(Math.ceil((k * (n - 1)) / m - 1e-9), n);
  }

  /** The exact metric of the stretched rank 1 + (r - 1) m / (n - 1); a cut-off k keeps those below k + 1. */
  function stretched(name, rank, n, m) {
    const { kind, k } = metric(name), above = ((rank - 1) * m) / (n - 1);
    if (kind === "auc") return 1 - above / m;
    return above < k - 1e-12 ? value(kind, 1 + above, n) : 0;
  }

  /** What an evaluation reports when 0, 1, ..., m negatives are above the item. */
  function naive(name, m) {
    if (last.name !== name || last.m !== m) {
      const values = Float64Array.from({ length: m + 1 }, (_, x) => value(name, x + 1, m + 1));
      last = { name, m, values };
    }
    return last.values;
  }
  let last = {};

  /** The sum of P(x | rank) times the value of x over all x. */
  function expectedOf(values, rank, n, m, replacement) {
    const { start, p } = law(rank, n, m, replacement);
    let total = 0;
    for (let i = 0; i < p.length; i++) total += p[i] * values[start + i];
    return total;
  }

  /** E[M(sampled rank) | true rank]: in closed form for AUC and AP, else the sum. */
  function expected(name, rank, n, m, replacement) {
    const { kind, k } = metric(name);
    if (kind === "auc") return (n - rank) / (n - 1);
    if ((kind === "ap" || kind === "rr") && k > m) {
      if (rank === 1) return 1;
      const a = rank - 1, pool = n - 1;
      if (replacement) {
        if (a === pool) return 1 / (m + 1);
        const none = 2 * a < pool ? Math.log1p(-a / pool) : Math.log((pool - a) / pool);
        return (-Math.expm1((m + 1) * none) * pool) / ((m + 1) * a);
      }
      // No item of the first `rank` among m + 1 of all n: few factors, or one probability.
      const few = Math.min(rank, m + 1), many = Math.max(rank, m + 1);
      let none = 0;
      if ((m + 1) * rank < 0.1 * n) {
        for (let i = 0; i < few; i++) none += Math.log1p(-many / (n - i));
      } else none = logHypergeometric(0, m + 1, rank, n);
      return (-Math.expm1(none) * n) / (rank * (m + 1));
    }
    if (k <= m) {
      const p = head(k, rank, n, m, replacement), values = naive(name, m);
      return p.reduce((sum, share, x) => sum + share * values[x], 0);
    }
    return expectedOf(naive(name, m), rank, n, m, replacement);
  }

  /**
   * What the j-th best of several relevant items adds to AUC, AP, NDCG or Recall if it is at a rank of
   * n items; the sum over the items is the metric.
   */
  function term(name, rank, j, relevant, n) {
    const { kind, k } = metric(name);
    if (kind === "auc") return (n - relevant - (rank - j)) / ((n - relevant) * relevant);
    if (rank > k) return 0;
    const reachable = Math.min(relevant, k);
    if (kind === "ap") return j / rank / reachable;
    if (kind !== "ndcg") return 1 / relevant; // recall
    let best = 0;
    for (let i = 1; i <= reachable; i++) best += 1 / Math.log2(i + 1);
    return 1 / Math.log2(rank + 1) / best;
  }

  /** The law of the negatives above the j-th best: rank - j of the n - relevant others are above it. */
  function lawOfItem(rank, j, relevant, n, m, replacement) {
    return law(rank - j + 1, n - relevant + 1, m, replacement);
  }

  /** The expectation of its term in a sample of m negatives, ranked with the other relevant items. */
  function expectedTerm(name, rank, j, relevant, n, m, replacement) {
    const { start, p } = lawOfItem(rank, j, relevant, n, m, replacement);
    return p.reduce((sum, share, i) => sum + share * term(name, j + start + i, j, relevant, m + relevant), 0);
  }

  /** Exact and expected sampled metric, averaged over ranks among n items. */
  function averages(name, ranks, n, m, replacement) {
    const mean = (f) => ranks.reduce((sum, r) => sum + f(r), 0) / ranks.length;
    return [mean((r) => value(name, r, n)), mean((r) => expected(name, r, n, m, replacement))];
  }

  /** Recommenders from the best to the worst, " = " between those that differ by rounding only. */
  function order(values) {
    const names = Object.keys(values).sort((a, b) => values[b] - values[a] || (a < b ? -1 : 1));
    return names
      .map((name, i) => {
        if (i === 0) return name;
        const [one, two] = [values[names[i - 1]], values[name]];
        return (one - two <= 1e-12 * Math.max(Math.abs(one), Math.abs(two)) ? " = " : " > ") + name;
      })
      .join("");
  }

  /**
   * A metric of items at rank better + 1, ..., better + tied + 1 of n candidates, on average over
   * users: exact, or expected in a sample of m negatives without replacement. `ties` is "optimistic",
   * "pessimistic" or "mean", where each of these ranks is as likely. AUC, or a cut-off is needed.
   */
  function ofTied(name, { n, better, tied }, ties, m = null) {
    const { kind, k } = metric(name);
    const one = (rank, items) =>
      m === null ? value(name, rank, items) : expected(name, rank, items, m, false);
    let total = 0;
    for (let i = 0; i < n.length; i++) {
      const first = better[i] + 1, last = first + tied[i];
      if (ties === "optimistic" || first === last) total += one(first, n[i]);
      else if (ties === "pessimistic") total += one(last, n[i]);
      else if (kind === "auc") total += (one(first, n[i]) + one(last, n[i])) / 2;
      else if (m === null) {
        let sum = 0;
        for (let r = first; r <= Math.min(last, k); r++) sum += value(name, r, n[i]);
        total += sum / (tied[i] + 1);
      } else total += meanExpected(name, Math.min(k, m + 1), first, last, n[i], m);
    }
    return total / n.length;
  }

  /** The mean of the expectations over ranks first..last, as RankIntervals.sampled_pmf has it. */
  function meanExpected(name, k, first, last, n, m) {
    const values = naive(name, m);
    // What is lost of the whole value of the first k places if x of m + 1 draws are marked.
    const lost = (marked) => {
      const p = head(k, marked + 1, n + 1, m + 1, false);
      let sum = 0, rest = 0;
      for (let x = k - 1; x >= 0; x--) sum += p[x] * (rest += values[x]);
      return sum;
    };
    return (n / ((m + 1) * (last - first + 1))) * (lost(first - 1) - lost(last));
  }

  /** Candidates, better and tied items of each user under each recommender, from ranks.js. */
  function bundled() {
    let sum = 0;
    const { n: differences, ...recommenders } = window.sampledMetrics.ranks;
    const n = differences.map((d) => (sum += d));
    return Object.fromEntries(Object.entries(recommenders).map(([k, each]) => [k, { n, ...each }]));
  }

  /**
   * The shares of users at ranks 1, 2, ..., n, from bundled ranks; a user whose item is tied is spread
   * evenly over the places of the tie.
   */
  function shares({ n, better, tied }, size = Math.max(...n)) {
    const out = new Float64Array(size);
    better.forEach((first, i) => {
      for (let r = first; r <= first + tied[i]; r++) out[r] += 1 / (n.length * (tied[i] + 1));
    });
    return out;
  }

  /** 1 - R² of the best line through values at 1, 2, ..., over uniform ranks; NaN if constant. */
  function unlinear(values) {
    const size = values.length, middle = (size - 1) / 2;
    let mean = 0;
    for (const v of values) mean += v / size;
    let along = 0, spread = 0, rise = 0;
    for (let i = 0; i < size; i++) {
      along += (i - middle) * (values[i] - mean);
      spread += (i - middle) ** 2;
      rise += (values[i] - mean) ** 2;
    }
    const slope = along / spread;
    let left = 0;
    for (let i = 0; i < size; i++) left += (values[i] - mean - slope * (i - middle)) ** 2;
    return rise / size < 1e-24 ? NaN : left / rise;
  }

  /** Solve A x = b for a symmetric positive definite A (a list of rows), by Cholesky. */
  function solve(A, b) {
    const size = b.length, L = A.map((row) => Float64Array.from(row)), x = Float64Array.from(b);
    for (let j = 0; j < size; j++) {
      for (let i = j; i < size; i++) {
        let sum = L[i][j];
        for (let k = 0; k < j; k++) sum -= L[i][k] * L[j][k];
        L[i][j] = i === j ? Math.sqrt(sum) : sum / L[j][j];
      }
    }
    for (let i = 0; i < size; i++) {
      for (let k = 0; k < i; k++) x[i] -= L[i][k] * x[k];
      x[i] /= L[i][i];
    }
    for (let i = size - 1; i >= 0; i--) {
      for (let k = i + 1; k < size; k++) x[i] -= L[k][i] * x[k];
      x[i] /= L[i][i];
    }
    return x;
  }

  /**
   * What the corrections of a metric need, for uniform true ranks 1..n: the laws of all ranks, and
   * the sums of their products with each other and with the metric.
   */
  function system(name, n, m, replacement) {
    const laws = [], marginal = new Float64Array(m + 1), target = new Float64Array(m + 1);
    const squares = Array.from({ length: m + 1 }, () => new Float64Array(m + 1));
    for (let r = 1; r <= n; r++) {
      const one = law(r, n, m, replacement), { start, p } = one, M = value(name, r, n);
      laws.push(one);
      for (let i = 0; i < p.length; i++) {
        marginal[start + i] += p[i] / n;
        target[start + i] += (p[i] * M) / n;
        const row = squares[start + i], share = p[i] / n;
        for (let j = 0; j <= i; j++) row[start + j] += share * p[j];
      }
    }
    for (let i = 0; i <= m; i++) for (let j = 0; j < i; j++) squares[j][i] = squares[i][j];
    return { name, n, m, laws, marginal, target, squares };
  }

  /** The least squared bias plus gamma times variance (krichene2020, eq. 25): m + 1 values. */
  function biasVariance({ m, marginal, target, squares }, gamma) {
    const scale = marginal.map(Math.sqrt);
    const A = squares.map((row, i) => row.map(
      (v, j) => ((1 - gamma) * v) / (scale[i] * scale[j]) + (i === j ? gamma : 0)));
    const b = target.map((v, i) => v / scale[i]);
    return solve(A, b).map((v, i) => v / scale[i]);
  }

  /** Expectation and variance of what is reported, at each true rank of a system. */
  function moments({ n, laws }, values) {
    const mean = new Float64Array(n), variance = new Float64Array(n);
    laws.forEach(({ start, p }, r) => {
      for (let i = 0; i < p.length; i++) mean[r] += p[i] * values[start + i];
      for (let i = 0; i < p.length; i++) variance[r] += p[i] * (values[start + i] - mean[r]) ** 2;
    });
    return { mean, variance };
  }

  /**
   * What the error of an average needs, for users with given shares at the ranks of a system: the
   * probabilities of the sampled ranks, the mean products of two of them, and the exact metric.
   */
  function population({ name, n, m, laws }, weights) {
    const marginal = new Float64Array(m + 1);
    const squares = Array.from({ length: m + 1 }, () => new Float64Array(m + 1));
    let exact = 0;
    laws.forEach(({ start, p }, r) => {
      if (!weights[r]) return;
      exact += weights[r] * value(name, r + 1, n);
      for (let i = 0; i < p.length; i++) {
        const row = squares[start + i], share = weights[r] * p[i];
        marginal[start + i] += share;
        for (let j = 0; j <= i; j++) row[start + j] += share * p[j];
      }
    });
    return { marginal, squares, exact };
  }

  /** Bias of the average over such users, and its standard deviation if there is one user. */
  function ofAverage({ marginal, squares, exact }, values) {
    let bias = -exact, variance = 0;
    for (let i = 0; i < values.length; i++) {
      bias += marginal[i] * values[i];
      variance += (marginal[i] - squares[i][i]) * values[i] ** 2;
      for (let j = 0; j < i; j++) variance -= 2 * squares[i][j] * values[i] * values[j];
    }
    return { bias, sd: Math.sqrt(Math.max(variance, 0)) };
  }

  /** Root mean square of the bias, and of the standard deviation for one user, over all ranks. */
  function errors({ name, n }, { mean, variance }) {
    let bias = 0, noise = 0;
    for (let r = 0; r < n; r++) {
      bias += (mean[r] - value(name, r + 1, n)) ** 2 / n;
      noise += variance[r] / n;
    }
    return { bias: Math.sqrt(bias), noise: Math.sqrt(noise) };
  }

  /** Numbers in [0, 1) from a seed, the same everywhere. */
  function generator(seed) {
    let state = seed >>> 0;
    return () => { // mulberry32
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** m places of 1..n without the item's own rank, drawn with or without replacement. */
  function drawn(rank, n, m, replacement, random) {
    const places = [], seen = new Set();
    while (places.length < m) {
      let place = 1 + Math.floor(random() * (n - 1));
      if (place >= rank) place += 1;
      if (!replacement && seen.has(place)) continue;
      seen.add(place);
      places.push(place);
    }
    return places;
  }

  /** Ranks (five of each recommender) whose exact order a sample reverses in expectation, or null. */
  function reversal(name, n, m, replacement, random, tries = 3000) {
    const some = () => Array.from({ length: 5 }, () => Math.round(n ** random()));
    let best = null;
    for (let i = 0; i < tries && !(best && i > 300); i++) {
      const [a, b] = [some(), some()];
      const [one, two] = [a, b].map((ranks) => averages(name, ranks, n, m, replacement));
      const exact = one[0] - two[0], sampled = one[1] - two[1];
      if (exact * sampled >= 0 || Math.min(Math.abs(exact), Math.abs(sampled)) < 1e-9) continue;
      const size = Math.min(Math.abs(exact), Math.abs(sampled));
      if (!best || size > best.size) best = { size, better: exact > 0 ? a : b, worse: exact > 0 ? b : a };
    }
    return best;
  }

  window.sampledMetrics = {
    widgets: {},
    logFactorial,
    logBinomial,
    logHypergeometric,
    logLaw,
    law,
    pmf,
    head,
    metric,
    value,
    depth,
    stretched,
    naive,
    expectedOf,
    expected,
    term,
    lawOfItem,
    expectedTerm,
    averages,
    order,
    ofTied,
    bundled,
    shares,
    unlinear,
    solve,
    system,
    biasVariance,
    moments,
    errors,
    population,
    ofAverage,
    generator,
    drawn,
    reversal,
  };
})();
