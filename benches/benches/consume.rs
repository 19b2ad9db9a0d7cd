//! Cost, throughput and latency of a `#[subscriber]` service on a real broker, beside the raw client loop.
//!
//! `cargo bench -p ruststream-benches --bench consume` prints instructions and allocations a message, then throughput
//! of interleaved rounds, without and with replies, then the latency of single replies. `-- --gate` measures costs only and
//! fails past a limit; `-- --latency` fails when its promise is broken.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use ruststream::BoxError;
use ruststream_benches::consumer::{Mode, replies};
use ruststream_benches::harness::{self, Cost, Limits};
use ruststream_benches::meter::Measured;
use ruststream_benches::producer::Latency;
use ruststream_benches::{callgrind, feeder, fill, statistics};
use ruststream_kafka_cluster::Cluster;

#[derive(Debug, Parser)]
#[allow(clippy::struct_excessive_bools, reason = "the switches of a command line")]
struct Args {
    /// Costs only; fail when one is past its limit.
    #[arg(long)]
    gate: bool,

    /// Throughput only.
    #[arg(long, conflicts_with = "gate")]
    throughput: bool,

    /// Latency only; fail when it is past what is promised.
    #[arg(long, conflicts_with_all = ["gate", "throughput"])]
    latency: bool,

    /// Only the costs that have this in their name.
    #[arg(long, default_value = "")]
    only: String,

    /// Messages in the short run of a cost; the long one has twice as many.
    #[arg(long, default_value_t = 20_000)]
    messages: u64,

    /// Messages in a round of throughput.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,

