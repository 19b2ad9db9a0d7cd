//! Statistics over rounds.

/// The middle value; of an even number of values, the mean of the two in the middle. `NaN` of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (middle, even) = (values.len() / 2, values.len().is_multiple_of(2));
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    if even {
        f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
    } else {
        at(middle)
    }
}

/// The value that a share of all, from 0 to 1, does not exceed: the nearest rank. `NaN` of none.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_known_values() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert!((percentile(&values, 0.5) - 100.0).abs() < f64::EPSILON);
        assert!((percentile(&values, 0.99) - 198.0).abs() < f64::EPSILON);
        assert!((percentile(&values, 0.0) - 1.0).abs() < f64::EPSILON);
        assert!(percentile(&[], 0.5).is_nan());
    }
}
