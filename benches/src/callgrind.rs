//! Instructions by thread, counted by callgrind.

use std::path::Path;
use std::process::{Command, Stdio};

use ruststream::BoxError;

/// The instructions of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Instructions {
    /// On threads that run our code: the runtime with the service, the control task, helper threads.
    pub ours: u64,
    /// On librdkafka's own threads, where of ours only the edge callback and the log callback run.
    pub librdkafka: u64,
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
        .map_err(|error| format!("valgrind does not run ({error}): `just setup` installs it"))?;
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
        let (total, ours) = thread(&String::from_utf8_lossy(&file));
        if ours {
            instructions.ours += total;
        } else {
            instructions.librdkafka += total;
        }
    }
    if instructions.ours == 0 {
        return Err("callgrind counted nothing: its output has an unknown form".into());
    }
    Ok((text, instructions))
}

/// The instructions of one thread, and whether it runs our code.
///
/// Every thread of ours was started by Rust's standard library, or is the main thread; librdkafka starts its own
/// through `thrd_create`.
fn thread(file: &str) -> (u64, bool) {
    let total = file
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .and_then(|total| total.trim().parse().ok());
    let librdkafka = file.contains("rd_kafka_broker_thread_main") || file.contains("rd_kafka_thread_main");
    let main = file.contains(") main\n") || file.contains("std::rt::lang_start");
    (total.unwrap_or(0), main || !librdkafka)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_ours_unless_librdkafka_started_it() {
        assert_eq!(
            thread("fn=(1) rd_kafka_broker_thread_main\ntotals: 77\n"),
            (77, false)
        );
        assert_eq!(
            thread("fn=(1) main\nfn=(2) rd_kafka_thread_main\ntotals: 78\n"),
            (78, true)
        );
        assert_eq!(thread("fn=(1) std::sys::thread::start\ntotals: 5\n"), (5, true));
    }
}
