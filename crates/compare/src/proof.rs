//! The proof that schedulers were in force, as a report's file has it: what the kernel reported in many runs alike is there
//! once.
use crate::execute::{Attachment, Proof};
use crate::result::{AttachedProof, RunProof};
use serde::{Deserialize, Serialize};

/// All runs of a workload under a scheduler.
#[derive(Serialize, Deserialize)]
pub(crate) struct InFile {
    verified: usize,
    of: usize,
    /// By what the kernel reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seen: Vec<Seen>,
    /// Version 1 has each run in full instead.
    #[serde(default, skip_serializing)]
    runs: Vec<RunProof>,
}

/// Runs in which the kernel reported the same.
#[derive(Serialize, Deserialize)]
struct Seen {
    runs: Vec<usize>,
    #[serde(flatten)]
    report: SeenReport,
    /// Of each run, at its start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    enable_seq: Vec<u64>,
    /// Of each run, at its end, where that is not what it was at the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    enable_seq_at_end: Vec<u64>,
}

/// What may be the same in many runs.
#[derive(PartialEq, Serialize, Deserialize)]
struct SeenReport {
    holds: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    /// At the start and at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    throughout: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_start: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_end: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state_after: Option<String>,
}

/// An [`Attachment`] without what is different in each run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct State {
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ops: Option<String>,
}

impl From<AttachedProof> for InFile {
    fn from(of: AttachedProof) -> Self {
        let mut seen: Vec<Seen> = Vec::new();
        for RunProof { run, proof } in of.runs {
            let [first, last] =
                [&proof.at_start, &proof.at_end].map(|at| at.as_ref().map(|it| it.enable_seq));
            let last = last.filter(|_| last != first);
            let report = SeenReport::of(proof);
            let is_alike =
                |it: &Seen| it.report == report && it.enable_seq_at_end.is_empty() == last.is_none();
            let index = seen.iter().position(is_alike).unwrap_or_else(|| {
                seen.push(Seen::none(report));
                seen.len() - 1
            });
            seen[index].runs.push(run);
            seen[index].enable_seq.extend(first);
            seen[index].enable_seq_at_end.extend(last);
        }
        Self { verified: of.verified, of: of.of, seen, runs: Vec::new() }
    }
}

impl From<InFile> for AttachedProof {
    fn from(file: InFile) -> Self {
        let mut runs = file.runs;
        runs.extend(file.seen.iter().flat_map(Seen::each));
        runs.sort_by_key(|it| it.run);
        Self { verified: file.verified, of: file.of, runs }
    }
}

impl Seen {
    fn none(report: SeenReport) -> Self {
        Self { runs: Vec::new(), report, enable_seq: Vec::new(), enable_seq_at_end: Vec::new() }
    }

    fn each(&self) -> impl Iterator<Item = RunProof> {
        let SeenReport { holds, class, throughout, at_start, at_end, state_after } = &self.report;
        self.runs.iter().enumerate().map(move |(index, run)| {
            let attachment = |state: &Option<State>, sequences: &[u64]| {
                let State { state, ops } = throughout.as_ref().or(state.as_ref())?.clone();
                Some(Attachment { state, ops, enable_seq: sequences.get(index).copied().unwrap_or_default() })
            };
            let at_the_end = match self.enable_seq_at_end.is_empty() {
                true => &self.enable_seq,
                false => &self.enable_seq_at_end,
            };
            let proof = Proof {
                holds: *holds,
                class: class.clone(),
                at_start: attachment(at_start, &self.enable_seq),
                at_end: attachment(at_end, at_the_end),
                state_after: state_after.clone(),
            };
            RunProof { run: *run, proof }
        })
    }
}

impl SeenReport {
    fn of(Proof { holds, class, at_start, at_end, state_after }: Proof) -> Self {
        let state = |of: Attachment| State { state: of.state, ops: of.ops };
        let (at_start, at_end) = (at_start.map(state), at_end.map(state));
        let (throughout, at_start, at_end) = match at_start == at_end {
            true => (at_start, None, None),
            false => (None, at_start, at_end),
        };
        Self { holds, class, throughout, at_start, at_end, state_after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(state: &str, ops: Option<&str>, enable_seq: u64) -> Option<Attachment> {
        Some(Attachment { state: state.into(), ops: ops.map(Into::into), enable_seq })
    }

    fn proof(holds: bool, at_start: Option<Attachment>, at_end: Option<Attachment>) -> Proof {
        Proof {
            holds,
            class: Some("SCHED_EXT".into()),
            at_start,
            at_end,
            state_after: Some("disabled".into()),
        }
    }

    fn of(proofs: Vec<Proof>) -> AttachedProof {
        let runs =
            proofs.into_iter().enumerate().map(|(index, proof)| RunProof { run: 3 * index + 2, proof });
        let runs: Vec<_> = runs.collect();
        AttachedProof { verified: runs.iter().filter(|it| it.proof.holds).count(), of: runs.len(), runs }
    }

    #[test]
    fn runs_alike_are_there_once_and_come_back() {
        let whole = |seq| proof(true, at("enabled", Some("lavd"), seq), at("enabled", Some("lavd"), seq));
        let ejected = |seq| proof(false, at("enabled", Some("lavd"), seq), at("disabled", None, seq));
        let replaced =
            |seq| proof(false, at("enabled", Some("lavd"), seq), at("enabled", Some("lavd"), seq + 1));
        let none = || proof(false, None, None);
        let late = proof(false, None, at("enabled", None, 9));
        let lost = proof(false, at("enabled", None, 9), None);
        let all = [
            vec![whole(4), whole(5), ejected(6), whole(8), replaced(9), replaced(11), whole(13)],
            vec![none(), Proof::default(), none(), late, lost],
            Vec::new(),
        ];
        for (proofs, groups) in all.into_iter().zip([3, 4, 0]) {
            let of = of(proofs);
            let file = InFile::from(of.clone());
            assert_eq!(file.seen.len(), groups);
            let text = serde_json::to_string(&of).unwrap();
            assert_eq!(serde_json::from_str::<AttachedProof>(&text).unwrap(), of, "{text}");
        }
    }

    #[test]
    fn a_usual_proof_is_short() {
        let whole = |seq| proof(true, at("enabled", Some("x"), seq), at("enabled", Some("x"), seq));
        let text = serde_json::to_string(&of(vec![whole(4), whole(7)])).unwrap();
        let seen =
            r#"{"runs":[2,5],"holds":true,"class":"SCHED_EXT","throughout":{"state":"enabled","ops":"x"},"#;
        let rest = r#""state_after":"disabled","enable_seq":[4,7]}"#;
        assert_eq!(text, format!(r#"{{"verified":2,"of":2,"seen":[{seen}{rest}]}}"#));
    }

    #[test]
    fn version_1_has_each_run_in_full() {
        let text = r#"{ "verified": 1, "of": 1, "runs": [{ "run": 19, "holds": true, "class": "SCHED_OTHER",
            "at_start": { "state": "disabled", "ops": null, "enable_seq": 4 },
            "at_end": { "state": "disabled", "ops": null, "enable_seq": 4 }, "state_after": "disabled" }] }"#;
        let read: AttachedProof = serde_json::from_str(text).unwrap();
        let class = Some("SCHED_OTHER".into());
        let off = || at("disabled", None, 4);
        let proof = Proof { class, ..proof(true, off(), off()) };
        assert_eq!(read.runs, [RunProof { run: 19, proof }]);
    }
}
