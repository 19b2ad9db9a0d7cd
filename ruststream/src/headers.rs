//! Record headers: an ordered, case-sensitive multimap with nullable byte values.

use std::borrow::Cow;

/// The headers of a delivery, in the order in which the producer wrote them.
///
/// Names are case-sensitive and may repeat; a value may be null, which is not the same as empty. Building this view
/// costs allocations (librdkafka parses headers on first access), so it is built only when a handler asks for it.
///
/// ```
/// use ruststream::Headers;
///
/// let headers: Headers<'_> = [("trace", Some(&b"a"[..])), ("trace", None)].into_iter().collect();
/// assert_eq!(headers.len(), 2);
/// assert_eq!(headers.get("trace"), Some(Some(&b"a"[..])));
/// assert_eq!(headers.get("Trace"), None);
/// assert_eq!(headers.all("trace").collect::<Vec<_>>(), [Some(&b"a"[..]), None]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    entries: Vec<Header<'a>>,
}

/// Name and value.
type Header<'a> = (Cow<'a, str>, Option<&'a [u8]>);

impl<'a> Headers<'a> {
    /// No headers.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// The first value of `name`: `None` when there is no such header, `Some(None)` when its value is null.
    pub fn get(&self, name: &str) -> Option<Option<&'a [u8]>> {
        self.all(name).next()
    }

    /// Every value of `name`, in order.
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a, 's> {
        self.entries
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| *value)
    }

    /// Every header, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&'a [u8]>)> {
        self.entries.iter().map(|(name, value)| (&**name, *value))
    }

    /// How many headers there are, repeated names counted each time.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Collects names and values; a name is a `&str`, or a `Cow` where a broker had to repair invalid UTF-8.
impl<'a, N: Into<Cow<'a, str>>> FromIterator<(N, Option<&'a [u8]>)> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = (N, Option<&'a [u8]>)>>(headers: I) -> Self {
        Self {
            entries: headers
                .into_iter()
                .map(|(name, value)| (name.into(), value))
                .collect(),
        }
    }
}
