//! Raw loops that reply to each record: `StreamConsumer` in, `FutureProducer` out.

use std::collections::VecDeque;
use std::hint::black_box;

use futures_util::FutureExt;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::future_producer::{DeliveryFuture, OwnedDeliveryResult};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use ruststream::BoxError;

use super::{Args, raw_consumer, replies};
use crate::meter::{Measured, Meter};
use crate::producer::equal_settings;
use crate::record::{BorrowedRecord, SmallReply};

/// As many as `KafkaBroker` lets be unconfirmed by default.
const WINDOW: usize = 4_096;

fn producer(args: &Args, linger: &str) -> Result<FutureProducer, BoxError> {
    let mut config = equal_settings(&args.servers);
    Ok(config.set("linger.ms", linger).create()?)
}

/// The id of the record.
#[inline]
fn decode(message: &BorrowedMessage<'_>) -> Result<u64, BoxError> {
    let payload = message.payload().ok_or("a record without payload")?;
    let record: BorrowedRecord<'_> = serde_json::from_slice(payload)?;
    Ok(black_box(record).id)
}

/// Writes the reply over what `buffer` holds; it goes under the source's key.
#[inline]
fn record<'a>(
    topic: &'a str,
    source: &'a BorrowedMessage<'_>,
    id: u64,
    buffer: &'a mut Vec<u8>,
) -> Result<FutureRecord<'a, [u8], [u8]>, BoxError> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, &SmallReply::to(id))?;
    Ok(FutureRecord {
        key: source.key(),
        ..FutureRecord::to(topic).payload(buffer.as_slice())
    })
}

/// With so many replies on their way, the oldest is awaited. As a service does not on a quiet topic, it stores no offset
/// until then: a loop for such a topic is longer.
pub(super) async fn pipelined(args: &Args, meter: Meter) -> Result<Measured, BoxError> {
    let (consumer, producer) = (raw_consumer(args, true)?, producer(args, "1")?);
    let (topic, mut buffer) = (replies(&args.topic), Vec::new());
    let mut pipeline = Pipeline::new(&consumer, &args.topic);
    for _ in 0..args.count {
        if pipeline.unconfirmed.len() == WINDOW {
            pipeline.settle().await?;
        }
        let source = consumer.recv().await?;
        let id = decode(&source)?;
        let sent = producer.send_result(record(&topic, &source, id, &mut buffer)?);
        let delivery = sent.map_err(|(error, _)| error)?;
        pipeline
            .unconfirmed
            .push_back((source.partition(), source.offset(), delivery));
        meter.hit(id);
    }
    while !pipeline.unconfirmed.is_empty() {
        pipeline.settle().await?;
    }
    meter.end();
    all_confirmed(pipeline.confirmed, args)?;
    meter.measured()
}

/// The replies that are on their way, in the order of their sources.
struct Pipeline<'a> {
    consumer: &'a StreamConsumer,
    topic: &'a str,
    /// The place of the source, and its reply.
    unconfirmed: VecDeque<(i32, i64, DeliveryFuture)>,
    /// By partition: the last source that is replied to and not stored.
    replied: Vec<Option<i64>>,
    confirmed: u64,
}

impl<'a> Pipeline<'a> {
    fn new(consumer: &'a StreamConsumer, topic: &'a str) -> Self {
        Self {
            consumer,
            topic,
            unconfirmed: VecDeque::with_capacity(WINDOW),
            replied: Vec::new(),
            confirmed: 0,
        }
    }

    /// Waits for the oldest reply, takes those that are confirmed with it, and stores an offset for each partition: one
    /// wake and one call for many records.
    async fn settle(&mut self) -> Result<(), BoxError> {
        let Some((partition, offset, delivery)) = self.unconfirmed.pop_front() else {
            return Ok(());
        };
        self.confirm(partition, offset, delivery.await?)?;
        while let Some((partition, offset, delivery)) = self.unconfirmed.front_mut() {
            let (partition, offset) = (*partition, *offset);
            let Some(delivered) = delivery.now_or_never() else {
                break;
            };
            self.confirm(partition, offset, delivered?)?;
            self.unconfirmed.pop_front();
        }
        self.store()
    }

    #[inline]
    fn confirm(
        &mut self,
        partition: i32,
        offset: i64,
        delivered: OwnedDeliveryResult,
    ) -> Result<(), BoxError> {
        delivered.map_err(|(error, _)| error)?;
        let partition = usize::try_from(partition)?;
        if partition >= self.replied.len() {
            self.replied.resize(partition + 1, None);
        }
        if let Some(replied) = self.replied.get_mut(partition) {
            *replied = Some(offset);
        }
        self.confirmed += 1;
        Ok(())
    }

    fn store(&mut self) -> Result<(), BoxError> {
        for (partition, replied) in (0..).zip(&mut self.replied) {
            if let Some(offset) = replied.take() {
                self.consumer.store_offset(self.topic, partition, offset)?;
            }
        }
        Ok(())
    }
}

/// One record at a time. Nothing is sent beside the reply, so it does not linger.
pub(super) async fn each(args: &Args, meter: Meter) -> Result<Measured, BoxError> {
    let (consumer, producer) = (raw_consumer(args, true)?, producer(args, "0")?);
    let (topic, mut buffer) = (replies(&args.topic), Vec::new());
    let mut confirmed = 0;
    while confirmed < args.count {
        let source = consumer.recv().await?;
        let id = decode(&source)?;
        let reply = record(&topic, &source, id, &mut buffer)?;
        producer
            .send(reply, Timeout::Never)
            .await
            .map_err(|(error, _)| error)?;
        consumer.store_offset_from_message(&source)?;
        confirmed += 1;
        meter.hit(id);
    }
    meter.measured()
}

fn all_confirmed(confirmed: u64, args: &Args) -> Result<(), BoxError> {
    if confirmed == args.count {
        return Ok(());
    }
    let count = args.count;
    Err(format!("{confirmed} replies were confirmed, not {count}: no figure").into())
}
