//! Which of the known kernels a name selects, and in which order they are tried.
use super::cache::Meta;
use super::index::Offer;
use super::version::{self, order_key};
use super::{BtfHealth, DEFAULT_SERIES, KernelError};

/// Most downloads for one request. Each is 15 to 50 MB, and after four unusable builds of a series a fifth one is
/// unlikely to work.
const MOST_DOWNLOADS: usize = 4;

/// A known kernel: its record in the cache, and its offer in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub release: String,
    pub cached: Option<Meta>,
    pub offer: Option<Offer>,
}

impl Candidate {
    fn at_hand(&self) -> bool {
        self.cached.as_ref().is_some_and(|meta| meta.image_bytes.is_some())
    }

    fn unfit(&self) -> Option<String> {
        self.cached.as_ref()?.unfit()
    }

    fn known_good(&self) -> bool {
        self.cached.as_ref().is_some_and(|meta| meta.btf == BtfHealth::Good && meta.unfit().is_none())
    }
}

/// All known kernels, newest first.
pub(super) struct Candidates(pub Vec<Candidate>);

impl Candidates {
    pub fn new(cached: Vec<Meta>, offers: &[Offer]) -> Self {
        let mut all: Vec<Candidate> = cached
            .into_iter()
            .map(|meta| Candidate { release: meta.release.clone(), cached: Some(meta), offer: None })
            .collect();
        for offer in offers {
            match all.iter_mut().find(|known| known.release == offer.release) {
                Some(known) => known.offer = Some(offer.clone()),
                None => all.push(Candidate {
                    release: offer.release.clone(),
                    cached: None,
                    offer: Some(offer.clone()),
                }),
            }
        }
        all.sort_by_cached_key(|known| std::cmp::Reverse(order_key(&known.release)));
        Self(all)
    }

    /// The kernels that a name selects, newest first.
    pub fn matching(&self, wanted: &str) -> Vec<Candidate> {
        self.0.iter().filter(|known| version::matches(&known.release, wanted)).cloned().collect()
    }

    /// Releases that need no download.
    pub fn at_hand(&self) -> Vec<String> {
        let fit = self.0.iter().filter(|known| known.at_hand() && known.unfit().is_none());
        fit.map(|known| known.release.clone()).collect()
    }

    /// Whether the name of its series selects this release, as far as is known now.
    pub fn is_series_default(&self, release: &str) -> bool {
        let series = version::series(release);
        let mut same = self.0.iter().filter(|known| version::series(&known.release) == series);
        same.find(|known| known.unfit().is_none()).is_some_and(|first| first.release == release)
    }

    /// A kernel to use instead: a build of the same series that is known to work, else the default series, on which the
    /// published figures were measured, else any build that is known to work.
    pub fn proposal(&self, instead_of: &str) -> Option<String> {
        let good = |series: Option<&str>| {
            self.0
                .iter()
                .find(|known| {
                    known.known_good() && (series.is_none() || version::series(&known.release) == series)
                })
                .map(|known| known.release.clone())
        };
        let same = version::series(instead_of).and_then(|series| good(Some(series)));
        let default = || {
            let another = !version::matches(instead_of, DEFAULT_SERIES);
            (another && !self.matching(DEFAULT_SERIES).is_empty()).then(|| DEFAULT_SERIES.to_owned())
        };
        same.or_else(default).or_else(|| good(None))
    }

    /// The error for a name that selects nothing, with the names that were possibly meant.
    pub fn unknown(&self, wanted: &str) -> KernelError {
        let same = version::series(wanted).map(|series| self.matching(series)).unwrap_or_default();
        let mut known: Vec<String> = if same.is_empty() {
            let series = self.0.iter().filter_map(|known| version::series(&known.release));
            series.map(str::to_owned).collect()
        } else {
            same.iter().map(|known| version::short(&known.release).to_owned()).collect()
        };
        known.dedup();
        known.reverse();
        let nearest = version::nearest(wanted, known.iter().map(String::as_str)).map(str::to_owned);
        KernelError::Unknown { name: wanted.to_owned(), known, nearest }
    }

