//! The folder of one cluster, and the end of those whose owner is gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::files::Lock;
use crate::process::{self, Process};
use crate::{Error, files};

/// A run: its folder, what is written about it, and the lock that tells other processes that its owner lives.
#[derive(Debug)]
pub(crate) struct Run {
    dir: PathBuf,
    record: Mutex<Record>,
    _owner: Lock,
}

/// `run.json`: what another process has to know to end this run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// It is meant to outlive the process that started it, until `kafka down`.
    pub(crate) detached: bool,
    /// The process of each node that was started, also of those that have ended.
    pub(crate) nodes: Vec<NodeRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub(crate) id: i32,
    pub(crate) port: u16,
    pub(crate) process: Process,
}

impl Run {
    pub(crate) fn create(home: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(8)
            .tempdir_in(home)?
            .keep();
        // A run is looked at by others from when it has a record; by then it is locked.
        let owner = files::lock(&dir.join(OWNER))?;
        files::write_json(&dir.join(RECORD), &Record::default())?;
        Ok(Self {
            dir,
            record: Mutex::default(),
            _owner: owner,
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes down the process that node `id` has now.
    pub(crate) fn note(&self, node: NodeRecord) -> io::Result<()> {
        self.update(|record| {
            record.nodes.retain(|known| known.id != node.id);
            record.nodes.push(node);
        })
    }

    /// Lets the nodes outlive this process.
    pub(crate) fn detach(&self) -> io::Result<()> {
        self.update(|record| record.detached = true)
    }

    fn update(&self, change: impl FnOnce(&mut Record)) -> io::Result<()> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut record);
        files::write_json(&self.dir.join(RECORD), &*record)
    }
}

impl Record {
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        files::read_json(&dir.join(RECORD))
    }

    pub(crate) fn processes(&self) -> Vec<Process> {
        self.nodes.iter().map(|node| node.process).collect()
    }
}

/// Ends the nodes of runs whose owner died, and removes their data; their logs stay for a day.
pub(crate) fn reap(home: &Path) -> Result<(), Error> {
    for dir in runs(home)? {
        reap_one(&dir).map_err(|e| Error::io(format!("cannot end what is left of {}", dir.display()), e))?;
    }
    Ok(())
}

/// Ends every run that was left running on purpose; returns how many nodes were alive.
pub(crate) fn end_detached(home: &Path) -> Result<usize, Error> {
    let mut alive = 0;
    for dir in runs(home)? {
        let ended =
            end_if_detached(&dir).map_err(|e| Error::io(format!("cannot end {}", dir.display()), e))?;
        alive += ended;
    }
    Ok(alive)
}

fn reap_one(dir: &Path) -> io::Result<()> {
    let record = match Record::read(dir)? {
        Some(record) if record.detached => return Ok(()),
        Some(record) => record,
        // Just being created, or being removed, or cut off between the two.
        None if is_old(dir) => return files::remove_dir(dir),
        None => return Ok(()),
    };
    let _owner = match files::try_lock(&dir.join(OWNER)) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    process::kill(&record.processes())?;
    if is_old(dir) {
        return files::remove_dir(dir);
    }
    record
        .nodes
        .iter()
        .try_for_each(|node| files::remove_dir(&node_dir(dir, node.id).join(DATA)))
}

fn end_if_detached(dir: &Path) -> io::Result<usize> {
    let Some(record) = Record::read(dir)?.filter(|record| record.detached) else {
        return Ok(0);
    };
    let processes = record.processes();
    let alive = processes.iter().filter(|process| process.is_alive()).count();
    process::kill(&processes)?;
    files::remove_dir(dir)?;
    Ok(alive)
}

fn runs(home: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |e| Error::io(format!("cannot list {}", home.display()), e);
    let mut runs = Vec::new();
    for entry in fs::read_dir(home).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            runs.push(entry.path());
        }
    }
    Ok(runs)
}

fn is_old(dir: &Path) -> bool {
    let modified = fs::metadata(dir).and_then(|meta| meta.modified());
    let age = modified
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > KEEP_LOGS)
}

/// The folder of a node inside that of its run.
pub(crate) fn node_dir(run: &Path, id: i32) -> PathBuf {
    run.join(format!("node-{id}"))
}

/// The data of a node inside its folder.
pub(crate) const DATA: &str = "data";

/// Long enough to look into a failure of yesterday's last run.
const KEEP_LOGS: Duration = Duration::from_secs(24 * 60 * 60);

const PREFIX: &str = "run-";
const RECORD: &str = "run.json";
const OWNER: &str = "owner.lock";

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A stand-in for a node, noted in `run`.
    fn node(run: &Run) -> (Child, Process) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        run.note(NodeRecord {
            id: 1,
            port: 9092,
            process,
        })
        .unwrap();
        fs::create_dir_all(node_dir(run.dir(), 1).join(DATA)).unwrap();
        (child, process)
    }

    #[test]
    fn a_run_whose_owner_lives_is_left_alone_and_one_whose_owner_is_gone_is_ended() {
        let home = tempfile::tempdir().unwrap();
        let run = Run::create(home.path()).unwrap();
        let (mut child, process) = node(&run);

        reap(home.path()).unwrap();
        assert!(process.is_alive());

        let dir = run.dir().to_owned();
        drop(run);
        reap(home.path()).unwrap();
        assert!(!process.is_alive());
        assert!(node_dir(&dir, 1).exists() && !node_dir(&dir, 1).join(DATA).exists());
        child.wait().unwrap();
    }

    #[test]
    fn a_detached_run_outlives_its_owner_until_it_is_ended() {
        let home = tempfile::tempdir().unwrap();
        let run = Run::create(home.path()).unwrap();
        let (mut child, process) = node(&run);
        run.detach().unwrap();
        let dir = run.dir().to_owned();
        drop(run);

        reap(home.path()).unwrap();
        assert!(process.is_alive());
        assert_eq!(end_detached(home.path()).unwrap(), 1);
        assert!(!process.is_alive() && !dir.exists());
        assert_eq!(end_detached(home.path()).unwrap(), 0);
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_took_the_pid_of_a_node_is_not_ended() {
        let home = tempfile::tempdir().unwrap();
        let run = Run::create(home.path()).unwrap();
        let (mut child, process) = node(&run);
        let gone = Process {
            started: process.started - 1,
            ..process
        };
        run.note(NodeRecord {
            id: 1,
            port: 9092,
            process: gone,
        })
        .unwrap();
        drop(run);

        reap(home.path()).unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_record_has_the_latest_process_of_each_node() {
        let home = tempfile::tempdir().unwrap();
        let run = Run::create(home.path()).unwrap();
        for started in [1, 2] {
            let process = Process { pid: 1, started };
            run.note(NodeRecord {
                id: 1,
                port: 9092,
                process,
            })
            .unwrap();
        }
        let record = Record::read(run.dir()).unwrap().unwrap();
        assert_eq!(record.processes(), [Process { pid: 1, started: 2 }]);
        assert!(!record.detached);
    }
}