    /// Rounds of throughput and of latency.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Replies in a round of latency, 200 a second.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,

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
const CASES: [Case; 11] = [
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
    case("reply_tracked", Mode::ServiceReply, 1, Limits::new(6_300.0, 0.0)),
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
    case("raw_reply_json_512", Mode::RawReply, 1, Limits::NONE),
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
    let costs_too = !args.throughput && !args.latency;
    if costs_too {
        callgrind::check()?;
    }
    let cluster = Cluster::start(1)?;
    let mut missed = Vec::new();
    if costs_too {
        missed.extend(costs(&cluster, args.messages, &args.only)?);
    }
    if !args.gate && !args.latency {
        for partitions in [1, 12] {
            let backlog = topic(&cluster, "backlog", partitions, args.records)?;
            throughput(&cluster, &backlog, partitions, args)?;
            reply_throughput(&cluster, &backlog, partitions, args)?;
        }
    }
    if !args.gate && !args.throughput {
        missed.extend(latency(&cluster, args)?);
    }
    harness::verdict(&missed)
}

/// A topic with `count` records in `partitions` partitions, and one for their replies.
fn topic(cluster: &Cluster, name: &str, partitions: i32, count: u64) -> Result<String, BoxError> {
    let topic = format!("{name}-{partitions}-{count}");
    cluster.create_topic(&topic, partitions, 1)?;
    cluster.create_topic(&replies(&topic), partitions, 1)?;
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
            topic(cluster, "cost", partitions, messages)?,
            topic(cluster, "cost", partitions, 2 * messages)?,
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
fn throughput(cluster: &Cluster, topic: &str, partitions: i32, args: &Args) -> Result<(), BoxError> {
    let (records, rounds) = (args.records, args.rounds);
    let consumer = Path::new(env!("CARGO_BIN_EXE_consumer"));
    let loops = [
        ("#[subscriber] service", Mode::Service, 10),
        ("raw recv loop, same settings", Mode::Raw, 10),
        ("raw recv loop, librdkafka's defaults", Mode::Raw, 1_000),
    ];
    let mut runs: [Vec<Measured>; 3] = Default::default();
    for round in 0..=rounds {
        for (runs, (_, mode, backoff)) in runs.iter_mut().zip(loops) {
            let args = arguments(mode, &cluster.bootstrap(), topic, records, 0, backoff);
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

/// A contestant of replies: its name, who it is, and at most how many records it gets.
type Replier = (&'static str, Mode, u64);

const REPLIERS: [Replier; 3] = [
    ("#[subscriber] service with replies", Mode::ServiceReply, u64::MAX),
    ("raw loop, 4,096 replies on their way", Mode::RawReply, u64::MAX),
    ("raw loop, each reply awaited", Mode::RawReplyEach, 20_000),
];

/// What the project wants of a service that replies, in replies a second.
const REPLIES_A_SECOND: f64 = 1_000_000.0;

/// Prints how many replies a second are confirmed, in interleaved rounds: by the service and by raw loops.
fn reply_throughput(cluster: &Cluster, backlog: &str, partitions: i32, args: &Args) -> Result<(), BoxError> {
    let few = REPLIERS.map(|(.., most)| args.records.min(most));
    let [.., fewest] = few;
    let short = topic(cluster, "few", partitions, fewest)?;
    let mut runs: [Vec<Measured>; 3] = Default::default();
    for round in 0..=args.rounds {
        let mut order: Vec<_> = runs.iter_mut().zip(REPLIERS).zip(few).collect();
        // Each follows now the one, now the other.
        if round % 2 == 1 {
            order.reverse();
        }
        for ((runs, (_, mode, _)), count) in order {
            let topic = if count == args.records { backlog } else { &short };
            let measured = replied(cluster, mode, topic, partitions, count)?;
            // The first round warms the broker up.
            if round > 0 {
                runs.push(measured);
            }
        }
    }
    print_replies(partitions, args, &runs);
    Ok(())
}

/// A run that replies to a topic's records; checks that its replies are written, each once.
fn replied(
    cluster: &Cluster,
    mode: Mode,
    topic: &str,
    partitions: i32,
    count: u64,
) -> Result<Measured, BoxError> {
    let servers = cluster.bootstrap();
    let written = || -> Result<i64, BoxError> {
        Ok(fill::ends(&servers, &replies(topic), partitions)?
            .iter()
            .sum::<i64>())
    };
    let before = written()?;
    let consumer = Path::new(env!("CARGO_BIN_EXE_consumer"));
    let measured: Measured = harness::run(consumer, &arguments(mode, &servers, topic, count, 0, 10))?;
    let replies = written()? - before;
    if u64::try_from(replies) != Ok(count) {
        let name = mode.name();
        return Err(format!("{name}: {replies} replies were written, not {count}: no figure").into());
    }
    measured.check(count, mode.checksum(count))
}

#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn print_replies(partitions: i32, args: &Args, runs: &[Vec<Measured>; 3]) {
    let (records, rounds) = (args.records, args.rounds);
    println!(
        "\nreplies to a backlog of {records} records, {partitions} partitions in and out, {rounds} interleaved rounds \
         (median, worst to best):"
    );
    let [ours, ..] = runs;
    for (runs, (name, mode, _)) in runs.iter().zip(REPLIERS) {
        let rates: Vec<f64> = runs.iter().map(|run| run.rate() / 1e3).collect();
        let median = statistics::median(rates.iter().copied());
        let [worst, best] = [0.0, 1.0].map(|share| statistics::percentile(&rates, share));
        let beside = if mode == Mode::RawReplyEach {
            String::new()
        } else {
            beside(ours, runs)
        };
        println!("{name:44} {median:7.1} k/s ({worst:.1} to {best:.1}){beside}");
    }
    let rate = statistics::median(ours.iter().map(Measured::rate));
    let reached = if rate >= REPLIES_A_SECOND {
        "reached"
    } else {
        "did not reach"
    };
    println!("the service {reached} {REPLIES_A_SECOND:.0} replies a second");
}

/// CPU time of a run, and how many times as fast the service is.
fn beside(ours: &[Measured], runs: &[Measured]) -> String {
    let cpu = statistics::median(runs.iter().map(Measured::cpu_micros));
    let ratios = ours
        .iter()
        .zip(runs)
        .map(|(ours, theirs)| ours.rate() / theirs.rate());
    let ratio = statistics::median(ratios);
    format!(" {cpu:6.2} us CPU a reply, service is {ratio:.2} times as fast")
}

/// The median of a reply by the service takes at most so many times as long as one by the raw loop.
const PROMISED_LATENCY: f64 = 1.3;

/// Prints how long a single reply takes on an idle system, in interleaved rounds; returns the promise, if it was broken.
#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn latency(cluster: &Cluster, args: &Args) -> Result<Option<String>, BoxError> {
    let repliers = [
        ("#[subscriber] service with replies", Mode::ServiceReplyPaced),
        ("raw loop, each reply awaited", Mode::RawReplyEach),
    ];
    let mut rows: [Vec<Latency>; 2] = Default::default();
    for round in 0..args.rounds {
        let mut order: Vec<_> = rows.iter_mut().zip(repliers).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (row, (_, mode)) in order {
            row.push(latency_of(cluster, mode, round, args.samples)?);
        }
    }
    println!(
        "\n200 records a second, from before one is sent until its reply is there, {} rounds of {} (median of the rounds):",
        args.rounds, args.samples
    );
    let [ours, raw] = &rows;
    for (row, (name, _)) in rows.iter().zip(repliers) {
        let median = |of: fn(&Latency) -> f64| statistics::median(row.iter().map(of));
        let (p50, p99) = (median(|latency| latency.p50), median(|latency| latency.p99));
        println!("{name:44} p50 {p50:6.0} us, p99 {p99:6.0} us");
    }
    let p50 = ratio(ours, raw, |latency| latency.p50);
    let p99 = ratio(ours, raw, |latency| latency.p99);
    let text = format!(
        "a reply by the service takes {p50:.2} (p50; promised: at most {PROMISED_LATENCY}) and {p99:.2} (p99) times as long"
    );
    println!("{text}");
    Ok((p50 > PROMISED_LATENCY).then_some(text))
}

/// The median over rounds of how many times as long ours takes.
fn ratio(ours: &[Latency], raw: &[Latency], of: fn(&Latency) -> f64) -> f64 {
    statistics::median(ours.iter().zip(raw).map(|(ours, raw)| of(ours) / of(raw)))
}

/// One run on topics of its own.
fn latency_of(cluster: &Cluster, mode: Mode, round: u32, samples: u64) -> Result<Latency, BoxError> {
    let topic = topic(cluster, &format!("latency-{}-{round}", mode.name()), 1, 0)?;
    let servers = cluster.bootstrap();
    feeder::latency(&servers, &topic, samples, |count| {
        let consumer = Path::new(env!("CARGO_BIN_EXE_consumer"));
        let measured: Measured = harness::run(consumer, &arguments(mode, &servers, &topic, count, 0, 10))?;
        measured.check(count, mode.checksum(count)).map(drop)
    })
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
