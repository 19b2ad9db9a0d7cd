//! The settings of a node, as Kafka reads them.

use std::fmt::Write as _;
use std::path::Path;

/// What the nodes of a cluster have to know of one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: i32,
    pub(crate) port: u16,
    pub(crate) controller_port: u16,
}

/// Renders `server.properties` of one member. `extra` comes last and so overrides the rest.
pub(crate) fn server(own: Member, members: &[Member], data: &Path, extra: &[(String, String)]) -> String {
    let voters: Vec<String> = members
        .iter()
        .map(|m| format!("{}@127.0.0.1:{}", m.id, m.controller_port))
        .collect();
    let replication = members.len().min(3).to_string();
    let mut out = String::new();
    put(&mut out, "node.id", &own.id.to_string());
    put(&mut out, "controller.quorum.voters", &voters.join(","));
    let listeners = format!(
        "PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:{}",
        own.port, own.controller_port
    );
    put(&mut out, "listeners", &listeners);
    put(&mut out, "log.dirs", &data.to_string_lossy());
    for topic in [
        "offsets.topic",
        "transaction.state.log",
        "share.coordinator.state.topic",
    ] {
        put(&mut out, &format!("{topic}.replication.factor"), &replication);
        put(&mut out, &format!("{topic}.num.partitions"), "4");
    }
    // A killed node keeps its leaderships, and cannot come back, until its session ends: 9 s by default. A node alone
    // loses nothing by a short one: what stalls the broker stalls its controller as well.
    put(
        &mut out,
        "broker.session.timeout.ms",
        if members.len() == 1 { "1500" } else { "4000" },
    );
    for (key, value) in FIXED {
        put(&mut out, key, value);
    }
    for (key, value) in extra {
        put(&mut out, key, value);
    }
    out
}

/// Renders `meta.properties`, which marks a data folder as formatted for one node of one cluster.
pub(crate) fn meta(cluster_id: &str, node_id: i32, directory_id: &str) -> String {
    format!("version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n")
}

/// A random identifier of the form that Kafka uses: 16 bytes in URL-safe base 64.
pub(crate) fn random_id() -> String {
    // The last of 22 digits has only two bits left to say.
    (0..21).map(|_| fastrand::alphanumeric()).chain(['A']).collect()
}

/// Java options of a node in a cluster of `nodes`.
pub(crate) fn java_options(nodes: usize) -> &'static [&'static str] {
    if nodes == 1 {
        &["-XX:+UseSerialGC", "-Xmx512m"]
    } else {
        SMALL_JVM
    }
}

fn put(out: &mut String, key: &str, value: &str) {
    let value = value.replace('\\', r"\\").replace('\n', r"\n");
    writeln!(out, "{key}={value}").expect("a String takes everything");
}

/// Three of these fit two cores and a gigabyte; the optimizing compiler would fight the tests for the processor.
const SMALL_JVM: &[&str] = &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"];

const FIXED: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    (
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    ),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("controller.listener.names", "CONTROLLER"),
    ("auto.create.topics.enable", "false"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    // The first member of a classic group would wait 3 s for others.
    ("group.initial.rebalance.delay.ms", "0"),
    // Lets tests ask for short sessions; the default forbids less than 6 s.
    ("group.min.session.timeout.ms", "500"),
    ("broker.heartbeat.interval.ms", "500"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: i32) -> Vec<Member> {
        (1..=count)
            .map(|id| Member {
                id,
                port: 9000 + id as u16,
                controller_port: 9100 + id as u16,
            })
            .collect()
    }

    fn value<'a>(rendered: &'a str, key: &str) -> Option<&'a str> {
        let values = rendered.lines().filter_map(|line| line.split_once('='));
        values.filter(|(k, _)| *k == key).map(|(_, v)| v).next_back()
    }

    #[test]
    fn a_member_of_three_listens_on_its_own_loopback_ports_and_knows_all_voters() {
        let members = members(3);
        let rendered = server(members[1], &members, Path::new("/data"), &[]);
        assert_eq!(value(&rendered, "node.id"), Some("2"));
        assert_eq!(
            value(&rendered, "listeners"),
            Some("PLAINTEXT://127.0.0.1:9002,CONTROLLER://127.0.0.1:9102")
        );
        assert_eq!(
            value(&rendered, "controller.quorum.voters"),
            Some("1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103")
        );
        assert_eq!(value(&rendered, "log.dirs"), Some("/data"));
        assert_eq!(value(&rendered, "offsets.topic.replication.factor"), Some("3"));
        assert_eq!(
            value(&rendered, "transaction.state.log.num.partitions"),
            Some("4")
        );
    }

    #[test]
    fn internal_topics_have_as_many_replicas_as_there_are_nodes_up_to_three() {
        for (nodes, replicas) in [(1, "1"), (2, "2"), (5, "3")] {
            let members = members(nodes);
            let rendered = server(members[0], &members, Path::new("/data"), &[]);
            assert_eq!(
                value(&rendered, "share.coordinator.state.topic.replication.factor"),
                Some(replicas)
            );
        }
    }

    #[test]
    fn a_property_of_the_caller_wins_and_is_escaped() {
        let members = members(1);
        let extra = [("broker.session.timeout.ms".to_owned(), "a\\b\nc".to_owned())];
        let rendered = server(members[0], &members, Path::new("/data"), &extra);
        assert_eq!(value(&rendered, "broker.session.timeout.ms"), Some(r"a\\b\nc"));
    }

    #[test]
    fn random_ids_have_the_length_of_sixteen_bytes_and_differ() {
        let (one, other) = (random_id(), random_id());
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
    }
}
