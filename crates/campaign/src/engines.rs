//! Files with which other programs run the shards: Slurm and HyperQueue.
use crate::{Error, Plan};
use flsched_base::files::{create_folder, replace};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Writes the files for all shards, and returns their paths and how to use them.
pub fn write(folder: &Path, plan: &Plan, program: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let log = folder.join("log");
    create_folder(&log).map_err(Error::file(&log))?;
    let mut files = Vec::new();
    let mut add = |name: &str, text: String, command: &str| {
        let path = folder.join(name);
        replace(&path, text.as_bytes()).map_err(Error::file(&path))?;
        let command = format!("{command} {}", shell_words::quote(&path.to_string_lossy()));
        files.push((path, command));
        Ok(())
    };
    if plan.shards > 0 {
        let text = slurm(folder, program, 1..=plan.shards, "--cpus-per-task=1");
        add("slurm.sh", text, "sbatch")?;
        add("submit-to-hyperqueue.py", hyperqueue(folder, program, plan.shards), "python3")?;
    }
    if !plan.whole_shards().is_empty() {
        // Nothing else may run beside a comparison in real time.
        add("slurm-nodes.sh", slurm(folder, program, plan.whole_shards(), "--exclusive"), "sbatch")?;
    }
    Ok(files)
}

fn slurm(folder: &Path, program: &Path, shards: RangeInclusive<u32>, resources: &str) -> String {
    format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=flsched-campaign\n\
         #SBATCH --array={}-{}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --requeue\n\
         #SBATCH {resources}\n\
         #SBATCH --output=\"{}/slurm-%a.txt\"\n\
         exec {} \"${{SLURM_ARRAY_TASK_ID:?this file is a job of Slurm: sbatch $0}}\"\n",
        shards.start(),
        shards.end(),
        for_slurm(&folder.join("log")),
        shell_words::join(command(folder, program)),
    )
}

/// A path between quotation marks, in a file's name of Slurm, where `%` begins a field.
fn for_slurm(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"")
}

/// Only HyperQueue's Python package is where users can install it from without a compiler.
fn hyperqueue(folder: &Path, program: &Path, shards: u32) -> String {
    let python = |words: &[String]| serde_json::to_string(words).expect("texts");
    let log = folder.join("log").display().to_string();
    include_str!("hyperqueue.py")
        .replace("@COMMAND@", &python(&command(folder, program)))
        .replace("@LOG@", python(&[log]).trim_matches(['[', ']']))
        .replace("@SHARDS@", &shards.to_string())
}

fn command(folder: &Path, program: &Path) -> [String; 4] {
    [&program.to_string_lossy(), "campaign", "run", &folder.to_string_lossy()].map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn simulations_and_nodes_have_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("two words, 5%");
        std::fs::create_dir(&folder).unwrap();
        let files = write(&folder, &plan(3), Path::new("/opt/flsched")).unwrap();
        let names: Vec<_> =
            files.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["slurm.sh", "submit-to-hyperqueue.py", "slurm-nodes.sh"]);
        assert!(files[0].1.starts_with("sbatch '") && files[0].1.ends_with("two words, 5%/slurm.sh'"));
        let text = |index: usize| std::fs::read_to_string(&files[index].0).unwrap();
        assert!(
            text(0).contains("--array=1-3\n") && text(0).contains("two words, 5%' \"${SLURM_ARRAY_TASK_ID:?")
        );
        let log = text(0).lines().find_map(|line| line.strip_prefix("#SBATCH --output=")).unwrap().to_owned();
        assert!(log.starts_with("\"/") && log.ends_with("/two words, 5%%/log/slurm-%a.txt\""), "{log}");
        assert!(text(2).contains("--array=4-4\n") && text(2).contains("--exclusive\n"));
        assert!(text(1).contains("\nCOMMAND = [\"/opt/flsched\",\"campaign\",\"run\",\"/"), "{}", text(1));
        assert!(text(1).contains("\nSHARDS = 3\n") && !text(1).contains('@'), "{}", text(1));
    }
}
