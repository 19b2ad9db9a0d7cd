//! A running cluster.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::builder::{Builder, READY_DEADLINE};
use crate::jars::Jars;
use crate::node::{self, Node};
use crate::process::Process;
use crate::run::Run;
use crate::{Error, ErrorKind, admin, config, files, ports, process};

/// Kafka nodes on this machine, which end when the value is dropped.
///
/// Nodes are named by Kafka's own ids, which count from 1. All methods may be called from several threads.
#[derive(Debug)]
#[must_use = "the nodes end when the cluster is dropped"]
pub struct Cluster {
    id: String,
    nodes: Vec<Node>,
    jars: Jars,
    run: Run,
    released: bool,
}

impl Cluster {
    /// Starts a cluster of `nodes` nodes and waits until it serves: see [`Builder::start`].
    ///
    /// # Errors
    ///
    /// Those of [`Builder::start`].
    pub fn start(nodes: usize) -> Result<Self, Error> {
        Self::builder().nodes(nodes).start()
    }

    /// Settings for a cluster.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(id: String, nodes: Vec<Node>, jars: Jars, run: Run) -> Self {
        Self {
            id,
            nodes,
            jars,
            run,
            released: false,
        }
    }

    /// The addresses of all nodes, for a client's `bootstrap.servers`: `127.0.0.1:<port>,127.0.0.1:<port>`.
    pub fn bootstrap(&self) -> String {
        join(self.nodes.iter())
    }

    /// A `java` command with Kafka's classes, its Java client among them: for what only that can say.
    pub fn java(&self) -> Command {
        self.jars.java()
    }

    /// The nodes in the order of their ids.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id; the first has 1.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if there is none.
    pub fn node(&self, id: i32) -> Result<&Node, Error> {
        let missing = || {
            Error::new(
                ErrorKind::State,
                format!("no node {id}, only 1 to {}", self.nodes.len()),
            )
        };
        self.nodes.iter().find(|node| node.id() == id).ok_or_else(missing)
    }

    /// Whether the node's process exists, frozen or not; `false` also for an id that no node has.
    pub fn is_running(&self, id: i32) -> bool {
        self.node(id).is_ok_and(Node::is_running)
    }

    /// Kills a node (SIGKILL), as a power cut would, and waits for its end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if it is not running.
    pub fn kill(&self, id: i32) -> Result<(), Error> {
        self.node(id)?.kill()
    }

    /// Ends a node in an orderly way (SIGTERM), also a frozen one, and waits at most 30 s for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if it is not running, [`ErrorKind::Deadline`] if it does not end.
    pub fn terminate(&self, id: i32) -> Result<(), Error> {
        self.node(id)?.terminate(TERMINATE_DEADLINE)
    }

    /// Stops a node's process in its tracks (SIGSTOP), and waits until none of its threads runs: its connections stay open
    /// and nothing answers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if it is not running, [`ErrorKind::Io`] if it resists.
    pub fn freeze(&self, id: i32) -> Result<(), Error> {
        self.node(id)?.freeze()
    }

    /// Lets a frozen node go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if it is not running.
    pub fn thaw(&self, id: i32) -> Result<(), Error> {
        self.node(id)?.thaw()
    }

    /// Starts a node again that was killed or terminated, with its data and port, and waits until it serves. It needs
    /// a majority of the nodes to run; after a kill, its cluster lets it in again only after up to 4 s.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if it is running; those of [`Builder::start`].
    pub fn restart(&self, id: i32) -> Result<(), Error> {
        let node = self.node(id)?;
        self.spawn(node)?;
        self.wait_until_ready(node, 1, Instant::now() + READY_DEADLINE)
    }

    /// Creates a topic and waits until every running node shows it with leaders.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Admin`] if Kafka refuses, [`ErrorKind::Deadline`] if it does not appear.
    pub fn create_topic(&self, name: &str, partitions: i32, replication: i32) -> Result<(), Error> {
        self.create_topic_with(name, partitions, replication, &[])
    }

    /// Creates a topic with settings, such as `("min.insync.replicas", "2")`.
    ///
    /// # Errors
    ///
    /// Those of [`create_topic`](Self::create_topic).
    pub fn create_topic_with(
        &self,
        name: &str,
        partitions: i32,
        replication: i32,
        settings: &[(&str, &str)],
    ) -> Result<(), Error> {
        admin::create_topic(
            &self.reachable(),
            &admin::topic(name, partitions, replication, settings),
        )?;
        self.wait_for_partitions(name, partitions as usize)
    }

    /// Deletes a topic and waits until no running node shows it.
    ///
    /// # Errors
    ///
    /// Those of [`create_topic`](Self::create_topic).
    pub fn delete_topic(&self, name: &str) -> Result<(), Error> {
        admin::delete_topic(&self.reachable(), name)?;
        admin::until(&self.active(), name, |leaders| leaders.is_none())
    }

    /// Raises the number of a topic's partitions to `total` and waits until every running node shows them.
    ///
    /// # Errors
    ///
    /// Those of [`create_topic`](Self::create_topic).
    pub fn add_partitions(&self, name: &str, total: i32) -> Result<(), Error> {
        admin::set_partitions(&self.reachable(), name, total as usize)?;
        self.wait_for_partitions(name, total as usize)
    }

    /// The node that leads a partition now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::State`] if there is no such partition or it has no leader at the moment.
    pub fn leader(&self, topic: &str, partition: i32) -> Result<i32, Error> {
        let leaders = admin::leaders(&self.reachable(), topic)?.unwrap_or_default();
        let leader = usize::try_from(partition)
            .ok()
            .and_then(|partition| *leaders.get(partition)?);
        leader.ok_or_else(|| Error::new(ErrorKind::State, format!("{topic}/{partition} has no leader")))
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Leaves the nodes running for good.
    pub(crate) fn release(mut self) {
        self.nodes.iter().for_each(Node::release);
        self.released = true;
    }

    pub(crate) fn spawn(&self, node: &Node) -> Result<(), Error> {
        node.spawn(&self.jars, config::java_options(self.nodes.len()), &self.run)
    }

    /// Waits until the node counts itself among at least `brokers` brokers.
    pub(crate) fn wait_until_ready(
        &self,
        node: &Node,
        brokers: usize,
        deadline: Instant,
    ) -> Result<(), Error> {
        let began = Instant::now();
        while !self.is_ready(node, brokers) {
            if !node.is_running() {
                return Err(node::ended_early(node));
            }
            if Instant::now() >= deadline {
                return Err(node::not_ready(node, began.elapsed()));
            }
            process::pause();
        }
        Ok(())
    }

    fn is_ready(&self, node: &Node, brokers: usize) -> bool {
        if !ports::answers(node.port()) {
            return false;
        }
        // An error means not yet; the log has the reason if it stays so.
        admin::view(&node.address()).is_ok_and(|view| {
            // Another cluster may have taken the port.
            view.cluster_id.as_deref() == Some(&self.id)
                && view.brokers.len() >= brokers
                && view.brokers.contains(&node.id())
        })
    }

    fn wait_for_partitions(&self, name: &str, count: usize) -> Result<(), Error> {
        admin::until(&self.active(), name, |leaders| {
            leaders.is_some_and(|leaders| leaders.len() == count && leaders.iter().all(Option::is_some))
        })
    }

    fn reachable(&self) -> String {
        join(self.nodes.iter().filter(|node| node.is_active()))
    }

    fn active(&self) -> Vec<String> {
        self.nodes
            .iter()
            .filter(|node| node.is_active())
            .map(Node::address)
            .collect()
    }
}

impl Drop for Cluster {
    /// Ends the nodes and removes their files; a test that fails keeps its logs. The nodes are killed: their data is not
    /// needed any more, and several nodes that are asked to end together wait for one another.
    fn drop(&mut self) {
        if self.released {
            return;
        }
        let processes: Vec<Process> = self.nodes.iter().filter_map(Node::process).collect();
        let ended = process::kill(&processes);
        self.nodes.iter().for_each(Node::bury);
        let removed = if std::thread::panicking() {
            eprintln!("the logs of the Kafka nodes are in {}", self.run.dir().display());
            self.nodes
                .iter()
                .try_for_each(|node| files::remove_dir(&node.data()))
        } else {
            files::remove_dir(self.run.dir())
        };
        if let Err(e) = ended.and(removed) {
            eprintln!(
                "the Kafka cluster in {} was not ended cleanly: {e}",
                self.run.dir().display()
            );
        }
    }
}

fn join<'a>(nodes: impl Iterator<Item = &'a Node>) -> String {
    nodes.map(Node::address).collect::<Vec<_>>().join(",")
}

/// A busy node moves its leaderships and writes all data before it ends.
const TERMINATE_DEADLINE: Duration = Duration::from_secs(30);
