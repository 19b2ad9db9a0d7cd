//! What a person sees: a bar where there is a terminal, plain lines elsewhere, a summary at the end.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ruststream::{Report, SubscriptionReport};

use crate::totals::Totals;

/// Shows how many orders have their invoice.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    count: u64,
    begun: Instant,
    printed: Instant,
}

/// Without a terminal, a line this often.
const LINE: Duration = Duration::from_secs(1);

impl Progress {
    /// Progress towards `count` orders; `u64::MAX` has no end.
    pub(crate) fn new(count: u64) -> Self {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| bar(count));
        Self {
            bar,
            count,
            begun: now,
            printed: now,
        }
    }

    /// Shows the state.
    pub(crate) fn show(&mut self, confirmed: u64, report: &Report) {
        if let Some(bar) = &self.bar {
            bar.set_position(confirmed);
        } else if self.printed.elapsed() >= LINE {
            self.printed = Instant::now();
            let rate = confirmed as f64 / self.begun.elapsed().as_secs_f64();
            let retried: u64 = report
                .subscriptions
                .iter()
                .map(|subscription| subscription.retried)
                .sum();
            let of = if self.count == u64::MAX {
                String::new()
            } else {
                format!(" of {}", self.count)
            };
            println!("confirmed {confirmed}{of} invoices, {rate:.0}/s, {retried} retried");
        }
    }
}

/// The bar stays as it is.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

fn bar(count: u64) -> ProgressBar {
    let (bar, template) = if count == u64::MAX {
        (
            ProgressBar::new_spinner(),
            "{spinner} {human_pos} invoices confirmed, {per_sec}",
        )
    } else {
        (
            ProgressBar::new(count),
            "{bar:40} {human_pos}/{human_len} invoices confirmed, {per_sec}, {eta} left",
        )
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The summary on standard output.
pub(crate) fn summary(report: &Report, invoices: Totals) {
    println!(
        "confirmed {} invoices of this run, {} in all",
        invoices.count,
        invoices.amount()
    );
    for subscription in &report.subscriptions {
        let SubscriptionReport {
            received,
            failed,
            retried,
            dead_lettered,
            committed,
            ..
        } = subscription;
        println!("received  {received}, failed {failed}, retried {retried}, dead-lettered {dead_lettered}");
        for position in committed {
            println!(
                "committed {}/{} at {}",
                position.topic, position.partition, position.offset
            );
        }
    }
    let (seconds, count) = (report.elapsed.as_secs_f64(), invoices.count as f64);
    println!(
        "in {seconds:.1} s, {:.0} orders/s with their invoices",
        count / seconds
    );
}
