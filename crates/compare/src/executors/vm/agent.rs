//! The measuring program inside a VM. It reads requests, executes them and writes answers, as one line of JSON each.
//!
//! It ends when its input ends. The executor [`super`] talks to it.
use crate::environment::Environment;
use crate::execute::{ExecError, Executor, RunOutcome, RunRequest};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// A request to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase")]
pub enum Request {
    Environment,
    /// Carry out a run.
    Run(RunRequest),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// The answer to [`Request::Environment`].
    Environment(Box<Environment>),
    /// The answer to [`Request::Run`].
    Run(Box<RunOutcome>),
    /// The answer to either if the machine cannot do it.
    Unable { message: String },
}

/// Answers all requests. `executor` does the runs; inside a VM it is a [`crate::HostExecutor`].
pub fn serve(input: impl BufRead, mut output: impl Write, executor: &mut dyn Executor) -> io::Result<()> {
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer(request, executor),
            Err(error) => Answer::Unable { message: format!("not a request: {error}") },
        };
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(request: Request, executor: &mut dyn Executor) -> Answer {
    let unable = |error: ExecError| Answer::Unable { message: error.to_string() };
    match request {
        Request::Environment => executor
            .environment()
            .map_or_else(unable, |environment| Answer::Environment(Box::new(environment))),
        Request::Run(request) => {
            executor.run(&request).map_or_else(unable, |outcome| Answer::Run(Box::new(outcome)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::Ending;
    use crate::{Target, Workload};

    struct Constant;

    impl Executor for Constant {
        fn environment(&mut self) -> Result<Environment, ExecError> {
            Err(ExecError::Unable("no idea".into()))
        }
        fn run(&mut self, _request: &RunRequest) -> Result<RunOutcome, ExecError> {
            Ok(RunOutcome::without_measurement(Ending::Timed { time_s: 0.25 }))
        }
    }

    fn dialogue(input: &str) -> Vec<Answer> {
        let mut output = Vec::new();
        serve(input.as_bytes(), &mut output, &mut Constant).unwrap();
        let lines = String::from_utf8(output).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn one_answer_to_each_request() {
        let request = Request::Run(RunRequest {
            scheduler: "eevdf".parse().unwrap(),
            waits: None,
            workload: Workload::read("spin-barrier:2:1:1", Target::Vm).unwrap(),
            limit_s: 1.0,
            seed: 0,
            probe: None,
        });
        let line = serde_json::to_string(&request).unwrap();
        let answers = dialogue(&format!("{line}\n\n{{\"request\":\"environment\"}}\nrubbish\n"));
        assert_eq!(answers.len(), 3);
        assert!(matches!(&answers[0], Answer::Run(outcome) if outcome.time_s() == Some(0.25)));
        assert!(matches!(&answers[1], Answer::Unable { message } if message == "no idea"));
        assert!(matches!(&answers[2], Answer::Unable { message } if message.contains("request")));
    }
}
