//! What orders and invoices come to, and whether it is the same.

use std::cmp::Ordering;

/// How many, and their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) count: u64,
    pub(crate) cents: u64,
}

/// Compares the invoices with the orders that they are for.
///
/// # Errors
///
/// They differ; the text says how.
pub(crate) fn compare(orders: Totals, invoices: Totals) -> Result<(), String> {
    if orders == invoices {
        return Ok(());
    }
    let why = match invoices.count.cmp(&orders.count) {
        Ordering::Less => "an order was lost, or could not be billed",
        Ordering::Equal => "an order was billed wrongly",
        Ordering::Greater => "an order was billed twice, as may happen when it was delivered again",
    };
    Err(format!(
        "{} orders were made, {} in all, and {} invoices were confirmed, {} in all: {why}",
        orders.count,
        orders.amount(),
        invoices.count,
        invoices.amount()
    ))
}

impl Totals {
    /// The sum in whole units.
    pub(crate) fn amount(self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_match_is_said_with_both_sums() {
        let orders = Totals {
            count: 20_000,
            cents: 100_020_000,
        };
        assert_eq!(compare(orders, orders), Ok(()));
        let less = Totals {
            count: 19_999,
            cents: 100_019_005,
        };
        assert_eq!(
            compare(orders, less).unwrap_err(),
            "20000 orders were made, 1000200.00 in all, and 19999 invoices were confirmed, 1000190.05 in all: an order was \
             lost, or could not be billed"
        );
        let wrong = compare(orders, Totals { cents: 0, ..orders }).unwrap_err();
        assert!(wrong.ends_with("an order was billed wrongly"), "{wrong}");
        let more = compare(
            orders,
            Totals {
                count: 20_001,
                ..orders
            },
        )
        .unwrap_err();
        assert!(more.contains("billed twice"), "{more}");
    }
}
