//! Cost, throughput and latency of a publisher on a real broker, beside rdkafka's `FutureProducer`.
//!
//! `cargo bench -p ruststream-benches --bench publish` prints instructions and allocations a record, then throughput of
//! interleaved rounds, then the latency of single records. `-- --gate` measures the costs that have a limit and fails past
//! one; `-- --throughput` fails when a promise is broken.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ruststream::BoxError;
use ruststream_benches::harness::{self, Cost, Limits};
use ruststream_benches::producer::{Latency, Mode, Sent};
use ruststream_benches::{callgrind, fill, meter, statistics};
use ruststream_kafka_cluster::Cluster;

#[derive(Debug, Parser)]
#[allow(clippy::struct_excessive_bools, reason = "the switches of a command line")]
struct Args {
    /// The costs that have a limit, only; fail when one is past it.
    #[arg(long)]
    gate: bool,

    /// Throughput only.
    #[arg(long, conflicts_with = "gate")]
    throughput: bool,

    /// Latency only.
    #[arg(long, conflicts_with_all = ["gate", "throughput"])]
    latency: bool,

    /// Records in the short run of a cost; the long one has twice as many.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    messages: u64,

    /// How long a sender pauses under callgrind when its window is full (ms), so that all of it is confirmed; with 0 the
    /// instructions have those of its waits, whose number is up to chance.
    #[arg(long, default_value_t = 150)]
    hold: u64,

    /// Records of the fastest in a round of throughput; slower ones send a share.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    records: u64,

    /// Rounds of throughput and of latency.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Records in a round of latency, 200 a second.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,

    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is run: who sends, to a topic of so many partitions.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    mode: Mode,
    /// How many are unconfirmed at a time, where the sender decides that.
    window: usize,
    partitions: i32,
}

const fn case(name: &'static str, mode: Mode, window: usize, partitions: i32) -> Case {
    Case {
        name,
        mode,
        window,
        partitions,
    }
}

const WINDOW: usize = 1_000;

/// The payload and the key of a record are the user's blocks.
const fn limit(instructions: f64) -> Limits {
    Limits::new(instructions, 2.0)
}

/// The limits that this project promises, and `FutureProducer` beside them without any.
const COSTS: [(Case, Limits); 9] = [
    (case("publish_window_1000", Mode::Send, WINDOW, 1), limit(2_400.0)),
    (
        case("publish_window_1000, 12 partitions", Mode::Send, WINDOW, 12),
        limit(2_550.0),
    ),
    (case("publish_one_at_a_time", Mode::Publish, 1, 1), limit(4_500.0)),
    (case("publish_send_all", Mode::SendAll, 0, 1), limit(2_400.0)),
    (
        case(
            "future_producer_default_window_1000",
            Mode::FutureDefault,
            WINDOW,
            1,
        ),
        Limits::NONE,
    ),
    (
        case("future_producer_window_1000", Mode::FutureEqual, WINDOW, 1),
        Limits::NONE,
    ),
    (
        case(
            "future_producer_window_1000, 12 partitions",
            Mode::FutureEqual,
            WINDOW,
            12,
        ),
        Limits::NONE,
    ),
    (
        case(
            "future_producer_unordered_window_1000",
            Mode::FutureUnordered,
            WINDOW,
            1,
        ),
        Limits::NONE,
    ),
    (
        case("future_producer_one_at_a_time", Mode::FutureEqual, 1, 1),
        Limits::NONE,
    ),
];

/// A contestant of throughput.
struct Contestant {
    name: &'static str,
    mode: Mode,
    window: usize,
    /// It sends this share of the records, so that each takes seconds.
    share: u64,
    /// The first contestant of the group is promised to be more than so many times as fast.
    promise: f64,
}

const fn contestant(name: &'static str, mode: Mode, window: usize, share: u64, promise: f64) -> Contestant {
    Contestant {
        name,
        mode,
        window,
        share,
        promise,
    }
}

impl Contestant {
    /// What is said of a promise that was broken.
    fn broken(&self, ratio: f64) -> Option<String> {
        let (name, promise) = (self.name, self.promise);
        (ratio <= promise)
            .then(|| format!("ours is {ratio:.2} times as fast as {name}, promised are more than {promise}"))
    }
}

/// Those with a window of 1,000, then those with one record at a time: each is compared with the first of its group.
const GROUPS: [&[Contestant]; 2] = [
    &[
        contestant("send, window 1,000", Mode::Send, WINDOW, 1, 0.0),
        contestant("send_all", Mode::SendAll, 0, 1, 0.0),
        contestant(
            "FutureProducer, defaults and linger 0",
            Mode::FutureDefault,
            WINDOW,
            5,
            5.0,
        ),
        contestant("FutureProducer, same settings", Mode::FutureEqual, WINDOW, 1, 1.0),
        contestant(
            "FutureProducer, same, FuturesUnordered",
            Mode::FutureUnordered,
            WINDOW,
            1,
            0.0,
        ),
    ],
    &[
        contestant("publish, one at a time", Mode::Publish, 1, 50, 0.0),
        contestant(
            "FutureProducer, defaults and linger 0",
            Mode::FutureDefault,
            1,
            50,
            0.0,
        ),
        contestant("FutureProducer, same settings", Mode::FutureEqual, 1, 50, 0.0),
    ],
];

