//! Medians of ratios, and their confidence.

/// A median with an interval that holds the true one with at least 95 % confidence, whatever the distribution: between
/// two order statistics, by the binomial distribution. With fewer than six values, all of them together
/// reach less, and the interval is from the smallest to the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    pub median: f64,
    pub interval: (f64, f64),
    pub count: usize,
}

/// The median of some values, or `None` without values.
pub fn median(values: &[f64]) -> Option<Median> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return None;
    }
    let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
    // The largest k such that fewer than k of n fair coins show heads with a probability of at most 2.5 %.
    let (mut k, mut tail, mut term) = (0, 0.0, 0.5f64.powi(n as i32));
    while tail + term <= 0.025 {
        tail += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let low = k.saturating_sub(1);
    Some(Median { median, interval: (sorted[low], sorted[n - 1 - low]), count: n })
}

/// The geometric mean of ratios, or `None` without ratios.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        n += 1;
    }
    (n > 0).then(|| (sum / f64::from(n)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let values = |n: usize| (1..=n).map(|i| i as f64).collect::<Vec<_>>();
        assert_eq!(median(&[]), None);
        assert_eq!(median(&values(1)).unwrap().interval, (1.0, 1.0));
        // Tables of the sign test at 95 %: n = 6, 7, 8 take the extremes, 9 the second, 20 the sixth.
        for (n, low) in [(6, 1.0), (7, 1.0), (8, 1.0), (9, 2.0), (12, 3.0), (20, 6.0)] {
            let m = median(&values(n)).unwrap();
            assert_eq!(m.interval, (low, n as f64 + 1.0 - low), "{n}");
            assert_eq!(m.median, (n as f64 + 1.0) / 2.0);
        }
    }

    #[test]
    fn geometric_means_multiply() {
        assert_eq!(geometric_mean([]), None);
        assert!((geometric_mean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
    }
}
