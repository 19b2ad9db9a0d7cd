//! rdkafka's `FutureProducer`.

use std::collections::VecDeque;
use std::ops::Range;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rdkafka::producer::future_producer::{DeliveryFuture, OwnedDeliveryResult};
use rdkafka::producer::{FutureProducer, FutureRecord};
use ruststream::BoxError;

use super::{Args, Mode, Records, Sent, Tally, default_settings, equal_settings, measured};

pub(super) async fn run(args: &Args, records: &Records) -> Result<Sent, BoxError> {
    let config = match args.mode {
        Mode::FutureDefault => default_settings(&args.servers),
        _ => equal_settings(&args.servers),
    };
    let producer: FutureProducer = config.create()?;
    measured(args, async |range, tally: &mut Tally| match args.mode {
        Mode::FutureUnordered => unordered(&producer, records, range, tally, args.window).await,
        _ => window(&producer, records, range, tally, args.window).await,
    })
    .await
}

/// The oldest future is the only one that is waited for: the others wake nobody. Faster than a `FuturesUnordered`, which
/// allocates for each and wakes for each.
async fn window(
    producer: &FutureProducer,
    records: &Records,
    range: Range<u64>,
    tally: &mut Tally,
    window: usize,
) -> Result<(), BoxError> {
    let mut unconfirmed = VecDeque::with_capacity(window);
    for n in range {
        if unconfirmed.len() == window
            && let Some(oldest) = unconfirmed.pop_front()
        {
            confirm(oldest, tally).await?;
        }
        unconfirmed.push_back(send(producer, records, n)?);
    }
    for future in unconfirmed {
        confirm(future, tally).await?;
    }
    Ok(())
}

/// Confirmations come in any order: only their number is checked.
async fn unordered(
    producer: &FutureProducer,
    records: &Records,
    range: Range<u64>,
    tally: &mut Tally,
    window: usize,
) -> Result<(), BoxError> {
    let mut unconfirmed = FuturesUnordered::new();
    for n in range {
        if unconfirmed.len() == window
            && let Some(delivered) = unconfirmed.next().await
        {
            unplaced(delivered?, tally)?;
        }
        unconfirmed.push(send(producer, records, n)?);
    }
    while let Some(delivered) = unconfirmed.next().await {
        unplaced(delivered?, tally)?;
    }
    Ok(())
}

#[inline]
fn send(producer: &FutureProducer, records: &Records, n: u64) -> Result<DeliveryFuture, BoxError> {
    let (key, payload) = records.parts(n);
    let record = FutureRecord::to(records.topic).key(key).payload(payload);
    producer.send_result(record).map_err(|(error, _)| error.into())
}

#[inline]
async fn confirm(future: DeliveryFuture, tally: &mut Tally) -> Result<(), BoxError> {
    let delivery = future.await?.map_err(|(error, _)| error)?;
    tally.confirmed(delivery.partition, delivery.offset)
}

#[inline]
fn unplaced(delivered: OwnedDeliveryResult, tally: &mut Tally) -> Result<(), BoxError> {
    delivered.map_err(|(error, _)| error)?;
    tally.unplaced(1);
    Ok(())
}
