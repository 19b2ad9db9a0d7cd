//! Kills a node when the process that started it dies without ending it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::process::Process;

/// A shell that waits for the end of a pipe whose other end only the owner holds: the system closes it when the owner
/// dies, however that happens. Dropping the value calls the watchdog off.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    pub(crate) fn over(process: Process) -> io::Result<Self> {
        let shell = Command::new("sh")
            .args([
                "-c",
                SCRIPT,
                "kafka-watchdog",
                &process.pid.to_string(),
                &process.started.to_string(),
            ])
            .current_dir("/")
            // Out of reach of a Ctrl-C meant for the owner.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell })
    }
}

impl Drop for Watchdog {
    /// Kills the shell before `Child` closes the pipe.
    fn drop(&mut self) {
        // Both fail only if the shell is gone already.
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

/// Arguments: pid, start time (field 22 of the stat line; `java` has no space in its name).
const SCRIPT: &str = r#"
read -r _
[ "$(cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null)" = "$2" ] && kill -9 "$1"
"#;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn target() -> (Child, Process) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        (child, process)
    }

    #[test]
    fn the_end_of_the_pipe_kills_the_process() {
        let (mut child, process) = target();
        let mut watchdog = Watchdog::over(process).unwrap();
        drop(watchdog.shell.stdin.take());
        assert!(process.wait(Instant::now() + Duration::from_secs(10)));
        child.wait().unwrap();
    }

    #[test]
    fn a_watchdog_that_was_called_off_and_one_over_a_reused_pid_kill_nothing() {
        let (mut child, process) = target();
        drop(Watchdog::over(process).unwrap());
        let mut stale = Watchdog::over(Process {
            started: process.started - 1,
            ..process
        })
        .unwrap();
        drop(stale.shell.stdin.take());
        stale.shell.wait().unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
