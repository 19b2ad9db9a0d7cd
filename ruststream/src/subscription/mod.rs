//! What a user declares: a handler's membership in a topic, with its options.

use std::time::Duration;

/// How long a revoked partition may take to drain, unless set otherwise: 5 s, well below any sane rebalance timeout
/// (`max.poll.interval.ms` is 5 min by default), because the whole group waits meanwhile.
pub(crate) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
