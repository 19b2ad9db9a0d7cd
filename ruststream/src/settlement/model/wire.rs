//! A scripted publisher.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::broker::Receipt;
use crate::{Confirmed, PublishError, PublishErrorKind, Record};

/// What is under way, with room for so many more.
#[derive(Debug, Default)]
pub(super) struct Wire {
    room: usize,
    sent: u64,
    /// By number; in the order in which they were sent.
    unresolved: Vec<u64>,
    resolved: Arc<Mutex<HashMap<u64, bool>>>,
}

/// The receipt of a record on the wire.
#[derive(Debug)]
pub(super) struct OnWire {
    number: u64,
    resolved: Arc<Mutex<HashMap<u64, bool>>>,
}

impl Wire {
    /// What is sent does not matter.
    pub(super) fn record() -> Box<Record> {
        Box::new(Record::tombstone("out"))
    }

    pub(super) fn give_room(&mut self, records: usize) {
        self.room = self.room.saturating_add(records);
    }

    pub(super) fn try_send(&mut self) -> Option<OnWire> {
        self.room = self.room.checked_sub(1)?;
        Some(self.send())
    }

    /// Waits for room, no time.
    pub(super) fn send(&mut self) -> OnWire {
        self.sent += 1;
        self.unresolved.push(self.sent);
        OnWire {
            number: self.sent,
            resolved: Arc::clone(&self.resolved),
        }
    }

    pub(super) fn unresolved(&self) -> usize {
        self.unresolved.len()
    }

    pub(super) fn resolve(&mut self, record: usize, ok: bool) {
        let number = self.unresolved.remove(record);
        self.resolved.lock().unwrap().insert(number, ok);
    }
}

impl Receipt for OnWire {
    fn now(&mut self) -> Option<Result<Confirmed, PublishError>> {
        let ok = self.resolved.lock().unwrap().remove(&self.number)?;
        Some(if ok {
            Ok(Confirmed::new(0, 0, None))
        } else {
            Err(PublishError::new(PublishErrorKind::TimedOut, "scripted"))
        })
    }
}

impl Future for OnWire {
    type Output = Result<Confirmed, PublishError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.now().map_or(Poll::Pending, Poll::Ready)
    }
}
