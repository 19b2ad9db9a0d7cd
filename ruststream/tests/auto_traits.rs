//! What may move to another thread, be shared, or be moved while pinned: as a user expects, and as long as it is public.

use ruststream::broker::{Commit, Committed, End, StoreError, SubscribeRequest};
use ruststream::memory::{
    MemoryBroker, MemoryDelivery, MemoryMember, MemoryPartition, MemoryRecord, MemorySubscription,
};
use ruststream::prelude::*;
use ruststream::testing::TestApp;
use ruststream::{
    Context, Error, ErrorKind, Failure, FailureKind, Mounts, Problem, Requirements, Running, StopHandle,
    SubscriptionReport,
};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_unpin<T: Unpin>() {}
fn is_plain<T: Send + Sync + Unpin + 'static>() {}
fn sends<T: Send>(_: &T) {}

#[subscriber("orders")]
async fn bill(_order: &[u8]) {}

#[test]
fn values_of_the_api_are_send_sync_and_unpin() {
    is_plain::<Error>();
    is_plain::<ErrorKind>();
    is_plain::<Problem>();
    is_plain::<Outcome>();
    is_plain::<Failure>();
    is_plain::<FailureKind>();
    is_plain::<Permanent>();
    is_plain::<RetryPolicy>();
    is_plain::<ProcessingOrder>();
    is_plain::<Subscriber<bill>>();
    is_plain::<Report>();
    is_plain::<SubscriptionReport>();
    is_plain::<StopHandle>();
    is_plain::<Shutdown>();
    is_plain::<Requirements>();
    is_plain::<Commit>();
    is_plain::<Committed>();
    is_plain::<End>();
    is_plain::<StoreError>();
    is_plain::<SubscribeRequest>();
}

#[test]
fn what_a_handler_is_lent_may_live_across_an_await() {
    is_plain::<Context<'static>>();
    is_plain::<Headers<'static>>();
    is_plain::<Meta<'static>>();
    is_plain::<State<'static, String>>();
    is_plain::<Key<String>>();
}

/// The builder holds boxed hooks, which need not be shareable.
#[test]
fn an_app_moves_to_another_thread() {
    is_send::<RustStream>();
    is_unpin::<RustStream>();
    is_send::<Mounts<MemoryBroker>>();
}

#[test]
fn a_running_app_is_shared_with_tasks() {
    is_plain::<Running>();
    is_plain::<TestApp>();
}

#[test]
fn the_memory_broker_is_shared_and_its_partitions_move() {
    is_plain::<MemoryBroker>();
    is_plain::<MemoryRecord>();
    is_plain::<MemoryDelivery>();
    is_plain::<MemoryMember>();
    is_sync::<MemorySubscription>();
    is_send::<MemorySubscription>();
    is_send::<MemoryPartition>();
    is_unpin::<MemoryPartition>();
}

/// Made and never polled: whether they can be spawned is a question of types.
#[test]
fn futures_of_the_api_can_be_spawned() {
    let app = || RustStream::new("billing").broker(MemoryBroker::new(), |mounts| mounts.mount(bill()));
    sends(&app().run());
    sends(&app().start());
    sends(&TestApp::start(app()));
    sends(&TestApp::start_on(app(), MemoryBroker::new()));
    let wait = |running: Running| sends(&running.wait());
    let test = |app: TestApp| {
        sends(&app.settled());
        sends(&app.stop());
    };
    let stopped = |app: TestApp| sends(&app.stopped());
    let _ = (wait, test, stopped);
}
