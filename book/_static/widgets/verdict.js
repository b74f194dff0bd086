// One sampled evaluation of several recommenders, and the probability that it names the best.
// Loaded after math.js.
"use strict";

(() => {
  const sm = window.sampledMetrics;

  /**
   * The distribution of the number of negatives above an item that has `better` items above it and
   * ties with `tied` others, broken at random: {start, p}. Negatives are drawn without replacement.
   */
  function tiedLaw(better, tied, n, m, least = 1e-13) {
    if (!tied) return sm.law(better + 1, n, m, false, least);
    // The sum of P(x | r) over r = 1, ..., R is n / (m + 1) times the probability that more than x of
    // m + 1 draws from n items are among R marked ones.
    const more = (marked) => {
      if (!marked) return () => 0;
      const { start, p } = sm.law(marked + 1, n + 1, m + 1, false, least);
      const tail = new Float64Array(p.length + 1);
      for (let i = p.length - 1; i >= 0; i--) tail[i] = tail[i + 1] + p[i];
      const tailAt = (x) => (x < start ? 1 : tail[Math.min(x + 1 - start, p.length)]);
      tailAt.ends = [start, start + p.length - 1];
      return tailAt;
    };
    const first = more(better), last = more(better + tied + 1);
    const start = Math.max((first.ends?.[0] ?? 0) - 1, 0), end = Math.min(last.ends[1], m);
    const factor = n / ((m + 1) * (tied + 1)), p = [];
    for (let x = start; x <= end; x++) p.push(Math.max(factor * (last(x) - first(x)), 0));
    return { start, p };
  }

  /** The users of {n, better, tied} at some places. */
  const some = ({ n, better, tied }, places) => ({
    n: places.map((i) => n[i]),
    better: places.map((i) => better[i]),
    tied: places.map((i) => tied[i]),
  });

  /** Places 0, ..., size - 1 in a random order, the same for each seed. */
  function shuffled(size, seed) {
    const random = sm.generator(seed), places = Array.from({ length: size }, (_, i) => i);
    for (let i = size - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [places[i], places[j]] = [places[j], places[i]];
    }
    return places;
  }

  /** The law of each user's sampled rank under one recommender. */
  const laws = ({ n, better, tied }, m) => n.map((size, i) => tiedLaw(better[i], tied[i], size, m));

  /** Expectation and standard deviation of the average over users, for values of 0, ..., m negatives. */
  function expectedAverage(each, values) {
    let mean = 0, variance = 0;
    for (const { start, p } of each) {
      let one = 0, square = 0;
      for (let i = 0; i < p.length; i++) one += p[i] * values[start + i];
      for (let i = 0; i < p.length; i++) square += p[i] * (values[start + i] - one) ** 2;
      mean += one / each.length;
      variance += square / each.length ** 2;
    }
    return { mean, sd: Math.sqrt(variance) };
  }

  /** One sampled evaluation: the average of the values, and its standard error as a study reports it. */
  function evaluation(each, values, random) {
    let sum = 0, squares = 0;
    for (const { start, p } of each) {
      let left = random(), i = 0;
      while (i < p.length - 1 && left >= p[i]) left -= p[i++];
      const value = values[start + i];
      sum += value;
      squares += value * value;
    }
    const size = each.length, mean = sum / size;
    return { mean, error: Math.sqrt(Math.max(squares / size - mean * mean, 0) / (size - 1)) };
  }

  /** The share of a win that goes to one of several values: ties are shared. */
  function shareOfWin(values, winner) {
    const most = Math.max(...values);
    return values[winner] === most ? 1 / values.filter((v) => v === most).length : 0;
  }

  /** The standard normal distribution function, to 1e-7 (Numerical Recipes, erfcc). */
  function normal(z) {
    const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + x / 2);
    const powers = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807,
      -1.13520398, 1.48851587, -0.82215223, 0.17087277];
    const tail = 0.5 * t * Math.exp(-x * x + powers.reduceRight((sum, c) => sum * t + c, 0));
    return z > 0 ? 1 - tail : tail;
  }

  /** The probability that one of several independent normal averages is the largest. */
  function probabilityOfWin(averages, winner) {
    if (averages.every(({ sd }) => sd < 1e-12)) {
      return shareOfWin(averages.map(({ mean }) => Math.round(1e9 * mean)), winner);
    }
    const { mean, sd } = averages[winner], points = 2000, width = 16 / points;
    let total = 0;
    for (let i = 0; i < points; i++) { // midpoints of -8 to 8 standard deviations
      const z = -8 + (i + 0.5) * width;
      let share = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI) * width;
      averages.forEach((other, j) => {
        if (j === winner) return;
        const ahead = mean + sd * z - other.mean;
        share *= other.sd < 1e-12 ? Number(ahead > 0) : normal(ahead / other.sd);
      });
      total += share;
    }
    return total;
  }

  Object.assign(sm, { tiedLaw, some, shuffled, laws, expectedAverage, evaluation, shareOfWin,
    probabilityOfWin });
})();
