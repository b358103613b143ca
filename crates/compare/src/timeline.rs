//! `--timeline`: what ran where in one more run of each scheduler, from the machine to the page.
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flsched_recording::timeline::Timeline;
use flsched_recording::{Error, Ns, Recording};
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;

/// A recording, and the part of it in which the workload ran, as it goes through the agent's pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The recording's file, in base 64.
    file: String,
    /// In nanoseconds since it began.
    part: Range<Ns>,
}

impl Recorded {
    /// This part of it.
    pub(crate) fn new(recording: &Recording, part: Range<Ns>) -> io::Result<Self> {
        let mut file = Vec::new();
        recording.write_to(&mut file)?;
        Ok(Self { file: BASE64.encode(file), part })
    }

    /// What it looks like.
    pub(crate) fn timeline(&self) -> Result<Timeline, Error> {
        let path = "the recording";
        let damaged =
            |error: base64::DecodeError| Error::Damaged { path: path.into(), what: error.to_string() };
        let file = BASE64.decode(&self.file).map_err(damaged)?;
        Ok(Recording::read_from(&file[..], path)?.timeline().part(self.part.clone()))
    }
}
