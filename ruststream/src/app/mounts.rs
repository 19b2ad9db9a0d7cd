//! Handlers on a broker: typed up to here, erased from here.

use std::sync::Arc;

use super::Stopping;
use crate::broker::Broker;
use crate::dispatch::{Counters, PartitionOf, Serving, Start, serve};
use crate::handler::{Requirements, States};
use crate::memory::MemoryBroker;
use crate::subscription::{Options, Settings};
use crate::{Handler, IntoSubscriber};

/// The handlers mounted on one broker: what the closure of [`RustStream::broker`](crate::RustStream::broker) fills.
#[must_use = "return the mounts from the closure: `|kafka| kafka.mount(bill)`"]
pub struct Mounts<B: Broker> {
    pub(super) mounted: Vec<Mounted<B>>,
}

/// One handler, erased: it can start on its broker's partitions, and on those of the memory broker in tests.
pub(super) struct Mounted<B: Broker> {
    pub(super) name: Arc<str>,
    pub(super) topic: String,
    pub(super) options: Options,
    pub(super) requirements: Requirements,
    pub(super) counters: Arc<Counters>,
    pub(super) start: MakeStart<B>,
    pub(super) start_in_memory: MakeStart<MemoryBroker>,
}

/// Makes the start of a handler's partition loops, once its surroundings are known.
pub(super) type MakeStart<B> = Box<dyn FnOnce(Surroundings<B>) -> Start<PartitionOf<B>> + Send>;

/// What a mounted handler gets from its app at start-up.
pub(super) struct Surroundings<B: Broker> {
    pub(super) settings: Settings,
    pub(super) states: Arc<States>,
    pub(super) stopping: Stopping,
    /// Of the broker, if any of its handlers needs one.
    pub(super) publisher: Option<B::Publisher>,
}

impl<B: Broker> Mounts<B> {
    pub(super) fn new() -> Self {
        Self { mounted: Vec::new() }
    }

    /// Mounts a subscriber: a function annotated with `#[subscriber]`, or a [`Subscriber`](crate::Subscriber).
    pub fn mount(mut self, subscriber: impl IntoSubscriber) -> Self {
        let subscriber = subscriber.into_subscriber();
        let name: Arc<str> = subscriber.name.into();
        let counters = Arc::new(Counters::default());
        let handler = Arc::new(subscriber.handler);
        let mut requirements = Requirements::default();
        handler.requires(&mut requirements);
        self.mounted.push(Mounted {
            start: start(&name, &handler, &counters),
            start_in_memory: start(&name, &handler, &counters),
            name,
            topic: subscriber.topic,
            options: subscriber.options,
            requirements,
            counters,
        });
        self
    }
}

impl<B: Broker> std::fmt::Debug for Mounts<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.mounted.iter().map(|mounted| &mounted.name))
            .finish()
    }
}

fn start<B: Broker, H: Handler>(name: &Arc<str>, handler: &Arc<H>, counters: &Arc<Counters>) -> MakeStart<B> {
    let (name, handler, counters) = (Arc::clone(name), Arc::clone(handler), Arc::clone(counters));
    Box::new(
        move |Surroundings {
                  settings,
                  states,
                  stopping,
                  publisher,
              }| {
            let serving: Arc<Serving<B, H>> = Arc::new(Serving {
                name,
                handler,
                settings,
                states,
                counters,
                stopping,
                publisher,
            });
            Box::new(move |partition| Box::pin(serve(partition, Arc::clone(&serving))))
        },
    )
}
