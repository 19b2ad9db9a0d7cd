//! Processes named so that a reused pid is never mistaken for the process that had it.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process of this machine: its pid and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Clock ticks from the boot of the machine to the start of the process.
    pub(crate) started: u64,
}

impl Process {
    /// The process that has `pid` now.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let Stat { started, .. } =
            parse(&stat).ok_or_else(|| io::Error::other("/proc has an unknown format"))?;
        Ok(Self { pid, started })
    }

    /// Whether it runs: neither gone, nor waiting to be collected by its parent, nor followed by another process.
    pub(crate) fn is_alive(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        parse(&stat).is_some_and(|stat| stat.started == self.started && !stat.is_over())
    }

    /// Sends a signal; does nothing when the process is gone.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        match kill_process(pid, signal) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Stops it in its tracks (SIGSTOP), and waits until no thread of it runs: for some microseconds after the signal they
    /// do, enough to answer a request.
    pub(crate) fn stop(self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let deadline = Instant::now() + STOP_DEADLINE;
        while self.is_alive() && !self.is_stopped() {
            if Instant::now() >= deadline {
                return Err(io::Error::other(format!("process {} ignores SIGSTOP", self.pid)));
            }
            pause();
        }
        Ok(())
    }

    fn is_stopped(self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid));
        threads.into_iter().flatten().flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // One that is gone has no state.
            parse(&stat).is_none_or(|stat| stat.state == 'T')
        })
    }

    /// Waits until it is gone, at most until `deadline`; returns whether it is.
    pub(crate) fn wait(self, deadline: Instant) -> bool {
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            pause();
        }
        true
    }
}

/// Kills processes, also frozen ones, and waits until they are gone.
pub(crate) fn kill(processes: &[Process]) -> io::Result<()> {
    processes
        .iter()
        .try_for_each(|process| process.signal(Signal::KILL))?;
    let deadline = Instant::now() + KILL_DEADLINE;
    match processes.iter().find(|process| !process.wait(deadline)) {
        None => Ok(()),
        Some(process) => Err(io::Error::other(format!(
            "process {} outlives SIGKILL",
            process.pid
        ))),
    }
}

/// One step of a poll with a deadline.
#[expect(
    clippy::disallowed_methods,
    reason = "the calls of this crate block, and /proc and ports have no events"
)]
pub(crate) fn pause() {
    std::thread::sleep(POLL_INTERVAL);
}

/// What `/proc/<pid>/stat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    threads: u32,
    started: u64,
}

impl Stat {
    /// A process whose first thread has ended is shown as a zombie while the others still hold its ports and files.
    fn is_over(self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

/// Reads a stat line, see proc(5). The command name in it may hold spaces and parentheses, but its own closing one is
/// the last.
fn parse(stat: &str) -> Option<Stat> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The state is field 3, the threads are field 20, the start is field 22.
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let threads = fields.nth(16)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Stat {
        state,
        threads,
        started,
    })
}

/// Short beside the 200 ms that a node needs at least for anything, and less than 1 % of a core.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A thread that waits for a disk is stopped when that has answered.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// A killed process of half a gigabyte is gone after tens of milliseconds.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_command_name() {
        let tail = "S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 2 21 4711 23";
        let found = Some(Stat {
            state: 'S',
            threads: 2,
            started: 4711,
        });
        assert_eq!(parse(&format!("12 (java) {tail}")), found);
        assert_eq!(parse(&format!("12 (a) b (c)) {tail}")), found);
        assert_eq!(parse("12 (java) S 1"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_process_that_was_stopped_does_not_run() {
        let mut busy = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let process = Process::of(busy.id()).unwrap();
        assert!(!process.is_stopped());
        process.stop().unwrap();
        assert!(process.is_alive() && process.is_stopped());
        busy.kill().unwrap();
        busy.wait().unwrap();
        process.stop().expect("nothing to stop");
    }

    #[test]
    fn a_zombie_is_over_when_its_last_thread_is() {
        let stat = |state, threads| Stat {
            state,
            threads,
            started: 1,
        };
        assert!(stat('Z', 1).is_over() && !stat('Z', 2).is_over() && !stat('S', 1).is_over());
    }

    #[test]
    fn a_process_with_the_same_pid_and_another_start_is_neither_alive_nor_signalled() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let earlier = Process {
            started: process.started - 1,
            ..process
        };
        assert!(process.is_alive() && !earlier.is_alive());

        earlier.signal(Signal::KILL).unwrap();
        assert!(process.is_alive());

        kill(&[process]).unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_frozen_process_is_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        process.signal(Signal::STOP).unwrap();
        kill(&[process]).unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
    }
}
