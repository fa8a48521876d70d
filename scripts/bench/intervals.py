"""95 % confidence intervals of what pairs of runs show.

The mean of n values lies within t(0.975, n-1) * s / sqrt(n) of the truth, s being their standard
deviation and t the quantile of Student's distribution: NIST/SEMATECH e-Handbook of Statistical
Methods, section 1.3.5.2, table in 1.3.6.7.2. For ratios the values are the logarithms of the pairs'
ratios, and the result is taken back by exp: so a and 1/a weigh the same, and the point estimate is
the geometric mean.
"""
import math
import statistics

# t(0.975, degrees of freedom), from 1 on; 1.960 is that of the normal distribution.
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
     2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
     2.052, 2.048, 2.045, 2.042]
T_BEYOND = 2.042  # no smaller than any that follows


def mean(values):
    """(mean, lower, upper); both bounds are infinitely far away with one value."""
    middle = statistics.fmean(values)
    freedom = len(values) - 1
    if freedom < 1:
        return middle, -math.inf, math.inf
    t = T[freedom - 1] if freedom <= len(T) else T_BEYOND
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    return middle, middle - half, middle + half


def ratio(pairs):
    """(estimate, lower, upper) of a / b over pairs (a, b) of positive numbers."""
    return tuple(math.exp(bound) if bound < 700 else math.inf
                 for bound in mean([math.log(a / b) for a, b in pairs]))