    /// Chooses the newest usable kernel that `wanted` selects. `fetch` downloads and checks a kernel.
    pub fn choose(
        &self,
        wanted: &str,
        report: &dyn Fn(&str),
        fetch: &mut dyn FnMut(&Offer) -> Result<Meta, KernelError>,
    ) -> Result<Meta, KernelError> {
        let candidates = self.matching(wanted);
        let mut tried: Vec<(String, String)> = Vec::new();
        let mut last_unfit = None;
        let mut unreachable = None;
        let mut downloads = 0;
        let reserve = candidates.iter().any(|known| known.at_hand() && known.unfit().is_none());
        for candidate in &candidates {
            let known =
                candidate.cached.as_ref().filter(|_| candidate.at_hand() || candidate.unfit().is_some());
            let meta = match (known, &candidate.offer) {
                (Some(meta), _) => meta.clone(),
                // No further downloads: an older kernel in the cache may serve.
                (None, Some(_)) if unreachable.is_some() || downloads == MOST_DOWNLOADS => continue,
                (None, Some(offer)) => match fetch(offer) {
                    Ok(meta) => {
                        downloads += 1;
                        meta
                    }
                    // After Gone, the caller fetches the index again.
                    Err(e @ (KernelError::Interrupted | KernelError::Gone { .. })) => return Err(e),
                    Err(e) if reserve => {
                        report(&format!(
                            "cannot fetch {} ({}), using one that is downloaded",
                            candidate.release,
                            e.brief()
                        ));
                        unreachable = Some(e);
                        continue;
                    }
                    Err(e) => return Err(e),
                },
                (None, None) => continue,
            };
            let Some(reason) = meta.unfit() else {
                if let BtfHealth::Unknown(reason) = &meta.btf {
                    report(&format!("the BTF of {} could not be checked: {reason}", meta.release));
                }
                return Ok(meta);
            };
            if candidates.len() > 1 {
                report(&format!("skipping kernel {}: it {reason}", meta.release));
            }
            tried.push((meta.release.clone(), reason));
            last_unfit = Some(meta);
        }
        if let Some(error) = unreachable {
            return Err(error);
        }
        let proposal = self.proposal(wanted);
        match last_unfit {
            Some(meta) if candidates.len() == 1 => Err(match meta.btf {
                BtfHealth::Malformed(kfuncs) => {
                    KernelError::MalformedBtf { release: meta.release, kfuncs, proposal }
                }
                _ => KernelError::NoSchedExt { release: meta.release, proposal },
            }),
            Some(_) => Err(KernelError::NoneUsable { name: wanted.to_owned(), tried, proposal }),
            None => Err(self.unknown(wanted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::Package;
    use super::*;

    fn offer(release: &str) -> Offer {
        let image = Package { name: format!("linux-binary-{release}"), version: "1".into(), bytes: 1 };
        Offer { release: release.into(), image, config: None, config_of: None }
    }

    fn meta(release: &str, btf: BtfHealth) -> Meta {
        let mut meta = Meta::new(release, "p=1".into(), btf, Some(true));
        meta.image_bytes = meta.unfit().is_none().then_some(1);
        meta
    }

    fn malformed() -> BtfHealth {
        BtfHealth::Malformed(vec!["scx_bpf_x".into()])
    }

    const R12: &str = "7.2.12+deb13-cloud-amd64";
    const R13: &str = "7.2.13+deb14-cloud-amd64";
    const R14: &str = "7.2.14+deb13-cloud-amd64";
    const OLD: &str = "6.18.15+deb13-cloud-amd64";

    /// Chooses with an invented mirror, on which these releases are malformed. Returns which were fetched, too.
    fn choose(all: &Candidates, wanted: &str, bad: &[&str]) -> (Result<String, KernelError>, Vec<String>) {
        let mut fetched = Vec::new();
        let chosen = all.choose(wanted, &|_| {}, &mut |offer| {
            fetched.push(offer.release.clone());
            let bad = bad.contains(&offer.release.as_str());
            Ok(meta(&offer.release, if bad { malformed() } else { BtfHealth::Good }))
        });
        (chosen.map(|meta| meta.release), fetched)
    }

    #[test]
    fn a_series_means_its_newest_that_works() {
        let all = Candidates::new(vec![], &[offer(R12), offer(R14), offer(OLD), offer(R13)]);
        let (chosen, fetched) = choose(&all, "7.2", &[R14, R12]);
        assert_eq!(chosen.unwrap(), R13);
        assert_eq!(fetched, [R14, R13]);
        let (chosen, _) = choose(&all, "7.2.12", &[R14]);
        assert_eq!(chosen.unwrap(), R12);
    }

    #[test]
    fn verdicts_and_images_at_hand_save_downloads() {
        let cached = vec![meta(R14, malformed()), meta(R13, BtfHealth::Good)];
        let all = Candidates::new(cached, &[offer(R12), offer(R13), offer(R14)]);
        let (chosen, fetched) = choose(&all, "7.2", &[]);
        assert_eq!(chosen.unwrap(), R13);
        assert!(fetched.is_empty());
        assert!(all.is_series_default(R13) && !all.is_series_default(R14));
    }

    #[test]
    fn an_exact_wish_for_a_malformed_one_gets_a_proposal() {
        let all = Candidates::new(vec![meta(OLD, BtfHealth::Good)], &[offer(R12)]);
        let (error, _) = choose(&all, R12, &[R12]);
        let Err(KernelError::MalformedBtf { release, kfuncs, proposal }) = error else { panic!() };
        assert_eq!((release.as_str(), kfuncs.len()), (R12, 1));
        assert_eq!(proposal.as_deref(), Some("6.18"));

        let all = Candidates::new(vec![meta(R13, BtfHealth::Good)], &[offer(R12), offer(OLD)]);
        let (error, _) = choose(&all, R12, &[R12]);
        assert!(matches!(error, Err(KernelError::MalformedBtf { proposal: Some(p), .. }) if p == R13));
    }

    #[test]
    fn a_series_of_bad_builds_ends_after_four_downloads() {
        let names: Vec<_> = (1..=6).map(|n| format!("7.1.{n}+deb13-cloud-amd64")).collect();
        let offers: Vec<_> = names.iter().map(|n| offer(n)).collect();
        let bad: Vec<_> = names.iter().map(String::as_str).collect();
        let (error, fetched) = choose(&Candidates::new(vec![], &offers), "7.1", &bad);
        assert_eq!(fetched.len(), 4);
        assert!(matches!(error, Err(KernelError::NoneUsable { tried, .. }) if tried.len() == 4));
    }

    #[test]
    fn offline_the_newest_at_hand_serves() {
        let no_network = |_: &Offer| {
            Err(KernelError::NoNetwork { doing: "x".into(), detail: "y".into(), at_hand: vec![] })
        };
        let all = Candidates::new(vec![meta(R12, BtfHealth::Good)], &[offer(R13), offer(R14)]);
        let chosen = all.choose("7.2", &|_| {}, &mut { no_network }).unwrap();
        assert_eq!(chosen.release, R12);
        let all = Candidates::new(vec![], &[offer(R13), offer(R14)]);
        let error = all.choose("7.2", &|_| {}, &mut { no_network });
        assert!(matches!(error, Err(KernelError::NoNetwork { .. })));
    }

    #[test]
    fn an_unknown_wish_lists_what_is_near() {
        let all = Candidates::new(vec![], &[offer(R12), offer(R13), offer(OLD)]);
        let Err(KernelError::Unknown { known, nearest, .. }) = choose(&all, "6.81", &[]).0 else { panic!() };
        assert_eq!(known, ["6.18", "7.2"]);
        assert_eq!(nearest.as_deref(), Some("6.18"));
        let Err(KernelError::Unknown { known, nearest, .. }) = choose(&all, "7.2.31", &[]).0 else {
            panic!()
        };
        assert_eq!(known, ["7.2.12", "7.2.13"]);
        assert_eq!(nearest.as_deref(), Some("7.2.13"));
    }
}
