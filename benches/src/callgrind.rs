//! Instructions by thread, counted by callgrind.

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Stdio};

use ruststream::BoxError;

/// The instructions of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Instructions {
    /// On the main thread: the runtime with the service or the sender, and the control task.
    pub main: u64,
    /// On other threads that Rust code started: helper threads of ours, the polling thread of a raw producer.
    pub helpers: u64,
    /// On librdkafka's own threads, where of ours only callbacks run: edge, log, acknowledgement.
    pub librdkafka: u64,
}

impl Instructions {
    fn add(&mut self, total: u64, owner: Owner) {
        *match owner {
            Owner::Main => &mut self.main,
            Owner::Helper => &mut self.helpers,
            Owner::Librdkafka => &mut self.librdkafka,
        } += total;
    }
}

/// Who started a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Main,
    Helper,
    Librdkafka,
}

/// Fails unless valgrind runs: better said before anything else is started.
///
/// # Errors
///
/// It does not; with the remedy.
pub fn check() -> Result<(), BoxError> {
    let output = Command::new("valgrind")
        .arg("--version")
        .output()
        .map_err(missing)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(missing(output.status).into())
    }
}

fn missing(reason: impl Display) -> String {
    format!("valgrind does not run ({reason}): `just setup` installs it")
}

/// Runs `command` under callgrind. Returns its standard output, and its instructions.
///
/// # Errors
///
/// Valgrind is missing, or the command failed.
pub fn run(program: &Path, args: &[String]) -> Result<(String, Instructions), BoxError> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(missing)?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{} under valgrind: {}\n{errors}",
            program.display(),
            output.status
        )
        .into());
    }
    let mut instructions = Instructions::default();
    for entry in std::fs::read_dir(folder.path())? {
        let file = std::fs::read(entry?.path())?;
        let (total, owner) = thread(&String::from_utf8_lossy(&file));
        instructions.add(total, owner);
    }
    if instructions.main == 0 {
        return Err("callgrind counted nothing: its output has an unknown form".into());
    }
    Ok((text, instructions))
}

/// The instructions of one thread, and who started it.
///
/// librdkafka starts its own through `thrd_create`; any other is the main thread, or was started by Rust's standard
/// library.
fn thread(file: &str) -> (u64, Owner) {
    let total = file
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .and_then(|total| total.trim().parse().ok());
    let librdkafka = ["rd_kafka_broker_thread_main", "rd_kafka_thread_main"];
    let owner = if file.contains(") main\n") || file.contains("std::rt::lang_start") {
        Owner::Main
    } else if librdkafka.iter().any(|name| file.contains(name)) {
        Owner::Librdkafka
    } else {
        Owner::Helper
    };
    (total.unwrap_or(0), owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_ours_unless_librdkafka_started_it() {
        assert_eq!(
            thread("fn=(1) rd_kafka_broker_thread_main\ntotals: 77\n"),
            (77, Owner::Librdkafka)
        );
        assert_eq!(
            thread("fn=(1) main\nfn=(2) rd_kafka_thread_main\ntotals: 78\n"),
            (78, Owner::Main)
        );
        assert_eq!(
            thread("fn=(1) std::sys::thread::start\ntotals: 5\n"),
            (5, Owner::Helper)
        );
    }
}
