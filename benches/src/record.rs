//! The record: 512 bytes of JSON.

use serde::{Deserialize, Serialize};

/// What consumers decode: one owned text field, so one allocation.
#[derive(Debug, Deserialize)]
pub struct Record {
    /// The number.
    pub id: u64,
    /// A text, owned.
    pub user: String,
    /// A number with a fraction.
    pub amount: f64,
}

/// The same, borrowing from the payload: no allocation.
#[derive(Debug, Deserialize)]
pub struct BorrowedRecord<'a> {
    /// The number.
    pub id: u64,
    /// A text, borrowed.
    pub user: &'a str,
    /// A number with a fraction.
    pub amount: f64,
}

/// What producers write: the same with padding, which consumers skip as they decode.
#[derive(Debug, Serialize)]
pub struct FullRecord {
    id: u64,
    user: String,
    amount: f64,
    padding: String,
}

/// A small reply to a record.
#[derive(Debug, Serialize, Deserialize)]
pub struct SmallReply {
    /// The record's number.
    pub id: u64,
    /// Twice that.
    pub total: u64,
}

impl SmallReply {
    /// The reply to a record with that id.
    #[inline]
    pub fn to(id: u64) -> Self {
        Self { id, total: 2 * id }
    }
}

/// The payload's length in bytes.
pub const LENGTH: usize = 512;

/// Large enough that every id has as many digits.
const FIRST_ID: u64 = 1_000_000_000;

/// The id of the record number `n`.
pub fn id(n: u64) -> u64 {
    FIRST_ID + n
}

impl FullRecord {
    /// The record number `n`, as JSON of [`LENGTH`] bytes.
    pub fn payload(n: u64) -> Vec<u8> {
        let mut record = Self {
            id: id(n),
            user: format!("user-{:06}", n % 1_000_000),
            amount: 1_000.25 + (n % 1_000) as f64,
            padding: String::new(),
        };
        let bare = serde_json::to_vec(&record).map_or(0, |json| json.len());
        record.padding = "abcdefghijklmnop".chars().cycle().take(LENGTH - bare).collect();
        serde_json::to_vec(&record).unwrap_or_default()
    }
}

/// The sum of the ids of the first `count` records: the checksum of a run.
pub fn checksum(count: u64) -> u64 {
    count * FIRST_ID + count * (count - 1) / 2
}

/// The sum of the last digits of the ids of the first `count` records.
pub fn checksum_of_last_digits(count: u64) -> u64 {
    (0..count).map(|n| n % 10).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_the_same_length_and_decodes() {
        for n in [0, 7, 999_999, 1_000_000] {
            let payload = FullRecord::payload(n);
            assert_eq!(payload.len(), LENGTH);
            let record: BorrowedRecord<'_> = serde_json::from_slice(&payload).unwrap();
            assert_eq!(record.id, FIRST_ID + n);
        }
        assert_eq!(checksum(3), 3 * FIRST_ID + 3);
        assert_eq!(checksum_of_last_digits(12), 46);
    }
}
