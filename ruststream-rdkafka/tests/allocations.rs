//! In steady state a publisher allocates nothing: what a record allocates, its sender has allocated.
//!
//! A binary of its own: the allocator that counts is the whole process's. librdkafka's own memory is not counted.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::VecDeque;

use ruststream::Record;
use ruststream::broker::Publisher;
use ruststream_rdkafka::{KafkaBroker, KafkaPublisher, KafkaReceipt};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const WINDOW: usize = 1_000;

/// Publishes `count` records, each with one block for its payload.
async fn publish(publisher: &KafkaPublisher, under_way: &mut VecDeque<KafkaReceipt>, count: usize) {
    for number in 0..count {
        let partition = (number % 4) as i32;
        let record = Record::new("orders", vec![b'x'; 100]).to_partition(partition);
        under_way.push_back(publisher.send(record).await.unwrap());
        if under_way.len() == WINDOW {
            under_way.pop_front().unwrap().await.unwrap();
        }
    }
    while let Some(receipt) = under_way.pop_front() {
        receipt.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_costs_the_block_that_its_sender_allocated() {
    const COUNT: usize = 20_000;
    let _counting = dhat::Profiler::builder().testing().build();
    let broker = KafkaBroker::embedded();
    broker.create_topic("orders", 4).await.unwrap();
    let publisher = broker.publisher().unwrap();
    let mut under_way = VecDeque::with_capacity(WINDOW);
    publish(&publisher, &mut under_way, COUNT).await;
    let before = dhat::HeapStats::get().total_blocks;
    publish(&publisher, &mut under_way, COUNT).await;
    let blocks = dhat::HeapStats::get().total_blocks - before;
    // The runtime's own housekeeping is a handful.
    let beyond = blocks.saturating_sub(COUNT as u64);
    assert!(
        beyond < 100,
        "{beyond} blocks beyond the payloads of {COUNT} records"
    );
}
