//! Verify mode's report, and the depths that it counts.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::verified_numbers::Decoded;

/// The reports of a workload's processes in verify mode.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verified {
    pub processes: u64,
    /// Contexts compared: function entries.
    pub compared: u64,
    /// Distinct contexts, summed over the processes.
    pub distinct: u64,
    /// Contexts that were encoded wrongly.
    pub mismatches: u64,
    #[serde(default)]
    pub depths: Depths,
    /// The results of decoding the numbers.
    #[serde(default)]
    pub numbers: Decoded,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Depths {
    /// By the activations on the plain stack.
    pub plain: Histogram,
    /// By the pushed frames.
    pub frames: Histogram,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Histogram(pub BTreeMap<u64, u64>);

impl Histogram {
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn max(&self) -> Option<u64> {
        self.0.keys().next_back().copied()
    }

    /// The smallest depth up to which this share of all lies.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        self.cumulative().find(|&(_, below)| below >= share).map(|(depth, _)| depth)
    }

    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().map(|(&depth, &n)| depth as f64 * n as f64).sum();
        let total = self.total();
        (total > 0).then(|| sum / total as f64)
    }

    /// The share of depth 0.
    pub fn share_of_zero(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.0.get(&0).copied().unwrap_or(0) as f64 / total as f64)
    }

    /// Each depth, and the share up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> {
        let total = self.total() as f64;
        self.0.iter().scan(0, move |sum, (&depth, &n)| {
            *sum += n;
            Some((depth, *sum as f64 / total))
        })
    }
}

/// Reads the file that `PCCE_VERIFY_DEPTHS` named.
///
/// # Errors
/// If a line is not understood; it is in the message.
pub fn read_depths(text: &str) -> Result<Depths> {
    let mut depths = Depths::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let histogram = match words.next() {
            Some("plain") => &mut depths.plain,
            Some("frames") => &mut depths.frames,
            _ => bail!("{line}"),
        };
        let mut number = || words.next()?.parse::<u64>().ok();
        let (depth, entries) = number().zip(number()).with_context(|| line.to_owned())?;
        *histogram.0.entry(depth).or_default() += entries;
    }
    Ok(depths)
}

/// Reads the file that `PCCE_VERIFY_REPORT` named.
///
/// # Errors
/// If a line is not a report, such as the description of a mismatch; it is in the message.
pub fn read_report(text: &str) -> Result<Verified> {
    let mut sum = Verified::default();
    for line in text.lines() {
        let number = |before: &str| -> Option<u64> {
            line.split(before).next()?.rsplit([' ', ',']).next()?.parse().ok()
        };
        let counts = line
            .starts_with("pcce verify: ")
            .then(|| Some((number(" contexts compared")?, number(" distinct")?, number(" mismatches")?)));
        let (compared, distinct, mismatches) = counts.flatten().with_context(|| line.to_owned())?;
        sum.processes += 1;
        sum.compared += compared;
        sum.distinct += distinct;
        sum.mismatches += mismatches;
    }
    ensure!(sum.processes > 0, "the program in verify mode reported nothing");
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_several_processes_are_one() {
        let depths = read_depths("plain 1 2\nplain 3 8\nframes 0 10\nplain 1 90\n").unwrap();
        assert_eq!((depths.plain.total(), depths.plain.max()), (100, Some(3)));
        assert_eq!((depths.plain.quantile(0.9), depths.plain.quantile(0.93)), (Some(1), Some(3)));
        assert_eq!(depths.plain.mean(), Some(1.16));
        assert_eq!(depths.frames.share_of_zero(), Some(1.0));
        assert!(read_depths("plain 1").is_err());
    }

    #[test]
    fn a_mismatch_is_no_report() {
        let line = "pcce verify: 12 contexts compared, 3 distinct, 0 mismatches\n";
        let verified = read_report(&line.repeat(2)).unwrap();
        assert_eq!((verified.processes, verified.compared, verified.distinct), (2, 24, 6));
        assert!(read_report("pcce verify: mismatch in f: the id names another caller\n").is_err());
        assert!(read_report("").is_err());
    }
}
