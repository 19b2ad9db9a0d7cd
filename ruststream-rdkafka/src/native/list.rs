//! Topic-partition lists.

use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};

use rdkafka::bindings::{
    rd_kafka_topic_partition_list_add, rd_kafka_topic_partition_list_copy,
    rd_kafka_topic_partition_list_destroy, rd_kafka_topic_partition_list_new,
    rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_t,
};

use super::Code;

/// An owned topic-partition list.
///
/// A list that went through `offsets_store` keeps a reference into the client, and destroying the client waits for it:
/// such a list must be dropped first (see [`PartitionQueue`](super::PartitionQueue)).
pub(crate) struct List(NonNull<rd_kafka_topic_partition_list_t>);

// SAFETY: the list has one owner, and librdkafka ties lists to no thread.
unsafe impl Send for List {}
// SAFETY: shared access only reads (every change takes `&mut self`, or a copy is made).
unsafe impl Sync for List {}

/// One element of a [`List`].
pub(crate) struct Entry<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) code: Code,
}

impl List {
    pub(crate) fn new() -> Self {
        // SAFETY: no precondition; 1 is only the first capacity.
        Self::own(unsafe { rd_kafka_topic_partition_list_new(1) })
    }

    /// A list of whole topics, for `subscribe`.
    pub(crate) fn of_topics<'t>(topics: impl IntoIterator<Item = &'t CString>) -> Self {
        let mut list = Self::new();
        for topic in topics {
            list.add(topic, -1, None);
        }
        list
    }

    /// Appends a partition, with an offset where the call that the list is for needs one.
    pub(crate) fn add(&mut self, topic: &CStr, partition: i32, offset: Option<i64>) {
        // SAFETY: the list is ours, the topic is NUL-terminated and copied; add returns the new element, never null.
        unsafe {
            let element = rd_kafka_topic_partition_list_add(self.0.as_ptr(), topic.as_ptr(), partition);
            if let Some(offset) = offset {
                (*element).offset = offset;
            }
        }
    }

    /// Copies a list that librdkafka owns; `None` for null.
    ///
    /// # Safety
    ///
    /// `list` is null or alive during the call.
    pub(super) unsafe fn copy(list: *const rd_kafka_topic_partition_list_t) -> Option<Self> {
        if list.is_null() {
            return None;
        }
        // SAFETY: alive by the contract of this function.
        Some(Self::own(unsafe { rd_kafka_topic_partition_list_copy(list) }))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        // SAFETY: the list is alive for as long as `self` is borrowed, and nothing changes it meanwhile; `elems` holds
        // `cnt` elements. A topic is NUL-terminated and lives in its element.
        (0..self.len()).map(move |i| unsafe {
            let element = (*self.0.as_ptr()).elems.add(i);
            Entry {
                topic: CStr::from_ptr((*element).topic).to_str().unwrap_or_default(),
                partition: (*element).partition,
                offset: (*element).offset,
                code: Code::read(ptr::addr_of!((*element).err)),
            }
        })
    }

    pub(crate) fn len(&self) -> usize {
        // SAFETY: the list is alive.
        unsafe { (*self.0.as_ptr()).cnt }.try_into().unwrap_or(0)
    }

    pub(super) fn as_ptr(&self) -> *mut rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }

    /// The first element of a list that has one.
    pub(super) fn first_mut(&mut self) -> Option<&mut rd_kafka_topic_partition_t> {
        if self.len() == 0 {
            return None;
        }
        // SAFETY: there is a first element, it is alive with the list, and `&mut self` makes the access exclusive.
        Some(unsafe { &mut *(*self.0.as_ptr()).elems })
    }

    /// Takes over a list that librdkafka made; `None` for null.
    ///
    /// # Safety
    ///
    /// `list` is null or alive, and nobody else destroys it.
    pub(super) unsafe fn take(list: *mut rd_kafka_topic_partition_list_t) -> Option<Self> {
        NonNull::new(list).map(Self)
    }

    fn own(list: *mut rd_kafka_topic_partition_list_t) -> Self {
        Self(NonNull::new(list).expect("librdkafka aborts the process where it cannot allocate"))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: ours, and destroyed once.
        unsafe { rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_yields_what_was_added_in_order() {
        let mut list = List::new();
        list.add(c"orders", 3, Some(42));
        list.add(c"audit", 0, None);
        let found: Vec<_> = list
            .iter()
            .map(|e| (e.topic.to_owned(), e.partition, e.offset))
            .collect();
        assert_eq!(found, [("orders".into(), 3, 42), ("audit".into(), 0, -1001)]);
        assert!(list.iter().all(|e| e.code.is_ok()));
    }
}
