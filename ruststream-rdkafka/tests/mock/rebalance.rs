//! Members come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ruststream::broker::{Broker, End, Partition, StoreError, Subscription};
use tokio::time::timeout;

use crate::support::*;

/// Collects what `member` sees until it has been assigned `count` partitions.
async fn assigned(member: &mut Member, count: usize) -> BTreeSet<i32> {
    let of = |seen: &Seen| {
        if let Seen::Assigned(partition) = seen {
            Some(*partition)
        } else {
            None
        }
    };
    let seen = member
        .until(|seen| seen.iter().filter_map(of).count() == count)
        .await;
    seen.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_member_takes_over_without_gaps_and_kept_partitions_go_on() {
    let broker = cluster("orders", 4).await;
    for partition in 0..4 {
        produce(&broker, "orders", partition, 0..50);
    }
    let mut first = Member::join(&broker, "orders").await;
    assert_eq!(assigned(&mut first, 4).await.len(), 4);

    let mut second = Member::join(&broker, "orders").await;
    let moved = assigned(&mut second, 2).await;
    let is_end = |seen: &&Seen| matches!(seen, Seen::Ended(..));
    let seen = first.until(|seen| seen.iter().filter(is_end).count() == 2).await;
    for seen in seen.iter().filter(is_end) {
        let Seen::Ended(partition, end) = seen else {
            unreachable!()
        };
        assert!(
            moved.contains(partition),
            "partition {partition} ended but did not move"
        );
        assert_eq!(*end, End::Revoked);
    }

    // Kept partitions still deliver to the first member, moved ones to the second.
    for partition in 0..4 {
        produce(&broker, "orders", partition, 50..100);
    }
    let mut last = BTreeMap::new();
    while last.len() < 2 || last.values().any(|offset| *offset < 99) {
        if let Seen::Record {
            partition, offset, ..
        } = first.next().await
            && !moved.contains(&partition)
        {
            last.insert(partition, offset);
        }
    }
    let mut next = BTreeMap::new();
    while next.len() < 2 || next.values().any(|offset| *offset < 100) {
        if let Seen::Record {
            partition,
            offset,
            number,
        } = second.next().await
        {
            assert!(moved.contains(&partition));
            assert_eq!(offset as u64, number);
            // The second member may see again what the first had not stored, but skips nothing.
            let expected = next.entry(partition).or_insert(offset);
            assert!(
                offset <= *expected,
                "records were skipped before {offset} of {partition}"
            );
            *expected = offset + 1;
        }
    }

    // When the second leaves, its partitions come back.
    let committed = by_partition(&second.close().await.unwrap());
    assert!(
        moved.iter().all(|partition| committed[partition] == 100),
        "{committed:?}"
    );
    assert_eq!(assigned(&mut first, 2).await, moved);
    let committed = by_partition(&first.close().await.unwrap());
    assert_eq!(committed.values().filter(|offset| **offset == 100).count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_partition_drains_and_stores_before_the_next_owner_starts() {
    let broker = cluster("orders", 2).await;
    for partition in 0..2 {
        produce(&broker, "orders", partition, 0..10);
    }
    let mut first = subscribe(&broker, "orders").await;
    let mut held = BTreeMap::new();
    for _ in 0..2 {
        let mut partition = accept(&mut first).await;
        take(&mut partition, 10).await;
        held.insert(partition.index(), partition);
    }
    let mut second = subscribe(&broker, "orders").await;
    let (revoked, end) = {
        let (a, b) = held.iter_mut().fold((None, None), |(a, _), (_, p)| {
            if a.is_none() {
                (Some(p), None)
            } else {
                (a, Some(p))
            }
        });
        let (a, b) = (a.unwrap(), b.unwrap());
        tokio::select! { e = end(a) => (a.index(), e), e = end(b) => (b.index(), e) }
    };
    assert_eq!(end, End::Revoked);
    // It is held for a while: nobody else gets it.
    assert!(
        timeout(Duration::from_millis(300), second.accept())
            .await
            .is_err()
    );
    let mut partition = held.remove(&revoked).unwrap();
    partition.store(10).unwrap();
    drop(partition);
    let mut taken_over = accept(&mut second).await;
    assert_eq!(taken_over.index(), revoked);
    produce(&broker, "orders", revoked, [10]);
    assert_eq!(offsets(&take(&mut taken_over, 1).await), [10]);
    drop((taken_over, held));
    let (a, b) = tokio::join!(first.close(soon()), second.close(soon()));
    a.unwrap();
    b.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_is_detached_after_its_drain_timeout_and_moves_nothing() {
    let broker = cluster("orders", 1).await;
    produce(&broker, "orders", 0, 0..10);
    let mut impatient = request("orders");
    impatient.drain_timeout = Duration::from_millis(50);
    let mut first = broker.subscribe(vec![impatient]).await.unwrap().pop().unwrap();
    let mut zombie = accept(&mut first).await;
    take(&mut zombie, 10).await;
    zombie.store(3).unwrap();

    // The only partition moves when the first member leaves, which the zombie delays for its drain timeout only.
    let closing = first.close(tokio::time::Instant::now() + Duration::from_secs(4));
    let committed = by_partition(&timeout(SOON, closing).await.unwrap().unwrap());
    assert_eq!(committed, BTreeMap::from([(0, 3)]));
    assert_eq!(zombie.store(10), Err(StoreError));
    assert_eq!(end(&mut zombie).await, End::Closed);

    let mut second = subscribe(&broker, "orders").await;
    let mut partition = accept(&mut second).await;
    assert_eq!(zombie.store(10), Err(StoreError));
    assert_eq!(
        offsets(&take(&mut partition, 7).await),
        (3..10).collect::<Vec<_>>()
    );
    partition.store(4).unwrap();
    // Its late drop leaves the newer assignment awake.
    drop(zombie);
    produce(&broker, "orders", 0, [10]);
    assert_eq!(offsets(&take(&mut partition, 1).await), [10]);
    drop(partition);
    assert_eq!(
        by_partition(&second.close(soon()).await.unwrap()),
        BTreeMap::from([(0, 4)])
    );
}

/// One member under each protocol: what differs is how assignments are answered. A second member of a classic group
/// waits for nearly a session timeout on the mock cluster; real brokers are faster, and tested elsewhere.
async fn classic(strategy: &str) {
    let broker = cluster("orders", 2)
        .await
        .set("group.protocol", "classic")
        .set("partition.assignment.strategy", strategy);
    for partition in 0..2 {
        produce(&broker, "orders", partition, 0..10);
    }
    let mut member = Member::join(&broker, "orders").await;
    member.records(20).await;
    let committed = by_partition(&member.close().await.unwrap());
    assert_eq!(committed, BTreeMap::from([(0, 10), (1, 10)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_group_with_eager_assignors_is_served() {
    classic("range,roundrobin").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_group_with_the_cooperative_assignor_is_served() {
    classic("cooperative-sticky").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_in_the_middle_of_a_revocation_ends_in_time() {
    let broker = cluster("orders", 2).await;
    for partition in 0..2 {
        produce(&broker, "orders", partition, 0..10);
    }
    let mut first = subscribe(&broker, "orders").await;
    let (mut a, mut b) = (accept(&mut first).await, accept(&mut first).await);
    for partition in [&mut a, &mut b] {
        take(partition, 10).await;
        partition.store(6).unwrap();
    }
    let mut second = subscribe(&broker, "orders").await;
    let (revoked, kept) = tokio::select! { _ = end(&mut a) => (a, b), _ = end(&mut b) => (b, a) };
    drop(kept);
    // The revoked partition is never dropped: its drain timeout of 5 s would outlast the close.
    let closing = first.close(tokio::time::Instant::now() + Duration::from_secs(2));
    let committed = by_partition(&timeout(Duration::from_secs(3), closing).await.unwrap().unwrap());
    assert_eq!(committed, BTreeMap::from([(0, 6), (1, 6)]));
    for _ in 0..2 {
        let mut partition = accept(&mut second).await;
        assert_eq!(
            offsets(&take(&mut partition, 4).await),
            (6..10).collect::<Vec<_>>()
        );
    }
    drop(revoked);
    second.close(soon()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_nobody_accepted_do_not_hold_up_a_rebalance() {
    let broker = cluster("orders", 2).await;
    let first = subscribe(&broker, "orders").await;
    let mut second = subscribe(&broker, "orders").await;
    let begun = tokio::time::Instant::now();
    accept(&mut second).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop(first);
    second.close(soon()).await.unwrap();
}