/// The broker, and its topics.
struct Bench {
    cluster: Cluster,
    /// How many it was given.
    topics: Cell<u32>,
    /// Those that it has.
    full: RefCell<Vec<String>>,
}

/// How long a broker is left alone that has deleted gigabytes.
const SETTLE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    harness::exit(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<(), BoxError> {
    let costs = !args.throughput && !args.latency;
    if costs {
        callgrind::check()?;
    }
    let bench = Bench {
        cluster: Cluster::start(1)?,
        topics: Cell::new(0),
        full: RefCell::default(),
    };
    let mut missed = Vec::new();
    if costs {
        missed.extend(bench.costs(args)?);
    }
    if !args.gate && !args.latency {
        for partitions in [1, 12] {
            missed.extend(bench.throughput(partitions, args)?);
        }
    }
    if !args.gate && !args.throughput {
        bench.latency(args)?;
    }
    harness::verdict(&missed)
}

impl Bench {
    /// Has a program send to a topic of its own, and checks that it holds what was confirmed.
    fn sent<T>(
        &self,
        case: &Case,
        count: u64,
        run: impl FnOnce(&[String]) -> Result<(Sent, T), BoxError>,
    ) -> Result<(Sent, T), BoxError> {
        self.topics.set(self.topics.get() + 1);
        let topic = format!("publish-{}", self.topics.get());
        // Gigabytes are written: a deleted topic's should be gone at once.
        let settings = [("file.delete.delay.ms", "0")];
        self.cluster
            .create_topic_with(&topic, case.partitions, 1, &settings)?;
        let servers = self.cluster.bootstrap();
        let (sent, more) = run(&arguments(case, &servers, &topic, count))
            .map_err(|error| format!("{}: {error}", case.name))?;
        let sent = sent.check(case.mode, count, &fill::ends(&servers, &topic, case.partitions)?)?;
        self.full.borrow_mut().push(topic);
        Ok((sent, more))
    }

    /// Deletes the topics of a round: not before its end, so that no run has its predecessor's to bear.
    fn clear(&self) -> Result<(), BoxError> {
        for topic in self.full.take() {
            self.cluster.delete_topic(&topic)?;
        }
        meter::hold(SETTLE);
        Ok(())
    }

    /// The same, for what the program itself measures.
    fn timed(&self, case: &Case, count: u64) -> Result<Sent, BoxError> {
        let producer = Path::new(env!("CARGO_BIN_EXE_producer"));
        let run = |args: &[String]| Ok((harness::run(producer, args)?, ()));
        Ok(self.sent(case, count, run)?.0)
    }

    /// Prints what a record costs; returns what is past its limit.
    #[allow(clippy::print_stdout, reason = "a benchmark prints")]
    fn costs(&self, args: &Args) -> Result<Vec<String>, BoxError> {
        let messages = args.messages;
        println!(
            "per record, from runs of {messages} and {} on Kafka 4.3.1:",
            2 * messages
        );
        println!(
            "{:44} {:>12} {:>12} {:>12} {:>8}",
            "instructions", "sender", "its helpers", "librdkafka's", "blocks"
        );
        let mut missed = Vec::new();
        let gated = |limits: &Limits| !args.gate || !limits.is_none();
        for (case, limits) in COSTS.iter().filter(|(_, limits)| gated(limits)) {
            let cost = self.cost(case, args)?;
            println!(
                "{:44} {:12.0} {:12.0} {:12.0} {:8.3}",
                case.name, cost.main, cost.helpers, cost.librdkafka, cost.blocks
            );
            missed.extend(cost.past(case.name, *limits));
        }
        Ok(missed)
    }

    fn cost(&self, case: &Case, args: &Args) -> Result<Cost, BoxError> {
        let producer = Path::new(env!("CARGO_BIN_EXE_producer"));
        let messages = args.messages;
        // One at a time, each is waited for.
        let hold = if case.window == 1 { 0 } else { args.hold };
        let instructions = |count| -> Result<_, BoxError> {
            let run = |args: &[String]| {
                let args = [args, &["--hold".to_owned(), hold.to_string()]].concat();
                let (line, instructions) = callgrind::run(producer, &args)?;
                Ok((serde_json::from_str(line.trim())?, instructions))
            };
            Ok(self.sent(case, count, run)?.1)
        };
        let (less, more) = (instructions(messages)?, instructions(2 * messages)?);
        let counter = Path::new(env!("CARGO_BIN_EXE_producer-dhat"));
        let run = |args: &[String]| Ok((harness::run(counter, args)?, ()));
        let (counted, ()) = self.sent(case, 2 * messages, run)?;
        let blocks = counted.spent.blocks_each(counted.count);
        Ok(Cost::new(less, more, messages, blocks))
    }

    /// Prints the throughput of interleaved rounds; returns the promises that were broken.
    #[allow(clippy::print_stdout, reason = "a benchmark prints")]
    fn throughput(&self, partitions: i32, args: &Args) -> Result<Vec<String>, BoxError> {
        let rounds = args.rounds;
        println!("\n{partitions} partitions, {rounds} interleaved rounds (median, worst to best):");
        let mut broken = Vec::new();
        for group in GROUPS {
            let runs = self.rounds(group, partitions, args)?;
            let first = runs.first().map_or(&[][..], Vec::as_slice);
            for (contestant, runs) in group.iter().zip(&runs) {
                let ratio = print_rate(contestant, first, runs);
                broken.extend(
                    contestant
                        .broken(ratio)
                        .map(|broken| format!("{partitions} partitions: {broken}")),
                );
            }
        }
        Ok(broken)
    }

    /// The runs of each contestant.
    fn rounds(&self, group: &[Contestant], partitions: i32, args: &Args) -> Result<Vec<Vec<Sent>>, BoxError> {
        let mut runs: Vec<Vec<Sent>> = vec![Vec::new(); group.len()];
        for round in 0..=args.rounds {
            let mut order: Vec<_> = runs.iter_mut().zip(group).collect();
            // Each follows now the one, now the other.
            if round % 2 == 1 {
                order.reverse();
            }
            for (runs, contestant) in order {
                let case = case(contestant.name, contestant.mode, contestant.window, partitions);
                let sent = self.timed(&case, args.records / contestant.share)?;
                // The first round warms the broker up.
                if round > 0 {
                    runs.push(sent);
                }
            }
            self.clear()?;
        }
        Ok(runs)
    }

    /// Prints the latency of single records on an idle system, of interleaved rounds.
    #[allow(clippy::print_stdout, reason = "a benchmark prints")]
    fn latency(&self, args: &Args) -> Result<(), BoxError> {
        let (ours, raw) = (
            case("publish", Mode::PublishPaced, 1, 1),
            case("raw BaseProducer", Mode::RawPaced, 1, 1),
        );
        let mut rows: [Vec<Latency>; 3] = Default::default();
        for _ in 0..args.rounds {
            let (ours, raw) = (self.timed(&ours, args.samples)?, self.timed(&raw, args.samples)?);
            let latencies = [ours.latency, raw.latency, raw.callback];
            for (row, latency) in rows.iter_mut().zip(latencies) {
                row.push(latency.ok_or("a paced run has no latency")?);
            }
        }
        println!(
            "\n200 records a second, one at a time, {} rounds of {} (median of the rounds):",
            args.rounds, args.samples
        );
        let names = [
            "publish",
            "raw BaseProducer, until its sender knows",
            "raw BaseProducer, until its callback",
        ];
        let [ours, ..] = &rows;
        for (name, row) in names.iter().zip(&rows) {
            print_latency(name, ours, row);
        }
        Ok(())
    }
}

/// Prints the rate of a contestant; how many times as fast the first one is, the median over rounds.
#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn print_rate(contestant: &Contestant, first: &[Sent], runs: &[Sent]) -> f64 {
    let rate = |sent: &Sent| sent.spent.rate(sent.count);
    let cpu = statistics::median(runs.iter().map(|sent| sent.spent.cpu_micros(sent.count)));
    let ratios = first
        .iter()
        .zip(runs)
        .map(|(first, sent)| rate(first) / rate(sent));
    let ratio = statistics::median(ratios);
    let rates: Vec<f64> = runs.iter().map(|sent| rate(sent) / 1e3).collect();
    let [worst, median, best] = [0.0, 0.5, 1.0].map(|share| statistics::percentile(&rates, share));
    println!(
        "{:40} {median:7.1} k/s ({worst:.1} to {best:.1}) {cpu:7.2} us CPU a record, ours is {ratio:.2} times as fast",
        contestant.name,
    );
    ratio
}

#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn print_latency(name: &str, ours: &[Latency], row: &[Latency]) {
    let median = |of: fn(&Latency) -> f64| {
        let ratios = ours.iter().zip(row).map(|(ours, row)| of(ours) / of(row));
        (statistics::median(row.iter().map(of)), statistics::median(ratios))
    };
    let ((p50, p50_ratio), (p99, p99_ratio)) = (median(|latency| latency.p50), median(|latency| latency.p99));
    println!(
        "{name:44} p50 {p50:6.0} us, p99 {p99:6.0} us; ours takes {p50_ratio:.2} and {p99_ratio:.2} times as long"
    );
}

fn arguments(case: &Case, servers: &str, topic: &str, count: u64) -> Vec<String> {
    let options = [
        ("--servers", servers.to_owned()),
        ("--topic", topic.to_owned()),
        ("--count", count.to_string()),
        ("--window", case.window.to_string()),
    ];
    let options = options
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    std::iter::once(case.mode.name()).chain(options).collect()
}
