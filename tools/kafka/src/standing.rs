//! A cluster that stays up between commands: `kafka up`, `kafka status`, `kafka down`.

use std::env;
use std::fs;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::run::{self, Record};
use crate::{Error, ErrorKind, files};

/// What [`up`] found or started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Up {
    /// A cluster was started.
    Started(Standing),
    /// One was up already.
    Already(Standing),
    /// `KAFKA_BOOTSTRAP_SERVERS` names a Kafka of the user's.
    External(String),
}

/// A cluster that is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    bootstrap: String,
    run: String,
}

/// The state of one node of a standing cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's id.
    pub id: i32,
    /// The port of the broker on loopback.
    pub port: u16,
    /// The process, which is gone if not `alive`.
    pub pid: u32,
    /// Whether the process exists.
    pub alive: bool,
}

impl Up {
    /// The addresses for a client.
    pub fn bootstrap(&self) -> &str {
        match self {
            Self::Started(standing) | Self::Already(standing) => &standing.bootstrap,
            Self::External(bootstrap) => bootstrap,
        }
    }
}

impl Standing {
    /// The addresses for a client.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The nodes in the order of their ids.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if the cluster's record cannot be read.
    pub fn nodes(&self) -> Result<Vec<NodeStatus>, Error> {
        let dir = files::home()?.join(&self.run);
        let record =
            Record::read(&dir).map_err(|e| Error::io(format!("cannot read {}", dir.display()), e))?;
        let status = |node: run::NodeRecord| {
            let alive = node.process.is_alive();
            NodeStatus {
                id: node.id,
                port: node.port,
                pid: node.process.pid,
                alive,
            }
        };
        Ok(record.unwrap_or_default().nodes.into_iter().map(status).collect())
    }
}

/// Leaves a cluster of `nodes` nodes running, on port 9092 and the next ones where they are free. Does nothing if one
/// of that size is up already, or if `KAFKA_BOOTSTRAP_SERVERS` names a Kafka that answers.
///
/// # Errors
///
/// [`ErrorKind::State`] if a cluster of another size is up, or if nothing answers at `KAFKA_BOOTSTRAP_SERVERS`; those
/// of [`Builder::start`](crate::Builder::start).
pub fn up(nodes: usize) -> Result<Up, Error> {
    if let Some(servers) = external() {
        return check(&servers).map(|()| Up::External(servers));
    }
    let home = files::home()?;
    let _lock = lock(&home)?;
    if let Some(standing) = standing(&home)? {
        let found = standing.nodes()?;
        if found.len() == nodes && found.iter().all(|node| node.alive) {
            return Ok(Up::Already(standing));
        }
        if found.iter().any(|node| node.alive) {
            let message = format!("a cluster of {} nodes is up: run `kafka down` first", found.len());
            return Err(Error::new(ErrorKind::State, message));
        }
    }
    // Nothing lives in it, or its state file is lost.
    run::end_detached(&home)?;
    let cluster = Cluster::builder().nodes(nodes).first_port(KAFKA_PORT).start()?;
    leave(&home, cluster).map(Up::Started)
}

/// Ends what [`up`] left running, also after a crash; returns the number of nodes that were alive.
///
/// # Errors
///
/// [`ErrorKind::Io`] if a process or a file resists.
pub fn down() -> Result<usize, Error> {
    let home = files::home()?;
    let _lock = lock(&home)?;
    run::reap(&home)?;
    let ended = run::end_detached(&home)?;
    match fs::remove_file(home.join(STATE)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(
            format!("cannot remove {}", home.join(STATE).display()),
            e,
        )),
        _ => Ok(ended),
    }
}

/// The cluster that [`up`] left running, also if its nodes have died since.
///
/// # Errors
///
/// [`ErrorKind::Io`] if the state file cannot be read.
pub fn status() -> Result<Option<Standing>, Error> {
    standing(&files::home()?)
}

/// The addresses of the Kafka to use: `KAFKA_BOOTSTRAP_SERVERS`, or the cluster that [`up`] left running.
///
/// # Errors
///
/// [`ErrorKind::State`] if there is neither.
pub fn bootstrap() -> Result<String, Error> {
    if let Some(servers) = external() {
        return Ok(servers);
    }
    let standing =
        status()?.ok_or_else(|| Error::new(ErrorKind::State, "no cluster is up: run `kafka up`"))?;
    Ok(standing.bootstrap)
}

/// The value of `KAFKA_BOOTSTRAP_SERVERS`, if it is set.
pub fn external() -> Option<String> {
    env::var("KAFKA_BOOTSTRAP_SERVERS")
        .ok()
        .filter(|servers| !servers.is_empty())
}

fn leave(home: &Path, cluster: Cluster) -> Result<Standing, Error> {
    let run = cluster
        .run()
        .dir()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let standing = Standing {
        bootstrap: cluster.bootstrap(),
        run,
    };
    let path = home.join(STATE);
    files::write_json(&path, &standing)
        .map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
    let dir = cluster.run().dir();
    cluster
        .run()
        .detach()
        .map_err(|e| Error::io(format!("cannot write to {}", dir.display()), e))?;
    cluster.release();
    Ok(standing)
}

fn standing(home: &Path) -> Result<Option<Standing>, Error> {
    let path = home.join(STATE);
    files::read_json(&path).map_err(|e| Error::io(format!("cannot read {}: remove it", path.display()), e))
}

fn lock(home: &Path) -> Result<files::Lock, Error> {
    let path = home.join("up.lock");
    files::lock(&path).map_err(|e| Error::io(format!("cannot lock {}", path.display()), e))
}

fn check(servers: &str) -> Result<(), Error> {
    let connects = |server: &str| {
        let mut addresses = server.trim().to_socket_addrs().into_iter().flatten();
        addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
    };
    if servers.split(',').any(connects) {
        return Ok(());
    }
    let message = format!(
        "KAFKA_BOOTSTRAP_SERVERS is {servers}, where nothing answers: unset it to start a cluster on this machine"
    );
    Err(Error::new(ErrorKind::State, message))
}

/// The port that Kafka is known by.
const KAFKA_PORT: u16 = 9092;

/// A Kafka across the world answers in less.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

const STATE: &str = "up.json";

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_state_file_is_read_back_and_a_broken_one_is_an_error_with_a_remedy() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(standing(home.path()).unwrap(), None);
        let written = Standing {
            bootstrap: "127.0.0.1:9092".to_owned(),
            run: "run-abc".to_owned(),
        };
        files::write_json(&home.path().join(STATE), &written).unwrap();
        assert_eq!(standing(home.path()).unwrap(), Some(written));
        fs::write(home.path().join(STATE), "not json").unwrap();
        let error = standing(home.path()).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Io && error.to_string().ends_with("remove it"),
            "{error}"
        );
    }

    #[test]
    fn one_server_that_answers_is_enough_and_none_is_an_error() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        check(&format!("127.0.0.1:1, {address}")).unwrap();
        assert_eq!(check("127.0.0.1:1").unwrap_err().kind(), ErrorKind::State);
    }
}
