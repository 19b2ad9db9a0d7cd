//! Typed keys.

use super::{Context, FromDelivery};
use crate::broker::Delivery;
use crate::{BoxError, Failure};

/// The delivery's key, decoded.
///
/// `Key<&[u8]>` and `Key<&str>` borrow, `Key<String>` and `Key<Vec<u8>>` own, `Key<BigEndian<u64>>` says the encoding
/// of an integer, and `Key<Option<T>>` accepts a null key. A key that does not decode is an undecodable delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<T>(pub T);

impl<'m, T: FromKey<'m>> FromDelivery<'m> for Key<T> {
    fn from_delivery<D: Delivery>(delivery: &'m D, _cx: Context<'m>) -> Result<Self, Failure> {
        T::from_key(delivery.key()).map(Key).map_err(Failure::undecodable)
    }
}

/// A type that a key decodes into.
#[diagnostic::on_unimplemented(
    message = "a key cannot be decoded into `{Self}`",
    note = "use `&[u8]`, `Vec<u8>`, `&str`, `String`, `BigEndian<_>` or `LittleEndian<_>` around an integer, or `Option` of one of these"
)]
pub trait FromKey<'m>: Sized {
    /// Decodes a key; `None` is a null key.
    ///
    /// # Errors
    ///
    /// The key is null, or its bytes do not fit the type.
    fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError>;
}

impl<'m, T: FromKey<'m>> FromKey<'m> for Option<T> {
    fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
        key.map(|key| T::from_key(Some(key))).transpose()
    }
}

impl<'m> FromKey<'m> for &'m [u8] {
    fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
        key.ok_or_else(|| "the key is null: take Key<Option<_>> to accept that".into())
    }
}

impl<'m> FromKey<'m> for Vec<u8> {
    fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
        <&[u8]>::from_key(key).map(<[u8]>::to_vec)
    }
}

impl<'m> FromKey<'m> for &'m str {
    fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
        std::str::from_utf8(<&[u8]>::from_key(key)?)
            .map_err(|error| format!("the key is not UTF-8: {error}").into())
    }
}

impl<'m> FromKey<'m> for String {
    fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
        <&str>::from_key(key).map(str::to_owned)
    }
}

/// An integer key in network byte order, as Kafka's own integer serializers write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BigEndian<T>(pub T);

/// An integer key with the least significant byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LittleEndian<T>(pub T);

macro_rules! integer_keys {
    ($($int:ty),*) => {$(
        impl<'m> FromKey<'m> for BigEndian<$int> {
            fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
                Ok(Self(<$int>::from_be_bytes(array(key)?)))
            }
        }

        impl<'m> FromKey<'m> for LittleEndian<$int> {
            fn from_key(key: Option<&'m [u8]>) -> Result<Self, BoxError> {
                Ok(Self(<$int>::from_le_bytes(array(key)?)))
            }
        }
    )*};
}

integer_keys!(i16, i32, i64, i128, u16, u32, u64, u128);

fn array<const N: usize>(key: Option<&[u8]>) -> Result<[u8; N], BoxError> {
    let key = <&[u8]>::from_key(key)?;
    key.try_into()
        .map_err(|_| format!("the key has {} bytes, the integer needs {N}", key.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_key_says_its_encoding() {
        let bytes = 258_u32.to_be_bytes();
        assert_eq!(BigEndian::<u32>::from_key(Some(&bytes)).unwrap(), BigEndian(258));
        assert_eq!(
            LittleEndian::<u32>::from_key(Some(&bytes)).unwrap(),
            LittleEndian(258_u32.swap_bytes())
        );
        let error = BigEndian::<u64>::from_key(Some(&bytes)).unwrap_err();
        assert_eq!(error.to_string(), "the key has 4 bytes, the integer needs 8");
    }

    #[test]
    fn a_null_key_is_an_error_unless_option_accepts_it() {
        assert!(<&str>::from_key(None).is_err());
        assert_eq!(Option::<&str>::from_key(None).unwrap(), None);
        assert_eq!(Option::<&str>::from_key(Some(b"")).unwrap(), Some(""));
    }
}
