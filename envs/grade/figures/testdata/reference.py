"""Reference values for the figures, from scipy and statsmodels: reference.py > reference.json

The keys name what is computed; each value is a list of [arguments, result].
"""
import itertools
import json
from fractions import Fraction
from math import comb

import numpy as np
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

out = {}
out["wilson"] = [
    [[c, n, level], [float(x) for x in proportion_confint(c, n, alpha=1 - level, method="wilson")]]
    for c, n, level in [(7, 10, 0.95), (0, 10, 0.95), (10, 10, 0.95), (45, 100, 0.95), (1, 1, 0.95), (412, 1319, 0.99), (3, 100000, 0.9)]
]
out["t"] = [[[p, v], float(stats.t.ppf(p, v))] for p in (0.9, 0.975, 0.995) for v in (1, 2, 5, 29, 100, 5000)]
out["mcnemar"] = [
    [[b, c], float(mcnemar([[5, b], [c, 7]], exact=True).pvalue)]
    for b, c in [(10, 3), (25, 12), (0, 5), (4, 4), (0, 1), (130, 90), (1200, 1100), (0, 0)]
    if b + c
]
out["pass_at_k"] = [
    [[n, c, k], float(1 - Fraction(comb(n - c, k), comb(n, k)))]
    for n, c, k in [(10, 3, 5), (200, 37, 10), (10, 6, 5), (1, 1, 1), (64, 1, 8), (1000, 3, 100), (5, 0, 2)]
]
out["pass_hat_k"] = [
    [[n, c, k], float(Fraction(comb(c, k), comb(n, k)))]
    for n, c, k in [(10, 7, 3), (8, 6, 4), (8, 8, 8), (8, 2, 3), (200, 180, 16)]
]


def maj(right, wrong, k):
    """By trying every choice; equally frequent answers share it."""
    answers = ["right"] * right + [i for i, w in enumerate(wrong) for _ in range(w)]
    total, count = Fraction(0), 0
    for pick in itertools.combinations(answers, k):
        n = {a: pick.count(a) for a in pick}
        top = [a for a, m in n.items() if m == max(n.values())]
        total += Fraction("right" in top, len(top))
        count += 1
    return float(total / count)


out["maj_at_k"] = [
    [[r, w, k], maj(r, w, k)]
    for r, w, k in [(3, [2, 2, 1], 5), (3, [2, 2, 1], 3), (1, [1, 1, 1], 2), (4, [4], 4), (0, [3], 2), (2, [5], 7), (5, [3, 3, 2], 8), (6, [], 4)]
]

# a clustered mean is a regression on a constant with the errors of Liang and Zeger
rng = np.random.default_rng(1)
out["clustered"] = []
for sizes in [(4, 3, 3, 2), (8,) * 12, (1, 2, 3, 4, 5, 6, 7, 8, 9)]:
    tasks = [[float(x) for x in rng.integers(0, 2, n)] for n in sizes]
    y = np.concatenate(tasks)
    g = np.repeat(np.arange(len(sizes)), sizes)
    fit = sm.OLS(y, np.ones_like(y)).fit(cov_type="cluster", cov_kwds={"groups": g, "use_correction": False})
    se = float(fit.bse[0]) * np.sqrt(len(sizes) / (len(sizes) - 1))
    t = stats.t.ppf(0.975, len(sizes) - 1)
    m = float(y.mean())
    out["clustered"].append([[tasks], [m, max(0.0, m - t * se), min(1.0, m + t * se)]])

# scipy uses draws of its own: equal within Monte Carlo error
out["bca"] = []
for scale in (1.0, 3.0):
    x = rng.gamma(1.2, scale, 40)
    r = stats.bootstrap((x,), np.mean, n_resamples=200_000, batch=10_000, method="BCa", random_state=rng).confidence_interval
    out["bca"].append([[[float(v) for v in x]], [float(r.low), float(r.high)]])
out["paired"] = []
for shift in (0.0, 0.12, 0.3):
    d = rng.normal(shift, 0.5, 60)
    m = rng.choice(d, (200_000, len(d))).mean(axis=1) - d.mean()
    t = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    out["paired"].append([[[float(v) for v in d]], [float(d.mean()), float(t.low), float(t.high), float(np.mean(np.abs(m) >= abs(d.mean())))]])

# two runs of n samples each: standard deviation √(p(1−p)(1−ρ))
out["mde"] = [
    [[n, p, rho], float((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * np.sqrt(2 * p * (1 - p) * (1 - rho) / n))]
    for n, p, rho in [(100, 0.5, 0), (100, 0.5, 0.5), (1319, 0.9, 0.3)]
]
print(json.dumps(out))
