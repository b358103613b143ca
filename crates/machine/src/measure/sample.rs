//! Many short batches of one measurement, and which of them to believe.

/// What one thing took, in ns, batch by batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Measures `batches` times; `body` gives the ns of one thing. The first time is for warming up.
    pub fn take(batches: usize, mut body: impl FnMut() -> f64) -> Self {
        body();
        Self::of((0..batches.max(1)).map(|_| body()).collect())
    }

    /// Of what has been measured; there is at least one.
    pub fn of(mut ns: Vec<f64>) -> Self {
        assert!(!ns.is_empty(), "a sample of nothing");
        ns.sort_by(f64::total_cmp);
        Self { sorted: ns }
    }

    /// The duration that this share of the batches did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.sorted.len() - 1;
        self.sorted[((last as f64 * share).round() as usize).min(last)]
    }

    /// The figure. What disturbs a batch only ever makes it longer, so that the lower decile is
    /// nearer to the truth than the median, and steadier than the shortest.
    pub fn ns(&self) -> f64 {
        self.quantile(0.1)
    }

    /// Each batch less so much that is not of interest, and no less than nothing.
    pub fn less(&self, ns: f64) -> Self {
        Self::of(self.sorted.iter().map(|batch| (batch - ns).max(0.0)).collect())
    }

    /// For the reader: how many batches, and from the shortest to all but a tenth.
    pub fn spread(&self) -> String {
        let (low, high) = (self.quantile(0.0), self.quantile(0.9));
        format!("lower decile of {} batches; most from {low:.0} to {high:.0} ns", self.sorted.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_batches_do_not_count() {
        let mut ns: Vec<f64> = (0..20).map(f64::from).collect();
        ns.extend([1e6, 1e7]);
        let sample = Sample::of(ns);
        assert_eq!((sample.ns(), sample.quantile(0.5)), (2.0, 11.0));
        assert_eq!(Sample::of(vec![7.0]).ns(), 7.0);
    }

    #[test]
    fn the_first_time_is_not_counted() {
        let mut times = [1000.0, 2.0, 2.0].into_iter();
        let sample = Sample::take(2, || times.next().unwrap());
        assert_eq!(sample.quantile(1.0), 2.0);
    }
}
