//! Cost and throughput of a `#[subscriber]` service on a real broker, beside the raw client loop.
//!
//! `cargo bench -p ruststream-benches --bench consume` prints instructions and allocations a message, then throughput
//! of interleaved rounds. `-- --gate` leaves the throughput out and fails past a limit.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Parser;
use ruststream::BoxError;
use ruststream_benches::consumer::Mode;
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
struct Cost {
    name: &'static str,
    mode: Mode,
    partitions: i32,
    /// Instructions on our threads.
    instructions: f64,
    /// Heap blocks: the user's own fields, and nothing else.
    blocks: f64,
}

/// The limits that this project promises, and the raw loop beside them without any.
const COSTS: [Cost; 10] = [
    cost("consume_json_512_tracked", Mode::Service, 1, 4_150.0, 1.0),
    cost(
        "consume_json_512_tracked, 12 partitions",
        Mode::Service,
        12,
        4_150.0,
        1.0,
    ),
    cost("consume_json_512_auto", Mode::ServiceAuto, 1, 4_150.0, 1.0),
    cost(
        "consume_json_512_borrowed_tracked",
        Mode::ServiceBorrowed,
        1,
        4_150.0,
        0.0,
    ),
    cost("consume_bytes_tracked", Mode::ServiceBytes, 1, f64::INFINITY, 0.0),
    cost("reply_tracked", Mode::ServiceReply, 1, 5_800.0, 0.0),
    cost("pending_once", Mode::ServicePending, 1, f64::INFINITY, 1.0),
    cost(
        "raw_recv_json_512_tracked",
        Mode::Raw,
        1,
        f64::INFINITY,
        f64::INFINITY,
    ),
    cost(
        "raw_recv_json_512_tracked, 12 partitions",
        Mode::Raw,
        12,
        f64::INFINITY,
        f64::INFINITY,
    ),
    cost(
        "raw_recv_json_512_auto",
        Mode::RawAuto,
        1,
        f64::INFINITY,
        f64::INFINITY,
    ),
];

const fn cost(name: &'static str, mode: Mode, partitions: i32, instructions: f64, blocks: f64) -> Cost {
    Cost {
        name,
        mode,
        partitions,
        instructions,
        blocks,
    }
}

/// Growth of a vector here and there: an allocation a message would be 1.
const BLOCKS_SLACK: f64 = 0.005;

/// How long the first record waits so that everything is fetched: under valgrind, and without.
const HOLD_VALGRIND: u64 = 8_000;
const HOLD: u64 = 1_500;

fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let cluster = Cluster::start(1)?;
    let missed = if args.throughput {
        Vec::new()
    } else {
        costs(&cluster, args.messages, &args.only)?
    };
    if args.gate {
        return if missed.is_empty() {
            Ok(())
        } else {
            Err(missed.join("\n").into())
        };
    }
    for partitions in [1, 12] {
        throughput(&cluster, partitions, args.records, args.rounds)?;
    }
    if missed.is_empty() {
        Ok(())
    } else {
        Err(missed.join("\n").into())
    }
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
    for cost in COSTS.iter().filter(|cost| cost.name.contains(only)) {
        let Some((_, short, long)) = topics
            .iter()
            .find(|(partitions, ..)| *partitions == cost.partitions)
        else {
            continue;
        };
        let args =
            |topic: &str, count, hold| arguments(cost.mode, &cluster.bootstrap(), topic, count, hold, 10);
        let consumer = Path::new(env!("CARGO_BIN_EXE_consumer"));
        let run = |topic, count| -> Result<_, BoxError> {
            let (out, instructions) = callgrind::run(consumer, &args(topic, count, HOLD_VALGRIND))?;
            serde_json::from_str::<Measured>(out.trim())?.check(count, cost.mode.checksum(count))?;
            Ok(instructions)
        };
        let (less, more) = (run(short, messages)?, run(long, 2 * messages)?);
        let each = |less: u64, more: u64| more.saturating_sub(less) as f64 / messages as f64;
        let (ours, theirs) = (each(less.ours, more.ours), each(less.librdkafka, more.librdkafka));
        let counted = measure(
            env!("CARGO_BIN_EXE_consumer-dhat"),
            &args(long, 2 * messages, HOLD),
        )?
        .check(2 * messages, cost.mode.checksum(2 * messages))?;
        let blocks = counted.blocks_each();
        println!("{:42} {ours:12.0} {theirs:12.0} {blocks:8.3}", cost.name);
        if ours > cost.instructions {
            missed.push(format!(
                "{}: {ours:.0} instructions, the limit is {}",
                cost.name, cost.instructions
            ));
        }
        if blocks > cost.blocks + BLOCKS_SLACK {
            missed.push(format!(
                "{}: {blocks:.3} heap blocks, the limit is {}",
                cost.name, cost.blocks
            ));
        }
    }
    Ok(missed)
}

/// Prints the throughput of interleaved rounds: the service, the raw loop, and the raw loop as people run it.
#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn throughput(cluster: &Cluster, partitions: i32, records: u64, rounds: u32) -> Result<(), BoxError> {
    let topic = topic(cluster, partitions, records)?;
    let service = env!("CARGO_BIN_EXE_consumer");
    let loops = [
        ("#[subscriber] service", Mode::Service, 10),
        ("raw recv loop, same settings", Mode::Raw, 10),
        ("raw recv loop, librdkafka's defaults", Mode::Raw, 1_000),
    ];
    let mut runs: [Vec<Measured>; 3] = Default::default();
    for round in 0..=rounds {
        for (runs, (_, mode, backoff)) in runs.iter_mut().zip(loops) {
            let args = arguments(mode, &cluster.bootstrap(), &topic, records, 0, backoff);
            let measured = measure(service, &args)?.check(records, mode.checksum(records))?;
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

/// Runs a consumer to its end; its figures.
fn measure(program: &str, args: &[String]) -> Result<Measured, BoxError> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{program} {} failed: {}", args.join(" "), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
