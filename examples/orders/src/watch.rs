//! Looks on until every order has its invoice.

use std::time::{Duration, Instant};

use ruststream::{BoxError, Report, Running};
use tokio::signal::ctrl_c;

use crate::producer::Producer;
use crate::progress::Progress;
use crate::service::Billing;
use crate::totals::Totals;

/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Without an order settled for so long, there is no point in waiting: above the 45 s after which a group gives up a member
/// that crashed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shows progress until each order that was made has its confirmed invoice; yields the orders.
///
/// # Errors
///
/// No more can be expected: the producer failed, the app stopped, nothing moves, or it is a second Ctrl-C.
pub(crate) async fn watch(
    running: &Running,
    producer: &mut Producer,
    billing: &Billing,
    count: u64,
) -> Result<Totals, BoxError> {
    let mut progress = Progress::new(count);
    let mut stall = Stall::new();
    let mut tick = tokio::time::interval(TICK);
    let mut interrupt = std::pin::pin!(ctrl_c());
    let mut made: Option<Totals> = None;
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let report = running.report();
                let confirmed = billing.invoices(&report).count;
                progress.show(confirmed, &report);
                match made {
                    Some(made) if confirmed >= made.count => return Ok(made),
                    _ if running.is_stopping() => return Err("the service stopped".into()),
                    _ => stall.check(&report)?,
                }
            }
            total = producer.end(), if made.is_none() => made = Some(total?),
            interrupted = &mut interrupt => {
                interrupted?;
                if producer.is_stopped() {
                    return Err("interrupted: orders without an invoice are left to the next run".into());
                }
                producer.stop();
                interrupt.set(ctrl_c());
            }
        }
    }
}

/// Notices when nothing moves.
struct Stall {
    settled: u64,
    since: Instant,
}

impl Stall {
    fn new() -> Self {
        Self {
            settled: 0,
            since: Instant::now(),
        }
    }

    fn check(&mut self, report: &Report) -> Result<(), String> {
        let settled = report.subscriptions.iter().map(|each| each.settled).sum();
        if settled != self.settled {
            self.settled = settled;
            self.since = Instant::now();
        }
        if self.since.elapsed() > PATIENCE {
            return Err(format!(
                "no order was settled for {PATIENCE:?}: check the cluster, and that no other run shares its topics"
            ));
        }
        Ok(())
    }
}
