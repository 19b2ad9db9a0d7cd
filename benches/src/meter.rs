//! Clocks and counters of a measured program; what a measured consumer counts, and the line that it prints.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ruststream::BoxError;
use serde::{Deserialize, Serialize};

/// Counts records; reads clocks at the first and the last one.
#[derive(Debug)]
pub struct Meter {
    count: u64,
    hold: Duration,
    seen: AtomicU64,
    sum: AtomicU64,
    marks: Mutex<(Option<Mark>, Option<Mark>)>,
}

/// A moment in a measured program.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    at: Instant,
    cpu: Duration,
    blocks: u64,
}

/// What passed between two moments.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Spent {
    /// Time.
    pub seconds: f64,
    /// CPU time of the whole process, user and system.
    pub cpu_seconds: f64,
    /// Heap blocks that Rust code allocated; 0 without the dhat allocator.
    pub blocks: u64,
}

impl Spent {
    /// So many records a second.
    pub fn rate(&self, records: u64) -> f64 {
        records as f64 / self.seconds
    }

    /// CPU time of the whole process for each of so many records, in microseconds.
    pub fn cpu_micros(&self, records: u64) -> f64 {
        self.cpu_seconds * 1e6 / records as f64
    }

    /// Heap blocks for each of so many records.
    pub fn blocks_each(&self, records: u64) -> f64 {
        self.blocks as f64 / records as f64
    }
}

/// What a run measured: one line of JSON on standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Records handled.
    pub count: u64,
    /// The sum of their ids.
    pub sum: u64,
    /// From the first record to the last.
    #[serde(flatten)]
    pub spent: Spent,
}

impl Measured {
    /// Records a second.
    pub fn rate(&self) -> f64 {
        self.spent.rate(self.count - 1)
    }

    /// CPU time of the whole process a record, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        self.spent.cpu_micros(self.count - 1)
    }

    /// Heap blocks a record.
    pub fn blocks_each(&self) -> f64 {
        self.spent.blocks_each(self.count - 1)
    }

    /// Fails unless every record was seen once: by their number and the sum of their ids.
    ///
    /// # Errors
    ///
    /// It says what was seen instead.
    pub fn check(self, count: u64, sum: u64) -> Result<Self, BoxError> {
        if (self.count, self.sum) == (count, sum) {
            return Ok(self);
        }
        let (seen, seen_sum) = (self.count, self.sum);
        Err(
            format!("the run saw {seen} records with sum {seen_sum}, not {count} with sum {sum}: no figure")
                .into(),
        )
    }
}

impl Meter {
    /// Expects `count` records. The first one waits for `hold`, blocking, so that the client has fetched everything.
    pub fn new(count: u64, hold: Duration) -> Self {
        Self {
            count,
            hold,
            seen: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            marks: Mutex::default(),
        }
    }

    /// One record was handled. `true` for the last one.
    #[inline]
    pub fn hit(&self, id: u64) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        self.sum.fetch_add(id, Ordering::Relaxed);
        if seen == 1 {
            self.first();
        } else if seen == self.count {
            self.last();
        }
        seen == self.count
    }

    #[cold]
    fn first(&self) {
        hold(self.hold);
        if let Ok(mut marks) = self.marks.lock() {
            marks.0 = Some(Mark::now());
        }
    }

    /// The end of what is measured, where it is not the last record.
    pub fn end(&self) {
        self.last();
    }

    #[cold]
    fn last(&self) {
        if let Ok(mut marks) = self.marks.lock() {
            marks.1 = Some(Mark::now());
        }
    }

    /// What was measured; call it when nothing is consumed any more.
    ///
    /// # Errors
    ///
    /// Fewer records came.
    pub fn measured(&self) -> Result<Measured, BoxError> {
        let (Some(first), Some(last)) = *self.marks.lock().map_err(|_| "the meter is poisoned")? else {
            let seen = self.seen.load(Ordering::Relaxed);
            return Err(format!("only {seen} of {} records came", self.count).into());
        };
        Ok(Measured {
            count: self.seen.load(Ordering::Relaxed),
            sum: self.sum.load(Ordering::Relaxed),
            spent: first.until(last),
        })
    }
}

/// Blocks this thread so long: the client's threads get done what they have.
pub fn hold(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

impl Mark {
    /// Now.
    pub fn now() -> Self {
        let cpu = cpu_time::ProcessTime::try_now().map_or(Duration::ZERO, |time| time.as_duration());
        Self {
            at: Instant::now(),
            cpu,
            blocks: BLOCKS.get().map_or(0, |blocks| blocks()),
        }
    }

    /// What passed from this moment to a later one.
    pub fn until(self, last: Self) -> Spent {
        Spent {
            seconds: (last.at - self.at).as_secs_f64(),
            cpu_seconds: last.cpu.saturating_sub(self.cpu).as_secs_f64(),
            blocks: last.blocks - self.blocks,
        }
    }
}

/// How many heap blocks were allocated so far; set by the program that counts them.
pub static BLOCKS: std::sync::OnceLock<fn() -> u64> = std::sync::OnceLock::new();
