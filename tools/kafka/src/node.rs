//! One Kafka node: a Java process with its settings, data and log.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::config::Member;
use crate::jars::{Jars, java_missing};
use crate::process::Process;
use crate::run::{DATA, NodeRecord, Run};
use crate::watchdog::Watchdog;
use crate::{Error, ErrorKind, config, files};

/// A node of a [`Cluster`](crate::Cluster): a broker and a controller in one process.
#[derive(Debug)]
pub struct Node {
    member: Member,
    dir: PathBuf,
    state: Mutex<Option<Running>>,
}

/// The process of a node and what comes with it. The watchdog stands first: it has to be called off before the child
/// is collected, when the system may give its pid away.
#[derive(Debug)]
struct Running {
    watchdog: Option<Watchdog>,
    child: Child,
    process: Process,
    frozen: bool,
}

impl Node {
    pub(crate) fn new(member: Member, dir: PathBuf) -> Self {
        Self {
            member,
            dir,
            state: Mutex::new(None),
        }
    }

    /// The node's id, which is also Kafka's id of the broker; the first node has 1.
    pub fn id(&self) -> i32 {
        self.member.id
    }

    /// `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.member.port)
    }

    /// The file that Kafka logs to.
    pub fn log(&self) -> PathBuf {
        self.dir.join("kafka.log")
    }

    /// Whether the process exists; a frozen one does.
    pub fn is_running(&self) -> bool {
        self.process().is_some_and(Process::is_alive)
    }

    /// Whether the process can do anything: it exists and is not frozen.
    pub(crate) fn is_active(&self) -> bool {
        self.state()
            .as_ref()
            .is_some_and(|running| !running.frozen && running.process.is_alive())
    }

    pub(crate) fn port(&self) -> u16 {
        self.member.port
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join(DATA)
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    pub(crate) fn process(&self) -> Option<Process> {
        self.state().as_ref().map(|running| running.process)
    }

    /// Starts the process; the node does not serve yet.
    pub(crate) fn spawn(&self, jars: &Jars, options: &[&str], run: &Run) -> Result<(), Error> {
        let mut state = self.state();
        if state.as_ref().is_some_and(|running| running.process.is_alive()) {
            return Err(Error::new(
                ErrorKind::State,
                format!("node {} is running already", self.id()),
            ));
        }
        collect(state.take());
        let failed = |e| Error::io(format!("cannot start node {}", self.id()), e);
        let mut child = self
            .command(jars, options)
            .map_err(failed)?
            .spawn()
            .map_err(java_missing)?;
        let watched = Process::of(child.id()).and_then(|process| {
            run.note(NodeRecord {
                id: self.id(),
                port: self.port(),
                process,
            })?;
            Ok((process, Watchdog::over(process)?))
        });
        match watched {
            Ok((process, watchdog)) => {
                *state = Some(Running {
                    watchdog: Some(watchdog),
                    child,
                    process,
                    frozen: false,
                });
                Ok(())
            }
            Err(e) => {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                Err(failed(e))
            }
        }
    }

    /// Kills the process and waits for its end.
    pub(crate) fn kill(&self) -> Result<(), Error> {
        let mut state = self.state();
        let running = self.expect_running(&mut state)?;
        running.watchdog = None;
        let killed = running.child.kill().and_then(|()| running.child.wait());
        *state = None;
        killed
            .map(drop)
            .map_err(|e| Error::io(format!("cannot kill node {}", self.id()), e))
    }

    /// Asks the process to end and waits until it has.
    pub(crate) fn terminate(&self, grace: Duration) -> Result<(), Error> {
        let process = self.signal(Signal::TERM)?;
        self.thaw()?;
        if !process.wait(Instant::now() + grace) {
            let message = format!(
                "node {} did not end within {grace:?} of SIGTERM: kill it",
                self.id()
            );
            return Err(Error::new(ErrorKind::Deadline, message));
        }
        collect(self.state().take());
        Ok(())
    }

    pub(crate) fn freeze(&self) -> Result<(), Error> {
        let process = self.expect_running(&mut self.state())?.process;
        process
            .stop()
            .map_err(|e| Error::io(format!("cannot freeze node {}", self.id()), e))?;
        self.set_frozen(true);
        Ok(())
    }

    pub(crate) fn thaw(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)?;
        self.set_frozen(false);
        Ok(())
    }

    /// Lets the process outlive this one.
    pub(crate) fn release(&self) {
        if let Some(running) = self.state().as_mut() {
            running.watchdog = None;
        }
    }

    /// Collects a process that has ended.
    pub(crate) fn bury(&self) {
        collect(self.state().take_if(|running| !running.process.is_alive()));
    }

    fn command(&self, jars: &Jars, options: &[&str]) -> io::Result<Command> {
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = jars.java();
        command
            .args(options)
            .args(LOG_OPTIONS)
            .arg("kafka.Kafka")
            .arg(self.settings())
            .current_dir(&self.dir)
            // Out of reach of a Ctrl-C meant for the owner, which decides itself what becomes of the nodes.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    fn signal(&self, signal: Signal) -> Result<Process, Error> {
        let mut state = self.state();
        let process = self.expect_running(&mut state)?.process;
        process
            .signal(signal)
            .map_err(|e| Error::io(format!("cannot signal node {}", self.id()), e))?;
        Ok(process)
    }

    fn expect_running<'a>(&self, state: &'a mut Option<Running>) -> Result<&'a mut Running, Error> {
        state
            .as_mut()
            .filter(|running| running.process.is_alive())
            .ok_or_else(|| Error::new(ErrorKind::State, format!("node {} is not running", self.id())))
    }

    fn set_frozen(&self, frozen: bool) {
        if let Some(running) = self.state().as_mut() {
            running.frozen = frozen;
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Running>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prepares the folder of a node: settings and formatted data.
pub(crate) fn prepare(
    node: &Node,
    jars: &Jars,
    cluster_id: &str,
    members: &[Member],
    extra: &[(String, String)],
) -> io::Result<()> {
    jars.format(&node.data(), cluster_id, node.id())?;
    let settings = config::server(node.member, members, &node.data(), extra);
    std::fs::write(node.settings(), settings)
}

/// The error of a node that ended while it was starting.
pub(crate) fn ended_early(node: &Node) -> Error {
    let log = end_of_log(&node.log());
    Error::new(
        ErrorKind::Start,
        format!(
            "node {} ended while it was starting, see its log:\n{log}",
            node.id()
        ),
    )
}

/// The error of a node that does not serve in time.
pub(crate) fn not_ready(node: &Node, waited: Duration) -> Error {
    let log = end_of_log(&node.log());
    let message = format!(
        "node {} does not serve after {waited:?}, see its log:\n{log}",
        node.id()
    );
    Error::new(ErrorKind::Deadline, message)
}

fn end_of_log(log: &Path) -> String {
    format!("{}\n(the whole log: {})", files::tail(log, 20), log.display())
}

fn collect(running: Option<Running>) {
    if let Some(Running {
        watchdog, mut child, ..
    }) = running
    {
        drop(watchdog);
        // Fails only for a child that was collected before.
        drop(child.wait());
    }
}

/// Times in the log, but not the 500 settings that every node would print.
const LOG_OPTIONS: [&str; 3] = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
];
