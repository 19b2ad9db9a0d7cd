//! Cost and throughput of a `#[subscriber]` service on a real broker, beside the raw client loop.
//!
//! `cargo bench -p ruststream-benches --bench consume` prints instructions and allocations a message, then throughput
//! of interleaved rounds. `-- --gate` leaves the throughput out and fails past a limit.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use ruststream::BoxError;
use ruststream_benches::consumer::Mode;
use ruststream_benches::harness::{self, Cost, Limits};
use ruststream_benches::meter::Measured;
use ruststream_benches::{callgrind, fill, statistics};
use ruststream_kafka_cluster::Cluster;

#[derive(Debug, Parser)]
struct Args {
    /// Costs only; fail when one is past its limit.
    #[arg(long)]
    gate: bool,

    /// Throughput only.
    #[arg(long, conflicts_with = "gate")]
    throughput: bool,

    /// Only what has this in its name.
    #[arg(long, default_value = "")]
    only: String,

    /// Messages in the short run of a cost; the long one has twice as many.
    #[arg(long, default_value_t = 20_000)]
    messages: u64,

    /// Messages in a round of throughput.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,

    /// Rounds of throughput.
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A cost that is measured, with its limits a message.
struct Case {
    name: &'static str,
    mode: Mode,
    partitions: i32,
    limits: Limits,
}

/// One owned field is one block.
const OWNED: Limits = Limits::new(4_150.0, 1.0);

/// The limits that this project promises, and the raw loop beside them without any.
const CASES: [Case; 10] = [
    case("consume_json_512_tracked", Mode::Service, 1, OWNED),
    case(
        "consume_json_512_tracked, 12 partitions",
        Mode::Service,
        12,
        OWNED,
    ),
    case("consume_json_512_auto", Mode::ServiceAuto, 1, OWNED),
    case(
        "consume_json_512_borrowed_tracked",
        Mode::ServiceBorrowed,
        1,
        Limits::new(4_150.0, 0.0),
    ),
    case(
        "consume_bytes_tracked",
        Mode::ServiceBytes,
        1,
        Limits::new(f64::INFINITY, 0.0),
    ),
    case("reply_tracked", Mode::ServiceReply, 1, Limits::new(6_100.0, 0.0)),
    case(
        "pending_once",
        Mode::ServicePending,
        1,
        Limits::new(f64::INFINITY, 1.0),
    ),
    case("raw_recv_json_512_tracked", Mode::Raw, 1, Limits::NONE),
    case(
        "raw_recv_json_512_tracked, 12 partitions",
        Mode::Raw,
        12,
        Limits::NONE,
    ),
    case("raw_recv_json_512_auto", Mode::RawAuto, 1, Limits::NONE),
];

const fn case(name: &'static str, mode: Mode, partitions: i32, limits: Limits) -> Case {
    Case {
        name,
        mode,
        partitions,
        limits,
    }
}

/// How long the first record waits so that everything is fetched: under valgrind, and without.
const HOLD_VALGRIND: u64 = 8_000;
const HOLD: u64 = 1_500;

fn main() -> ExitCode {
    harness::exit(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<(), BoxError> {
    if !args.throughput {
        callgrind::check()?;
    }
    let cluster = Cluster::start(1)?;
    let missed = if args.throughput {
        Vec::new()
    } else {
        costs(&cluster, args.messages, &args.only)?
    };
    if !args.gate {
        for partitions in [1, 12] {
            throughput(&cluster, partitions, args.records, args.rounds)?;
        }
    }
    harness::verdict(&missed)
}

/// A topic with `count` records in `partitions` partitions.
fn topic(cluster: &Cluster, partitions: i32, count: u64) -> Result<String, BoxError> {
    let topic = format!("bench-{partitions}-{count}");
    cluster.create_topic(&topic, partitions, 1)?;
    cluster.create_topic(&format!("{topic}-replies"), partitions, 1)?;
    fill::fill(&cluster.bootstrap(), &topic, partitions, count)?;
    Ok(topic)
}

/// Prints what a message costs; returns what is past its limit.
#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn costs(cluster: &Cluster, messages: u64, only: &str) -> Result<Vec<String>, BoxError> {
    let mut topics = Vec::new();
    for partitions in [1, 12] {
        topics.push((
            partitions,
            topic(cluster, partitions, messages)?,
            topic(cluster, partitions, 2 * messages)?,
        ));
    }
    println!(
        "per message, from runs of {messages} and {} on Kafka 4.3.1:",
        2 * messages
    );
    println!(
        "{:42} {:>12} {:>12} {:>8}",
        "", "instructions", "librdkafka's", "blocks"
    );
    let mut missed = Vec::new();
    for case in CASES.iter().filter(|case| case.name.contains(only)) {
        let Some((_, short, long)) = topics
            .iter()
            .find(|(partitions, ..)| *partitions == case.partitions)
        else {
            continue;
        };
        let cost = cost(case, &cluster.bootstrap(), (short, long), messages)?;
        let (ours, theirs) = (cost.ours(), cost.librdkafka);
        println!("{:42} {ours:12.0} {theirs:12.0} {:8.3}", case.name, cost.blocks);
        missed.extend(cost.past(case.name, case.limits));
    }
    Ok(missed)
}

/// What a message costs, from a topic with `messages` and one with twice as many.
fn cost(case: &Case, servers: &str, topics: (&str, &str), messages: u64) -> Result<Cost, BoxError> {
    let (short, long) = topics;
    let args = |topic: &str, count, hold| arguments(case.mode, servers, topic, count, hold, 10);
    let consumer = Path::new(env!("CARGO_BIN_EXE_consumer"));
    let run = |topic, count| -> Result<_, BoxError> {
        let (out, instructions) = callgrind::run(consumer, &args(topic, count, HOLD_VALGRIND))?;
        serde_json::from_str::<Measured>(out.trim())?.check(count, case.mode.checksum(count))?;
        Ok(instructions)
    };
    let (less, more) = (run(short, messages)?, run(long, 2 * messages)?);
    let counter = Path::new(env!("CARGO_BIN_EXE_consumer-dhat"));
    let counted: Measured = harness::run(counter, &args(long, 2 * messages, HOLD))?;
    let counted = counted.check(2 * messages, case.mode.checksum(2 * messages))?;
    Ok(Cost::new(less, more, messages, counted.blocks_each()))
}

/// Prints the throughput of interleaved rounds: the service, the raw loop, and the raw loop as people run it.
#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn throughput(cluster: &Cluster, partitions: i32, records: u64, rounds: u32) -> Result<(), BoxError> {
    let topic = topic(cluster, partitions, records)?;
    let consumer = Path::new(env!("CARGO_BIN_EXE_consumer"));
    let loops = [
        ("#[subscriber] service", Mode::Service, 10),
        ("raw recv loop, same settings", Mode::Raw, 10),
        ("raw recv loop, librdkafka's defaults", Mode::Raw, 1_000),
    ];
    let mut runs: [Vec<Measured>; 3] = Default::default();
    for round in 0..=rounds {
        for (runs, (_, mode, backoff)) in runs.iter_mut().zip(loops) {
            let args = arguments(mode, &cluster.bootstrap(), &topic, records, 0, backoff);
            let measured: Measured = harness::run(consumer, &args)?;
            let measured = measured.check(records, mode.checksum(records))?;
            // The first round warms the broker's page cache up.
            if round > 0 {
                runs.push(measured);
            }
        }
    }
    println!(
        "\n{records} records of a live backlog in {partitions} partitions, {rounds} interleaved rounds (median):"
    );
    let [ours, ..] = &runs;
    for (runs, (name, ..)) in runs.iter().zip(loops) {
        let rate = statistics::median(runs.iter().map(Measured::rate));
        let cpu = statistics::median(runs.iter().map(Measured::cpu_micros));
        let ratio = statistics::median(
            ours.iter()
                .zip(runs)
                .map(|(ours, theirs)| ours.rate() / theirs.rate()),
        );
        println!(
            "{name:44} {:7.2} M/s {cpu:6.2} us CPU a message, service is {ratio:.2} times as fast",
            rate / 1e6
        );
    }
    Ok(())
}

fn arguments(mode: Mode, servers: &str, topic: &str, count: u64, hold: u64, backoff: u32) -> Vec<String> {
    let options = [
        ("--servers", servers.to_owned()),
        ("--topic", topic.to_owned()),
        ("--count", count.to_string()),
        ("--hold", hold.to_string()),
        ("--backoff", backoff.to_string()),
    ];
    let options = options
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    std::iter::once(mode.name()).chain(options).collect()
}
