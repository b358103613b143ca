//! Many short batches of one measurement, and the figure that they give.

/// The time of one operation in each batch, in ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Measures `batches` batches, after one for warming up. `body` returns the ns of one operation.
    pub fn take(batches: usize, mut body: impl FnMut() -> f64) -> Self {
        body();
        Self::of((0..batches.max(1)).map(|_| body()).collect())
    }

    /// The sample of these times; panics if there are none.
    pub fn of(mut ns: Vec<f64>) -> Self {
        assert!(!ns.is_empty(), "a sample of nothing");
        ns.sort_by(f64::total_cmp);
        Self { sorted: ns }
    }

    /// The time that this share of the batches did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.sorted.len() - 1;
        self.sorted[((last as f64 * share).round() as usize).min(last)]
    }

    /// The figure: the lower decile. Disturbances only ever lengthen a batch, so the lower decile is nearer to the
    /// true time than the median; it is also steadier than the minimum.
    pub fn ns(&self) -> f64 {
        self.quantile(0.1)
    }

    /// Subtracts `ns` from each batch; the result is at least 0.
    pub fn less(&self, ns: f64) -> Self {
        Self::of(self.sorted.iter().map(|batch| (batch - ns).max(0.0)).collect())
    }

    /// A description: the number of batches, the minimum and the upper decile.
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
