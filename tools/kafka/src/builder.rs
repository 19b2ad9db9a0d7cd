//! What a cluster is started with, and its start.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::config::Member;
use crate::jars::Jars;
use crate::node::{self, Node};
use crate::run::{self, Run};
use crate::{Error, ErrorKind, admin, config, files, ports};

/// The settings of a [`Cluster`]: one node on any free port unless said otherwise.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is started before `start`"]
pub struct Builder {
    nodes: Option<usize>,
    first_port: Option<u16>,
    properties: Vec<(String, String)>,
}

impl Builder {
    /// How many nodes, at least 1. Three survive the loss of one.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Prefers this port for the first node, the next one for the second, and so on; a port that is taken is replaced
    /// by any free one.
    pub fn first_port(mut self, port: u16) -> Self {
        self.first_port = Some(port);
        self
    }

    /// Sets a property of Kafka's `server.properties` for all nodes; it overrides the one of this crate.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((key.into(), value.into()));
        self
    }

    /// Starts the nodes and waits until all of them serve and consumer groups can be joined.
    ///
    /// First ends what crashed owners of earlier clusters left running. The very first start in a checkout fetches
    /// Kafka.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Tool`] and [`ErrorKind::Jars`] when Kafka cannot be had, [`ErrorKind::Start`] when a node gives
    /// up, [`ErrorKind::Deadline`] when one does not serve after a minute; the text has the end of the node's log.
    pub fn start(self) -> Result<Cluster, Error> {
        if self.nodes == Some(0) {
            return Err(Error::new(ErrorKind::State, "a cluster needs at least one node"));
        }
        let home = files::home()?;
        let jars = Jars::fetched(&home)?;
        run::reap(&home)?;
        for _ in 1..ATTEMPTS {
            let cluster = self.prepare(&home, &jars)?;
            match launch(&cluster) {
                // Another process took a port between the choice and the start.
                Err(error) if error.to_string().contains("Address already in use") => {}
                other => return other.map(|()| cluster),
            }
        }
        let cluster = self.prepare(&home, &jars)?;
        launch(&cluster).map(|()| cluster)
    }

    fn prepare(&self, home: &Path, jars: &Jars) -> Result<Cluster, Error> {
        let failed = |e| Error::io(format!("cannot prepare a run in {}", home.display()), e);
        let members = self
            .members()
            .map_err(|e| Error::io("cannot find free ports", e))?;
        let run = Run::create(home).map_err(failed)?;
        let cluster_id = config::random_id();
        let node = |member: &Member| Node::new(*member, run::node_dir(run.dir(), member.id));
        let nodes: Vec<Node> = members.iter().map(node).collect();
        for node in &nodes {
            node::prepare(node, jars, &cluster_id, &members, &self.properties).map_err(failed)?;
        }
        Ok(Cluster::new(cluster_id, nodes, jars.clone(), run))
    }

    fn members(&self) -> std::io::Result<Vec<Member>> {
        let nodes = self.nodes.unwrap_or(1);
        let mut free = ports::free(2 * nodes)?.into_iter();
        let pairs = std::iter::from_fn(|| Some((free.next()?, free.next()?)));
        let member = |(id, (port, controller_port))| {
            let preferred = self.first_port.and_then(|first| first.checked_add(id));
            let port = preferred.filter(|port| ports::is_free(*port)).unwrap_or(port);
            Member {
                id: i32::from(id) + 1,
                port,
                controller_port,
            }
        };
        Ok((0_u16..).zip(pairs).map(member).collect())
    }
}

fn launch(cluster: &Cluster) -> Result<(), Error> {
    for node in cluster.nodes() {
        cluster.spawn(node)?;
    }
    let deadline = Instant::now() + READY_DEADLINE;
    for node in cluster.nodes() {
        cluster.wait_until_ready(node, cluster.nodes().len(), deadline)?;
    }
    admin::warm_up(&cluster.bootstrap()).map_err(|e| admin::refused("prepare the group coordinator", e))
}

/// Three nodes need 4 s on two idle cores; a machine that is busy with builds needs a multiple.
pub(crate) const READY_DEADLINE: Duration = Duration::from_secs(60);

/// Ports collide only between clusters that start in the same second.
const ATTEMPTS: usize = 5;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn members_have_ids_from_one_and_ports_of_their_own() {
        let members = Cluster::builder().nodes(3).members().unwrap();
        assert_eq!(
            members.iter().map(|member| member.id).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        let mut ports: Vec<u16> = members.iter().flat_map(|m| [m.port, m.controller_port]).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
    }

    #[test]
    fn a_preferred_port_that_is_taken_is_replaced() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let members = Cluster::builder().first_port(port).members().unwrap();
        assert_ne!(members[0].port, port);
        drop(taken);
        let members = Cluster::builder().first_port(port).members().unwrap();
        assert_eq!(members[0].port, port);
    }

    #[test]
    fn a_cluster_of_no_nodes_is_refused() {
        assert_eq!(Cluster::start(0).unwrap_err().kind(), ErrorKind::State);
    }
}
